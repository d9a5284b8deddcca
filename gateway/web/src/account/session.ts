// Who is signed in. OpenID Connect with PKCE against the issuer that /config.json names; the token stays in this
// tab (sessionStorage), goes out in headers only, and is gone after signing out or closing the tab.

import { computed, signal } from "@preact/signals";

import { Refusal, type Tokens } from "../api/client.ts";
import { challengeOf, claimsOf, randomText } from "./pkce.ts";

export interface Session {
  accessToken: string;
  idToken: string;
  account: string;
  /** Mail address or name, for showing. */
  label: string;
  expiresMs: number;
}

interface Provider {
  clientId: string;
  issuer: string;
  authorizationEndpoint: string;
  tokenEndpoint: string;
  endSessionEndpoint: string;
}

interface Attempt {
  state: string;
  nonce: string;
  verifier: string;
  returnTo: string;
}

const SESSION = "rowlock.session";
const ATTEMPT = "rowlock.sign-in";
const EVERYTHING_OF_AN_ACCOUNT = "rowlock.";

export const session = signal<Session | null>(stored<Session>(SESSION));
export const signedIn = computed(() => session.value !== null);
/** Set when the server no longer took the token, so that the sign-in prompt can say why it is there. */
export const signInEnded = signal(false);

export function userTokens(): Tokens {
  return session.value ? { user: session.value.accessToken } : {};
}

/** Sends the person to the issuer; they come back to /callback and then to `returnTo`. */
export async function signIn(returnTo: string): Promise<void> {
  const provider = await findProvider();
  const attempt: Attempt = { state: randomText(16), nonce: randomText(16), verifier: randomText(), returnTo };
  sessionStorage.setItem(ATTEMPT, JSON.stringify(attempt));
  const query = new URLSearchParams({
    response_type: "code",
    client_id: provider.clientId,
    redirect_uri: redirectUri(),
    scope: "openid email profile",
    state: attempt.state,
    nonce: attempt.nonce,
    code_challenge: await challengeOf(attempt.verifier),
    code_challenge_method: "S256",
  });
  location.assign(`${provider.authorizationEndpoint}?${query}`);
}

/** Trades the code in the callback's address for a session; returns where the person wanted to go. */
export async function completeSignIn(query: URLSearchParams): Promise<string> {
  const attempt = stored<Attempt>(ATTEMPT);
  sessionStorage.removeItem(ATTEMPT);
  const code = query.get("code");
  if (!attempt || query.get("state") !== attempt.state)
    throw new SignInFailed("This sign-in was not begun in this tab.");
  if (!code) throw new SignInFailed(query.get("error_description") ?? "The sign-in was called off.");
  const session_ = await exchange(await findProvider(), code, attempt);
  begin(session_);
  return attempt.returnTo;
}

/** Forgets the session and every position and admission that went with it. */
export async function signOut(): Promise<void> {
  const idToken = session.value?.idToken ?? "";
  end();
  const { endSessionEndpoint } = await findProvider();
  if (!endSessionEndpoint || !idToken) return;
  const query = new URLSearchParams({ id_token_hint: idToken, post_logout_redirect_uri: `${location.origin}/` });
  location.assign(`${endSessionEndpoint}?${query}`);
}

/** Ends the session here when the server refused its token. Says whether it did. */
export function endIfRefused(error: unknown): boolean {
  if (!(error instanceof Refusal) || error.status !== 401 || !session.value) return false;
  end();
  signInEnded.value = true;
  return true;
}

export class SignInFailed extends Error {}

async function exchange(provider: Provider, code: string, attempt: Attempt): Promise<Session> {
  const response = await fetch(provider.tokenEndpoint, {
    method: "POST",
    credentials: "omit",
    body: new URLSearchParams({
      grant_type: "authorization_code",
      code,
      client_id: provider.clientId,
      redirect_uri: redirectUri(),
      code_verifier: attempt.verifier,
    }),
  });
  if (!response.ok) throw new SignInFailed("The identity provider did not accept this sign-in. Try again.");
  const answer = (await response.json()) as { access_token: string; id_token?: string; expires_in?: number };
  return sessionOf(answer, attempt.nonce);
}

function sessionOf(answer: { access_token: string; id_token?: string; expires_in?: number }, nonce: string): Session {
  const identity = claimsOf(answer.id_token ?? "");
  const access = claimsOf(answer.access_token);
  if (answer.id_token && identity["nonce"] !== nonce) throw new SignInFailed("The answer belongs to another sign-in.");
  const label = [identity["email"], access["email"], identity["name"], identity["sub"], access["sub"]].find(
    (claim) => typeof claim === "string" && claim !== "",
  );
  return {
    accessToken: answer.access_token,
    idToken: answer.id_token ?? "",
    account: String(access["sub"] ?? identity["sub"] ?? ""),
    label: String(label ?? "Signed in"),
    expiresMs: Date.now() + (answer.expires_in ?? 3_600) * 1_000,
  };
}

function begin(next: Session): void {
  sessionStorage.setItem(SESSION, JSON.stringify(next));
  session.value = next;
  signInEnded.value = false;
}

function end(): void {
  for (const key of Object.keys(sessionStorage)) {
    if (key.startsWith(EVERYTHING_OF_AN_ACCOUNT)) sessionStorage.removeItem(key);
  }
  session.value = null;
}

let provider: Promise<Provider> | null = null;

function findProvider(): Promise<Provider> {
  provider ??= discover().catch((error: unknown) => {
    provider = null; // the next click asks again
    throw error;
  });
  return provider;
}

async function discover(): Promise<Provider> {
  const config = await fetchJson<{ issuer: string; clientId: string }>("/config.json");
  const issuer = config.issuer.replace(/\/$/, "");
  const found = await fetchJson<Record<string, string>>(`${issuer}/.well-known/openid-configuration`);
  return {
    clientId: config.clientId,
    issuer,
    authorizationEndpoint: found["authorization_endpoint"] ?? "",
    tokenEndpoint: found["token_endpoint"] ?? "",
    endSessionEndpoint: found["end_session_endpoint"] ?? "",
  };
}

async function fetchJson<T>(url: string): Promise<T> {
  try {
    const response = await fetch(url, { credentials: "omit" });
    if (response.ok) return (await response.json()) as T;
  } catch {
    // told below, in the same words as a refusal
  }
  throw new SignInFailed("The identity provider does not answer. Try again in a moment.");
}

function redirectUri(): string {
  return `${location.origin}/callback`;
}

function stored<T>(key: string): T | null {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "null") as T | null;
  } catch {
    return null;
  }
}
