// What a person has chosen on the map.

import { signal } from "@preact/signals";

import { Refusal } from "../api/client.ts";
import { lostSeatIds, type Context } from "../api/words.ts";
import type { Hold } from "../api/types.ts";
import type { VisitKeeper } from "../line/visit.ts";
import { Holding } from "./holding.ts";
import type { Seat } from "./plan.ts";

/** How long a lost seat stays crossed out: it may come back when its hold ends. */
const LOST_FOR_MS = 20_000;

export class Selection {
  readonly chosen = signal<ReadonlyMap<number, Seat>>(new Map());
  readonly lost = signal<ReadonlySet<number>>(new Set());
  readonly holding = new Holding((error) => this.refused(error));

  /** `limit`: how many tickets one account may have; the server says when it has some already. */
  constructor(private limit: number) {}

  /** Takes a seat into the selection or out of it, or says why not. */
  toggle(seat: Seat, isTaken: boolean): void {
    const next = new Map(this.chosen.value);
    if (!next.delete(seat.id)) {
      if (isTaken || this.lost.value.has(seat.id))
        return this.holding.say("warning", `Row ${seat.row}, seat ${seat.number} is taken.`);
      if (next.size >= this.limit) return this.holding.say("warning", `You can choose up to ${this.limit} seats.`);
      next.set(seat.id, seat);
    }
    this.holding.forget();
    this.chosen.value = next;
  }

  /** Asks for the chosen seats. Returns the hold, or null after saying what went wrong. */
  hold(keeper: VisitKeeper, context: Context): Promise<Hold | null> {
    return this.holding.hold(keeper, { seatIds: [...this.chosen.value.keys()] }, context);
  }

  private refused(error: unknown): void {
    if (error instanceof Refusal && error.reason === "TOO_MANY_TICKETS") this.learnLimit(error);
    this.drop(lostSeatIds(error));
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
}
