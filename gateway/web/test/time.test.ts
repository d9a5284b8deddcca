import { describe, expect, it } from "vitest";

import { clockOffset } from "../src/api/clock.ts";
import { formatAge, formatCountdown, formatMoment, secondsLeft } from "../src/shell/time.ts";

describe("the countdown", () => {
  const end = "2026-11-30T12:10:00Z";

  it("counts to the server's expiry and never below zero", () => {
    expect(secondsLeft(end, Date.parse("2026-11-30T12:00:00Z"))).toBe(600);
    expect(secondsLeft(end, Date.parse("2026-11-30T12:09:59.800Z"))).toBe(1);
    expect(secondsLeft(end, Date.parse(end))).toBe(0);
    expect(secondsLeft(end, Date.parse("2026-11-30T13:00:00Z"))).toBe(0);
  });

  it("reads as minutes and seconds", () => {
    expect([0, 9, 600, 3_725].map(formatCountdown)).toEqual(["0:00", "0:09", "10:00", "1:02:05"]);
  });
});

describe("clockOffset", () => {
  const header = "Mon, 30 Nov 2026 12:00:00 GMT";
  const server = Date.parse(header);

  it("finds a device that is five minutes behind", () => {
    const device = server - 300_000;
    expect(clockOffset(header, device, device + 100)).toBe(300_450);
  });

  it("takes a difference within the header's grain for none", () => {
    expect(clockOffset(header, server + 900, server + 950)).toBe(0);
  });

  it("learns nothing from no header", () => {
    expect(clockOffset(null, 0, 0)).toBeNull();
  });
});

it("shows an event's time where the event is", () => {
  expect(formatMoment("2026-11-14T23:30:00Z", "Asia/Tokyo")).toMatch(/Sunday.* 15 November 2026.*08:30/);
});

it("rounds an age down", () => {
  expect([0, 999, 61_000, 100_000, 7_300_000].map(formatAge)).toEqual([
    "0 seconds",
    "0 seconds",
    "61 seconds",
    "1 minute",
    "2 hours",
  ]);
});
