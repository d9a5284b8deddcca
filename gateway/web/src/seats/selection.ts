// What a person has chosen on the map, and what became of the wish to hold it.

import { signal } from "@preact/signals";

import { endIfRefused } from "../account/session.ts";
import { holdSeats } from "../api/calls.ts";
import { Refusal } from "../api/client.ts";
import { lostSeatIds, wordsFor, type Context } from "../api/words.ts";
import type { Hold } from "../api/types.ts";
import type { VisitKeeper } from "../line/visit.ts";
import { answered, attemptFor } from "./attempt.ts";
import type { Seat } from "./plan.ts";

/** The usual limit of one account; the server says when an event's is lower. */
const USUAL_LIMIT = 8;
/** How long a lost seat stays crossed out: it may come back when its hold ends. */
const LOST_FOR_MS = 20_000;

export interface Message {
  tone: "warning" | "bad" | "calm";
  text: string;
}

export class Selection {
  readonly chosen = signal<ReadonlyMap<number, Seat>>(new Map());
  readonly lost = signal<ReadonlySet<number>>(new Set());
  readonly message = signal<Message | null>(null);
  readonly busy = signal(false);
  private limit = USUAL_LIMIT;

  /** Takes a seat into the selection or out of it, or says why not. */
  toggle(seat: Seat, isTaken: boolean): void {
    const next = new Map(this.chosen.value);
    if (next.delete(seat.id)) this.message.value = null;
    else if (isTaken || this.lost.value.has(seat.id))
      return this.say("warning", `Row ${seat.row}, seat ${seat.number} is taken.`);
    else if (next.size >= this.limit) return this.say("warning", `You can choose up to ${this.limit} seats.`);
    else next.set(seat.id, seat);
    this.message.value = null;
    this.chosen.value = next;
  }

  clear(): void {
    this.chosen.value = new Map();
  }

  /** Asks for the chosen seats. Returns the hold, or null after saying what went wrong. */
  async hold(keeper: VisitKeeper, context: Context): Promise<Hold | null> {
    const name = `rowlock.attempt.${keeper.eventId}`;
    const { key, seatIds } = attemptFor(name, [...this.chosen.value.keys()]);
    this.busy.value = true;
    this.message.value = null;
    try {
      const tokens = await keeper.admission();
      const hold = await holdSeats({ eventId: keeper.eventId, seatIds, key, tokens }, () =>
        this.say("calm", "No answer yet. Asking again for the same seats; nothing is held twice."),
      );
      answered(name);
      return hold;
    } catch (error) {
      if (error instanceof Refusal) answered(name);
      this.refused(error, keeper, context);
      return null;
    } finally {
      this.busy.value = false;
    }
  }

  private refused(error: unknown, keeper: VisitKeeper, context: Context): void {
    if (error instanceof Refusal && error.status === 401 && error.reason !== "TOKEN_MISSING") keeper.end();
    else if (endIfRefused(error)) return;
    if (error instanceof Refusal && error.reason === "TOO_MANY_TICKETS") this.learnLimit(error);
    this.drop(lostSeatIds(error));
    this.say("bad", wordsFor(error, context));
  }

  private learnLimit({ metadata }: Refusal): void {
    const left = Number(metadata["limit"]) - Number(metadata["used"] ?? 0);
    if (left > 0) this.limit = left;
  }

  private drop(ids: number[]): void {
    if (ids.length === 0) return;
    this.chosen.value = new Map([...this.chosen.value].filter(([id]) => !ids.includes(id)));
    this.lost.value = new Set([...this.lost.value, ...ids]);
    setTimeout(() => {
      this.lost.value = new Set([...this.lost.value].filter((id) => !ids.includes(id)));
    }, LOST_FOR_MS);
  }

  private say(tone: Message["tone"], text: string): void {
    this.message.value = { tone, text };
  }
}
