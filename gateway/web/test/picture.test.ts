import { describe, expect, it } from "vitest";

import type { Delta, Snapshot } from "../src/api/types.ts";
import { follow, pictureOf, type Picture, type Verdict } from "../src/seats/picture.ts";

const mark = (lsn: number, epoch = "e1") => `${epoch}.${lsn.toString(16).padStart(16, "0").toUpperCase()}`;

const SNAPSHOT: Snapshot = {
  asOf: "2026-11-30T12:00:00Z",
  watermark: mark(100),
  sections: [
    { section: "A", open: 3, held: 0, taken: 1 },
    { section: "B", open: 9, held: 1, taken: 0 },
  ],
  seats: [
    { seatId: 1, state: "PUBLIC_SEAT_STATE_OPEN" },
    { seatId: 2, state: "PUBLIC_SEAT_STATE_TAKEN" },
  ],
};

function delta(prev: string, watermark: string, more: Partial<Delta> = {}): Delta {
  return { prev, watermark, asOf: "2026-11-30T12:00:01Z", sections: [], seats: [], resync: false, ...more };
}

function applied(verdict: Verdict): Picture {
  if (typeof verdict === "string") throw new Error(`expected a picture, got ${verdict}`);
  return verdict.apply;
}

describe("follow", () => {
  const picture = pictureOf(SNAPSHOT, "A");

  it("applies the delta that follows, with absolute values", () => {
    const next = applied(
      follow(
        picture,
        delta(mark(100), mark(120), {
          sections: [{ section: "A", open: 1, held: 2, taken: 1 }],
          seats: [
            { seatId: 1, state: "PUBLIC_SEAT_STATE_TAKEN" },
            { seatId: 2, state: "PUBLIC_SEAT_STATE_OPEN" },
          ],
        }),
      ),
    );
    expect(next.watermark).toBe(mark(120));
    expect([...next.taken]).toEqual([1]);
    expect(next.counts.get("A")).toEqual({ section: "A", open: 1, held: 2, taken: 1 });
    expect(next.counts.get("B")?.open).toBe(9);
    expect(next.asOfMs).toBe(Date.parse("2026-11-30T12:00:01Z"));
    expect([...picture.taken]).toEqual([2]); // the picture before is untouched
  });

  it("applies a delta whose prev is older than the picture, if it ends later", () => {
    expect(applied(follow(picture, delta(mark(90), mark(101)))).watermark).toBe(mark(101));
  });

  it("ignores what the picture already shows", () => {
    expect(follow(picture, delta(mark(80), mark(100)))).toBe("ignore");
    expect(follow(picture, delta(mark(80), mark(90)))).toBe("ignore");
  });

  it("asks for a snapshot on a gap", () => {
    expect(follow(picture, delta(mark(101), mark(120)))).toBe("resync");
  });

  it("asks for a snapshot on a new epoch, however large its numbers", () => {
    expect(follow(picture, delta(mark(100, "e2"), mark(500, "e2")))).toBe("resync");
    expect(follow(picture, delta(mark(100), mark(500, "e2")))).toBe("resync");
  });

  it("asks for a snapshot when told to", () => {
    expect(follow(picture, delta(mark(100), mark(120), { resync: true }))).toBe("resync");
  });

  it("compares LSNs as numbers, in either case and without padding", () => {
    const short = { ...picture, watermark: "e1.ff" };
    expect(applied(follow(short, delta("e1.FF", "e1.100"))).watermark).toBe("e1.100");
  });

  it("never moves the age backwards", () => {
    const older = delta(mark(100), mark(120), { asOf: "2026-11-30T11:59:00Z" });
    expect(applied(follow(picture, older)).asOfMs).toBe(picture.asOfMs);
  });
});
