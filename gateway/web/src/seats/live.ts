// Keeps the picture of one event, and of one section's seats, as fresh as it can, and knows how old it is.

import { signal } from "@preact/signals";

import { getSeats, updatesPath, wholeSnapshot } from "../api/calls.ts";
import { jittered, NoAnswer, pause, Refusal, refusalOf } from "../api/client.ts";
import { serverNow } from "../api/clock.ts";
import type { Delta } from "../api/types.ts";
import { follow, pictureOf, type Picture } from "./picture.ts";
import { parseEvents, type StreamEvent } from "./sse.ts";

/** A comment comes every 15 s; without any byte for this long the stream is dead. */
const SILENCE_MS = 35_000;
/** While nothing changes no delta says how old the picture is; then a (cacheable) snapshot does. */
const QUIET_MS = 12_000;
const FIRST_RECONNECT_MS = 1_000;
const SLOWEST_RECONNECT_MS = 20_000;
/** An event is in the feed some ticks after its publication; whoever comes with the first is told that it is not there. */
const NEW_EVENT_MS = 10_000;
/** Older than this, the map says so in a tone that can not be missed. */
export const STALE_MS = 30_000;

export type Connection = "connecting" | "live" | "lost";

export class LiveMap {
  readonly picture = signal<Picture | null>(null);
  readonly connection = signal<Connection>("connecting");
  /** A refusal that no retry will mend. */
  readonly problem = signal<unknown>(null);
  private section = "";
  private run: AbortController | null = null;
  /** What the server asks to wait; doubled while nothing answers. */
  private retryMs = FIRST_RECONNECT_MS;
  private reconnectMs = FIRST_RECONNECT_MS;
  private watchedSinceMs = 0;

  constructor(private readonly eventId: string) {}

  /** Follows the event's counts and, with a section, its seats. The picture before stays until the new one is here. */
  watch(section: string): void {
    this.stop();
    this.section = section;
    this.problem.value = null;
    this.watchedSinceMs = Date.now();
    this.run = new AbortController();
    void this.keepGoing(this.run.signal);
    void this.keepAge(this.run.signal);
  }

  stop(): void {
    this.run?.abort();
    this.run = null;
  }

  /** Fetches a snapshot now: after a refused hold the map should show why. */
  async resync(): Promise<void> {
    const { section, run } = this;
    const snapshot = await getSeats(this.eventId, section, run?.signal);
    if (run !== this.run || section !== this.section) return;
    const next = pictureOf(snapshot, section);
    const now = this.picture.value;
    // A cache may answer with an older picture of the same epoch than the one the deltas made.
    if (now && now.section === section && isBefore(next, now)) return;
    this.picture.value = next;
  }

  private async keepGoing(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.resync();
        await this.read(signal);
        if (!signal.aborted) this.connection.value = "connecting"; // a resync, or a stream that ended in order
      } catch (error) {
        if (signal.aborted) return;
        if (!this.mayBeNew(error)) {
          this.connection.value = "lost";
          if (isFinal(error)) return void (this.problem.value = error);
          this.reconnectMs = Math.min(this.reconnectMs * 2, SLOWEST_RECONNECT_MS);
        }
      }
      await pause(jittered(this.reconnectMs), signal);
    }
  }

  /** The catalog named the event, so one that the feed does not know is most likely not there yet. */
  private mayBeNew(error: unknown): boolean {
    const isUnknown = error instanceof Refusal && error.reason === "EVENT_NOT_FOUND";
    return isUnknown && !this.picture.value && Date.now() - this.watchedSinceMs < NEW_EVENT_MS;
  }

  private async keepAge(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(jittered(QUIET_MS / 2), signal);
      const picture = this.picture.value;
      if (signal.aborted || document.hidden || !picture || serverNow() - picture.asOfMs < QUIET_MS) continue;
      await this.resync().catch(() => undefined); // the age on screen tells what this would
    }
  }

  /** Reads one connection until it ends. Returns for a resync; throws when the connection broke. */
  private async read(signal: AbortSignal): Promise<void> {
    const silence = new AbortController();
    const stop = AbortSignal.any([signal, silence.signal]);
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const body = await this.open(stop);
      let rest = "";
      for await (const chunk of textOf(body)) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        this.connection.value = "live";
        const parsed = parseEvents(rest + chunk);
        rest = parsed.rest;
        this.retryMs = parsed.retryMs ?? this.retryMs;
        this.reconnectMs = this.retryMs;
        if (parsed.events.some((event) => this.take(event) === "resync")) return;
      }
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
  }

  private async open(signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const headers = new Headers({ accept: "text/event-stream" });
    const watermark = this.picture.value?.watermark;
    if (watermark) headers.set("last-event-id", watermark);
    const path = updatesPath(this.eventId, this.section);
    const response = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
    if (response.ok && response.body) return response.body;
    throw refusalOf(response.status, await response.json().catch(() => ({})));
  }

  private take(event: StreamEvent): "resync" | "taken" {
    if (event.event === "resync") return "resync";
    const picture = this.picture.value;
    if (!picture || event.data === "") return "taken";
    const verdict = follow(picture, deltaOf(event));
    if (verdict === "resync") return "resync";
    if (verdict !== "ignore") this.picture.value = verdict.apply;
    return "taken";
  }
}

function deltaOf(event: StreamEvent): Delta {
  const answer = JSON.parse(event.data) as Partial<Delta>;
  const whole = wholeSnapshot(answer);
  return {
    ...whole,
    watermark: whole.watermark || (event.id ?? ""),
    prev: answer.prev ?? "",
    resync: answer.resync ?? false,
  };
}

function isBefore(next: Picture, now: Picture): boolean {
  const epoch = (watermark: string) => watermark.slice(0, watermark.lastIndexOf("."));
  return epoch(next.watermark) === epoch(now.watermark) && next.asOfMs < now.asOfMs;
}

function isFinal(error: unknown): boolean {
  if (error instanceof NoAnswer) return false;
  return error instanceof Refusal && error.status >= 400 && error.status < 500 && error.status !== 429;
}

async function* textOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    reader.releaseLock();
  }
}
