// The map's picture of an event: a snapshot, and the deltas that followed it. A delta has absolute values and says
// which watermark it follows; it is applied if and only if prev ≤ watermark < its own.

import type { Delta, SectionCounts, Snapshot } from "../api/types.ts";

export interface Picture {
  watermark: string;
  /** When booking's log was last read for this picture, in ms since 1970; 0 when nobody said. */
  asOfMs: number;
  counts: ReadonlyMap<string, SectionCounts>;
  /** Section whose seats are known; "" for none. */
  section: string;
  /** Seats of that section that can not be had. */
  taken: ReadonlySet<number>;
}

export type Verdict = { apply: Picture } | "ignore" | "resync";

export function pictureOf(snapshot: Snapshot, section: string): Picture {
  return {
    watermark: snapshot.watermark,
    asOfMs: milliseconds(snapshot.asOf),
    counts: new Map(snapshot.sections.map((counts) => [counts.section, counts])),
    section,
    taken: new Set(snapshot.seats.filter(isTaken).map((seat) => seat.seatId)),
  };
}

/** What to do with a delta: the picture after it, nothing because it is old, or fetch a snapshot. */
export function follow(picture: Picture, delta: Delta): Verdict {
  if (delta.resync) return "resync";
  const [now, prev, next] = [parse(picture.watermark), parse(delta.prev), parse(delta.watermark)];
  if (next.epoch !== now.epoch || prev.epoch !== now.epoch) return "resync";
  if (next.lsn <= now.lsn) return "ignore";
  if (prev.lsn > now.lsn) return "resync"; // a gap
  return { apply: applied(picture, delta) };
}

function applied(picture: Picture, delta: Delta): Picture {
  const counts = new Map(picture.counts);
  for (const section of delta.sections) counts.set(section.section, section);
  const taken = new Set(picture.taken);
  for (const seat of delta.seats) {
    if (isTaken(seat)) taken.add(seat.seatId);
    else taken.delete(seat.seatId);
  }
  const asOfMs = Math.max(picture.asOfMs, milliseconds(delta.asOf));
  return { ...picture, watermark: delta.watermark, asOfMs, counts, taken };
}

/** `epoch.LSN`; the LSN is hexadecimal, padded here so that text order is number order. */
function parse(watermark: string): { epoch: string; lsn: string } {
  const dot = watermark.lastIndexOf(".");
  return {
    epoch: watermark.slice(0, Math.max(0, dot)),
    lsn: watermark
      .slice(dot + 1)
      .toUpperCase()
      .padStart(16, "0"),
  };
}

function isTaken(seat: { state: string }): boolean {
  return seat.state === "PUBLIC_SEAT_STATE_TAKEN";
}

function milliseconds(rfc3339: string): number {
  return Date.parse(rfc3339) || 0;
}
