// A wish to hold something, and what became of it: seats that were picked, the best that are left, units of an area.

import { signal } from "@preact/signals";

import { endIfRefused } from "../account/session.ts";
import { holdSeats } from "../api/calls.ts";
import { Refusal } from "../api/client.ts";
import { largestParty, wordsFor, type Context } from "../api/words.ts";
import type { Hold, Wish } from "../api/types.ts";
import type { VisitKeeper } from "../line/visit.ts";
import { answered, attemptFor } from "./attempt.ts";

export interface Message {
  tone: "warning" | "bad" | "calm";
  text: string;
}

/** Held by others, not sold: no fault, and worth another try. */
const MAY_COME_BACK = "TEMPORARILY_UNAVAILABLE";

export class Holding {
  readonly message = signal<Message | null>(null);
  readonly busy = signal(false);
  /** After a refusal for a party too large: the size that could be had instead; else 0. */
  readonly instead = signal(0);

  constructor(private readonly onRefused: (error: unknown) => void = () => undefined) {}

  /** Asks for it. Returns the hold, or null after saying what went wrong. */
  async hold(keeper: VisitKeeper, wanted: Wish, context: Context): Promise<Hold | null> {
    const name = `rowlock.attempt.${keeper.eventId}`;
    const { key, wish } = attemptFor(name, wanted);
    this.busy.value = true;
    this.forget();
    try {
      const tokens = await keeper.admission();
      const hold = await holdSeats({ eventId: keeper.eventId, wish, key, tokens }, () =>
        this.say("calm", "No answer yet. Asking again for the same; nothing is held twice."),
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

  say(tone: Message["tone"], text: string): void {
    this.message.value = { tone, text };
  }

  forget(): void {
    this.message.value = null;
    this.instead.value = 0;
  }

  private refused(error: unknown, keeper: VisitKeeper, context: Context): void {
    if (error instanceof Refusal && error.status === 401 && error.reason !== "TOKEN_MISSING") keeper.end();
    else if (endIfRefused(error)) return;
    this.onRefused(error);
    this.instead.value = largestParty(error);
    const isWaitable = error instanceof Refusal && error.reason === MAY_COME_BACK;
    this.say(isWaitable ? "warning" : "bad", wordsFor(error, context));
  }
}
