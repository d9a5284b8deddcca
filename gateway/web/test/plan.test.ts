import { describe, expect, it } from "vitest";

import { fit, toPlan, zoomed } from "../src/seats/camera.ts";
import { corners, planOf, seatName } from "../src/seats/plan.ts";
import { formatMoney, sum } from "../src/shell/money.ts";

const SEATS_A_ROW = 100;

/** 20,000 seats in ten sections, ten units apart. */
function arena() {
  const sections = Array.from({ length: 10 }, (_, s) => ({
    section: `S${s}`,
    rows: Array.from({ length: 20 }, (_, r) => ({
      row: `R${r}`,
      seats: Array.from({ length: SEATS_A_ROW }, (_, n) => ({
        seatId: 1 + s * 2_000 + r * SEATS_A_ROW + n,
        number: String(n + 1),
        x: n * 10,
        y: s * 300 + r * 12,
        tier: s % 3,
      })),
    })),
  }));
  return planOf({ planVersion: "v", plan: { width: 1_000, height: 3_000, sections }, tiers: [] });
}

describe("planOf", () => {
  const plan = arena();

  it("knows how far seats and rows are apart", () => {
    expect(plan.sections[0]).toMatchObject({ pitch: 10, rowPitch: 12, seatCount: 2_000, tier: 0 });
  });

  it("finds the nearest seat, and none where none is", () => {
    expect(plan.nearest(52, 301, 8)?.id).toBe(1 + 2_000 + 5);
    expect(plan.nearest(50, 270, 8)).toBeNull();
  });

  it("names a seat", () => {
    expect(seatName(plan.nearest(0, 0, 5) ?? { section: "", row: "", number: "" })).toBe("S0, row R0, seat 1");
  });
});

describe("corners", () => {
  it("keeps the ends of a straight row, and the bends of another", () => {
    const straight = Array.from({ length: 30 }, (_, x) => ({ x, y: 2 * x }));
    expect(corners(straight, 0.1)).toEqual([straight[0], straight[29]]);
    const bent = [
      { x: 0, y: 0 },
      { x: 5, y: 0.05 },
      { x: 10, y: 0 },
      { x: 10, y: 10 },
    ];
    expect(corners(bent, 0.1)).toEqual([bent[0], bent[2], bent[3]]);
  });
});

describe("the camera", () => {
  const camera = fit({ left: 0, top: 0, right: 1_000, bottom: 500 }, { width: 390, height: 400 }, 20);

  it("shows the whole box, centred", () => {
    expect(camera.scale).toBeCloseTo(0.35);
    expect(toPlan(camera, { x: 195, y: 200 }).x).toBeCloseTo(500);
    expect(toPlan(camera, { x: 195, y: 200 }).y).toBeCloseTo(250);
  });

  it("keeps the point under the finger where it is", () => {
    const before = toPlan(camera, { x: 100, y: 120 });
    const after = toPlan(zoomed(camera, 2, { x: 100, y: 120 }, { least: 0.01, most: 10 }), { x: 100, y: 120 });
    expect(after.x).toBeCloseTo(before.x);
    expect(after.y).toBeCloseTo(before.y);
  });
});

it("shows money with its currency's decimals", () => {
  const shown = [
    { currencyCode: "EUR", amountMinor: "1250" },
    { currencyCode: "JPY", amountMinor: "500" },
    { currencyCode: "KWD", amountMinor: "1250" },
    { currencyCode: "EUR" },
  ].map(formatMoney);
  expect(shown.map((text) => text.replace(/\s/g, " "))).toEqual(["€12.50", "¥500", "KWD 1.250", "€0.00"]);
  expect(
    sum([
      { currencyCode: "EUR", amountMinor: "9007199254740993" },
      { currencyCode: "EUR", amountMinor: "1" },
    ]),
  ).toEqual({
    currencyCode: "EUR",
    amountMinor: "9007199254740994",
  });
});
