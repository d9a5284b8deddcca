import { describe, expect, it } from "vitest";

import { durationSeconds, etaWords, nextEta, progress } from "../src/line/eta.ts";

describe("nextEta", () => {
  it("never grows, whatever the rate does", () => {
    const rates = [10, 12, 3, 0, 1, 0.1, 20, 0, 5];
    let shown: number | null = null;
    let ahead = 1_000;
    for (const ratePerSecond of rates) {
      const next: number | null = nextEta(shown, { ahead, ratePerSecond });
      if (shown !== null) expect(next).toBeLessThanOrEqual(shown);
      shown = next;
      ahead -= 5;
    }
    expect(shown).toBeCloseTo(48.5); // the smallest estimate, of when the rate was 20
  });

  it("says nothing before there is a rate", () => {
    expect(nextEta(null, { ahead: 50, ratePerSecond: 0 })).toBeNull();
  });

  it("is nothing left when nobody is before", () => {
    expect(nextEta(30, { ahead: 0, ratePerSecond: 0 })).toBe(0);
  });
});

it("says a time in words, larger ones more roughly", () => {
  const said = [null, 0, 49, 55, 61, 185, 1_260, 7_300].map(etaWords);
  expect(said).toEqual([
    "not known yet",
    "less than a minute",
    "less than a minute",
    "about a minute",
    "about 2 minutes",
    "about 4 minutes",
    "about 25 minutes",
    "about 3 hours",
  ]);
});

it("reads a protobuf Duration", () => {
  expect(durationSeconds("12.5s")).toBe(12.5);
  expect(durationSeconds(undefined)).toBeNull();
});

it("goes from 0 to 1 and stays there", () => {
  expect(progress(200, 200)).toBe(0);
  expect(progress(200, 50)).toBe(0.75);
  expect(progress(200, 0)).toBe(1);
  expect(progress(200, 300)).toBe(0);
  expect(progress(0, 0)).toBe(1);
});
