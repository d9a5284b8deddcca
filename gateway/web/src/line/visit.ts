// One account's visit to one event: its position in the line, then its stay inside. Kept in sessionStorage, so that
// a reload goes on where it was.

import { signal, type Signal } from "@preact/signals";

import { enterEvent, getLine, heartbeat, joinLine, leaveEvent } from "../api/calls.ts";
import { jittered, NoAnswer, pause, Refusal, type Tokens } from "../api/client.ts";
import { serverNow } from "../api/clock.ts";
import type { Admission, Line } from "../api/types.ts";
import { endIfRefused, session, userTokens } from "../account/session.ts";
import { durationSeconds, nextEta } from "./eta.ts";

export type Stage = "outside" | "waiting" | "inside" | "missed" | "ended";

export interface Visit {
  stage: Stage;
  epoch: string;
  position: number;
  queueToken: string;
  aheadAtStart: number | null;
  etaSeconds: number | null;
  admissionToken: string;
  /** When the admission token came, by the server's clock. */
  admittedMs: number;
  leaseExpiresMs: number;
  heartbeatMs: number;
}

const POLL_MS = 1_000;
const SLOWEST_POLL_MS = 15_000;
const HEARTBEAT_MS = 20_000;
/** After a heartbeat without an answer: sooner, for the lease runs on. */
const HEARTBEAT_AGAIN_MS = 4_000;
/** An admission token lives 60 s; one older than this is renewed before it is used. */
const TOKEN_FRESH_MS = 40_000;

const OUTSIDE: Visit = {
  stage: "outside",
  epoch: "0",
  position: 0,
  queueToken: "",
  aheadAtStart: null,
  etaSeconds: null,
  admissionToken: "",
  admittedMs: 0,
  leaseExpiresMs: 0,
  heartbeatMs: HEARTBEAT_MS,
};

const visits = new Map<string, VisitKeeper>();

/** The one keeper of this account's visit to this event. */
export function visitTo(eventId: string): VisitKeeper {
  const name = `rowlock.visit.${session.value?.account ?? ""}.${eventId}`;
  let keeper = visits.get(name);
  if (!keeper) visits.set(name, (keeper = new VisitKeeper(eventId, name)));
  return keeper;
}

export class VisitKeeper {
  readonly visit: Signal<Visit>;
  readonly line: Signal<Line | null> = signal(null);
  /** True while the line's state is older than it should be. */
  readonly stale = signal(false);

  constructor(
    readonly eventId: string,
    private readonly storageName: string,
  ) {
    this.visit = signal({ ...OUTSIDE, ...restored(storageName) });
  }

  /** Takes or finds the position; where no line is wanted, that is already the turn. */
  async join(): Promise<void> {
    const joined = await joinLine(this.eventId, userTokens());
    this.keep({
      ...OUTSIDE,
      stage: "waiting",
      epoch: joined.epoch,
      position: Number(joined.position),
      queueToken: joined.queueToken,
      etaSeconds: durationSeconds(joined.eta),
    });
    if (joined.state !== "POSITION_STATE_WAITING") await this.enter();
  }

  /** Follows the public line, about once a second, until the turn comes or the signal aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    let everyMs = POLL_MS;
    while (!signal.aborted && this.visit.value.stage === "waiting") {
      try {
        await this.look(signal);
        everyMs = POLL_MS;
        this.stale.value = false;
      } catch (error) {
        if (signal.aborted || endIfRefused(error)) return;
        if (error instanceof Refusal && error.status < 500 && error.status !== 429) throw error;
        everyMs = Math.min(everyMs * 2, SLOWEST_POLL_MS);
        this.stale.value = true;
      }
      await pause(jittered(everyMs), signal);
    }
  }

  /** Trades the position for a lease. NOT_YET leaves things as they are: the line goes on. */
  async enter(): Promise<void> {
    try {
      this.takeAdmission(await enterEvent(this.eventId, this.tokens()));
    } catch (error) {
      if (!this.ended(error) && !isReason(error, "NOT_YET")) throw error;
    }
  }

