import { describe, expect, it } from "vitest";

import { wholeParty, wishOf } from "../src/seats/party.ts";
import { placeNote, planOf, seatTiers } from "../src/seats/plan.ts";
import { times } from "../src/shell/money.ts";
import { clamped } from "../src/shell/numbers.ts";
import { cancelEnd } from "../src/shell/time.ts";

const anywhere = { quantity: 2, section: "", tier: "", accessible: 0 };

describe("wishOf", () => {
  it("leaves out what was left open", () => {
    expect(wishOf(anywhere)).toEqual({ bestAvailable: { quantity: 2 } });
  });

  it("says all that was chosen, also a tier of number 0", () => {
    const party = { quantity: 3, section: "Stalls", tier: "0", accessible: 1 };
    expect(wishOf(party)).toEqual({ bestAvailable: { quantity: 3, section: "Stalls", tier: 0, accessible: 1 } });
  });
});

describe("wholeParty", () => {
  it("has no more wheelchair places than people", () => {
    expect(wholeParty({ ...anywhere, quantity: 1, accessible: 2 }, 8)).toMatchObject({ quantity: 1, accessible: 1 });
  });

  it("is no larger than one account may bring", () => {
    expect(wholeParty({ ...anywhere, quantity: 9 }, 4).quantity).toBe(4);
  });
});

describe("clamped", () => {
  it.each([
    [0, 1],
    [3, 3],
    [3.9, 3],
    [99, 8],
    [NaN, 1],
    [-Infinity, 1],
  ])("makes %d to %d", (typed, value) => {
    expect(clamped(typed, 1, 8)).toBe(value);
  });
});

it("multiplies money without losing a unit", () => {
  expect(times({ currencyCode: "EUR", amountMinor: "9007199254740993" }, 3).amountMinor).toBe("27021597764222979");
  expect(times({ currencyCode: "EUR" }, 3).amountMinor).toBe("0");
});

it("knows until when an order may be cancelled", () => {
  expect(cancelEnd({ startTime: "2030-05-02T20:00:00Z", rules: { cancelSeconds: 86_400 } })).toBe(
    "2030-05-01T20:00:00.000Z",
  );
  expect(cancelEnd({ startTime: "2030-05-02T20:00:00Z", rules: { cancelSeconds: 0 } })).toBeNull();
  expect(cancelEnd({ startTime: "2030-05-02T20:00:00Z" })).toBeNull();
});

it("offers the prices of seats, not those of areas", () => {
  const tier = (number: number) => ({
    tier: number,
    name: `T${number}`,
    price: { currencyCode: "EUR" },
    color: "#000000",
  });
  const seats = [{ seatId: 1, number: "1", tier: 1 }];
  const plan = planOf({
    planVersion: "v",
    plan: { width: 10, height: 10, sections: [{ section: "S", rows: [{ row: "A", seats }] }] },
    tiers: [tier(2), tier(1)],
  });
  expect(seatTiers(plan).map((each) => each.tier)).toEqual([1]);
});

it("says whose place a seat is", () => {
  expect(placeNote({ accessible: false, companion: false })).toBe("");
  expect(placeNote({ accessible: true, companion: false })).toBe(", wheelchair place");
  expect(placeNote({ accessible: false, companion: true })).toBe(", companion place");
});
