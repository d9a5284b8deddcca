// One request, and one request until it is answered. Tokens travel in headers only.

import { learnServerTime } from "./clock.ts";

/** What the server said no to. Switch on `reason`; `message` is its sentence. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
    readonly metadata: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/** Nobody answered, or nobody who knows: what was asked may have happened. Ask again with the same key. */
export class NoAnswer extends Error {}

export interface Tokens {
  user?: string;
  queue?: string;
  admission?: string;
}

export interface Request {
  method?: "GET" | "POST" | "DELETE";
  tokens?: Tokens;
  body?: unknown;
  /** Idempotency-Key: the same for every try of one intention. */
  key?: string;
  signal?: AbortSignal;
}

/** A quick answer is the normal case; after this the connection is taken for dead. */
const ANSWER_WITHIN_MS = 15_000;
/** Waits between tries, each with jitter: half a minute in all, less than any hold lasts. */
const RETRY_WAITS_MS: readonly number[] = [500, 1_000, 2_000, 4_000, 8_000, 12_000];

/** Sends one request. Throws Refusal, or NoAnswer for a failed connection, 502, 503 and 504. */
export async function send<T>(path: string, request: Request = {}): Promise<T> {
  const sentMs = Date.now();
  const response = await reach(path, request);
  if (isFirstHand(request, response)) learnServerTime(response.headers.get("date"), sentMs, Date.now());
  const answer = await readJson(response, request.signal);
  if (response.ok) return answer as T;
  const refusal = refusalOf(response.status, answer);
  if ([502, 503, 504].includes(response.status)) throw new NoAnswer(refusal.message);
  throw refusal;
}

/** Sends until somebody answers, with the same key each time. `onWait` hears of every silent try. */
export async function sendUntilAnswered<T>(path: string, request: Request, onWait: () => void): Promise<T> {
  for (const waitMs of RETRY_WAITS_MS) {
    try {
      return await send<T>(path, request);
    } catch (error) {
      if (!mayRetry(error) || request.signal?.aborted) throw error;
      onWait();
      await pause(jittered(waitMs), request.signal);
    }
  }
  return send<T>(path, request);
}

/** The refusal in an answer's body; an answer that is not ours still gives its status a sentence. */
export function refusalOf(status: number, answer: unknown): Refusal {
  const body = (answer ?? {}) as {
    message?: string;
    details?: { reason?: string; metadata?: Record<string, string> }[];
  };
  const info = body.details?.find((detail) => typeof detail.reason === "string");
  return new Refusal(status, info?.reason ?? `HTTP_${status}`, body.message ?? "", info?.metadata ?? {});
}

/** Resolves later, or at once when aborted: the caller's loop looks at its signal. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/** Between 75 % and 125 %, so that a crowd that failed together does not come back together. */
export function jittered(ms: number): number {
  return ms * (0.75 + Math.random() / 2);
}

/** A random UUID; also where `crypto.randomUUID` is missing because the page came over plain HTTP. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export function headersOf({ tokens = {}, key, body }: Request): Headers {
  const headers = new Headers({ accept: "application/json" });
  if (tokens.user) headers.set("authorization", `Bearer ${tokens.user}`);
  if (tokens.queue) headers.set("x-rowlock-queue", tokens.queue);
  if (tokens.admission) headers.set("x-rowlock-admission", tokens.admission);
  if (key) headers.set("idempotency-key", key);
  if (body !== undefined) headers.set("content-type", "application/json");
  return headers;
}

/** What anybody may ask may come out of a cache, the browser's too, with the Date of when it was made. */
function isFirstHand({ tokens }: Request, response: Response): boolean {
  return tokens?.user !== undefined && !response.headers.has("age");
}

async function reach(path: string, request: Request): Promise<Response> {
  const limits = [AbortSignal.timeout(ANSWER_WITHIN_MS), ...(request.signal ? [request.signal] : [])];
  try {
    return await fetch(path, {
      method: request.method ?? "GET",
      headers: headersOf(request),
      body: request.body === undefined ? null : JSON.stringify(request.body),
      signal: AbortSignal.any(limits),
      credentials: "omit",
    });
  } catch (error) {
    throw unanswered(error, request.signal);
  }
}

async function readJson(response: Response, signal?: AbortSignal): Promise<unknown> {
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    throw unanswered(error, signal);
  }
  try {
    return text === "" ? {} : JSON.parse(text);
  } catch {
    if (response.ok) throw new NoAnswer("The answer could not be read.");
    return {}; // a refusal by something on the way, without our form
  }
}

function unanswered(error: unknown, signal?: AbortSignal): unknown {
  return signal?.aborted ? error : new NoAnswer("No answer came.");
}

function mayRetry(error: unknown): boolean {
  return error instanceof NoAnswer || (error instanceof Refusal && error.reason === "CONTENDED");
}