  /** Sends heartbeats while the person is inside, until the signal aborts. Also at once when a sleeping tab wakes. */
  async stay(signal: AbortSignal): Promise<void> {
    const wake = () => document.visibilityState === "visible" && void this.refresh();
    document.addEventListener("visibilitychange", wake);
    signal.addEventListener("abort", () => document.removeEventListener("visibilitychange", wake), { once: true });
    while (!signal.aborted && this.visit.value.stage === "inside") {
      const renewed = await this.refresh();
      await pause(jittered(renewed ? this.visit.value.heartbeatMs * 0.9 : HEARTBEAT_AGAIN_MS), signal);
    }
  }

  /** Tokens for holding seats; an admission token near its end is renewed first. */
  async admission(): Promise<Tokens> {
    if (serverNow() - this.visit.value.admittedMs > TOKEN_FRESH_MS) await this.refresh(true);
    return { ...userTokens(), admission: this.visit.value.admissionToken };
  }

  /** Gives the lease, or the position, back. */
  async leave(): Promise<void> {
    const tokens = this.tokens();
    this.keep({ ...OUTSIDE });
    if (tokens.queue) await leaveEvent(this.eventId, tokens);
  }

  /** The edge or the waiting room said that this admission is over. */
  end(): void {
    this.keep({ ...this.visit.value, stage: "ended", admissionToken: "" });
  }

  private async look(signal: AbortSignal): Promise<void> {
    const line = await getLine(this.eventId, signal);
    this.line.value = line;
    const visit = this.visit.value;
    if (line.epoch !== visit.epoch && visit.position > 0) return this.join(); // the line was counted anew
    const ahead = Math.max(0, visit.position - Number(line.admittedThrough) - 1);
    this.keep({
      ...visit,
      aheadAtStart: visit.aheadAtStart ?? ahead,
      etaSeconds: isMoving(line)
        ? nextEta(visit.etaSeconds, { ahead, ratePerSecond: line.ratePerSecond })
        : visit.etaSeconds,
    });
    if (Number(line.admittedThrough) >= visit.position) await this.enter();
  }

  /** One heartbeat, unless the token is fresh. Says whether the lease was renewed. */
  private async refresh(must = false): Promise<boolean> {
    const quietMs = serverNow() - this.visit.value.admittedMs;
    if (!must && quietMs < this.visit.value.heartbeatMs / 2) return true;
    try {
      this.takeAdmission(await heartbeat(this.eventId, this.tokens()));
      return true;
    } catch (error) {
      if (this.ended(error)) return false;
      if (serverNow() > this.visit.value.leaseExpiresMs) this.end();
      else if (!(error instanceof NoAnswer || error instanceof Refusal)) throw error;
      return false;
    }
  }

  /** Takes note of a refusal that ends the visit. Says whether it was one. */
  private ended(error: unknown): boolean {
    if (isReason(error, "ADMISSION_MISSED")) this.keep({ ...this.visit.value, stage: "missed" });
    else if (isReason(error, "LEASE_ENDED")) this.end();
    else if (error instanceof Refusal && error.status === 401 && !sessionIsOver()) this.end();
    else return endIfRefused(error);
    return true;
  }

  private takeAdmission(admission: Admission): void {
    const everySeconds = durationSeconds(admission.heartbeatInterval);
    this.keep({
      ...this.visit.value,
      stage: "inside",
      admissionToken: admission.admissionToken,
      admittedMs: serverNow(),
      leaseExpiresMs: Date.parse(admission.leaseExpireTime),
      heartbeatMs: everySeconds ? everySeconds * 1_000 : this.visit.value.heartbeatMs,
    });
  }

  private tokens(): Tokens {
    return { ...userTokens(), queue: this.visit.value.queueToken };
  }

  private keep(visit: Visit): void {
    this.visit.value = visit;
    sessionStorage.setItem(this.storageName, JSON.stringify(visit));
  }
}

/** Before the sale and while it stands still, nobody knows how long a line takes. */
function isMoving({ state }: Line): boolean {
  return state === "LINE_STATE_MOVING" || state === "LINE_STATE_OPEN";
}

function sessionIsOver(): boolean {
  return (session.value?.expiresMs ?? 0) <= Date.now();
}

function isReason(error: unknown, reason: string): boolean {
  return error instanceof Refusal && error.reason === reason;
}

function restored(storageName: string): Partial<Visit> {
  try {
    return (JSON.parse(sessionStorage.getItem(storageName) ?? "{}") ?? {}) as Partial<Visit>;
  } catch {
    return {};
  }
}
