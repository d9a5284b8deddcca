import { beforeEach, describe, expect, it } from "vitest";

import { answered, attemptFor } from "../src/seats/attempt.ts";

const stored = new Map<string, string>();

beforeEach(() => {
  stored.clear();
  Object.assign(globalThis, {
    sessionStorage: {
      getItem: (name: string) => stored.get(name) ?? null,
      setItem: (name: string, value: string) => stored.set(name, value),
      removeItem: (name: string) => stored.delete(name),
    },
  });
});

describe("attemptFor", () => {
  it("keeps the key of the same seats in another order", () => {
    const first = attemptFor("a", { seatIds: [3, 1] });
    expect(attemptFor("a", { seatIds: [1, 3] })).toEqual(first);
    expect(first.wish).toEqual({ seatIds: [1, 3] });
  });

  it("keeps the key of the same party until somebody answers", () => {
    const wish = { bestAvailable: { quantity: 2, section: "Stalls" } };
    const first = attemptFor("a", wish);
    expect(attemptFor("a", { ...wish }).key).toBe(first.key);
    answered("a");
    expect(attemptFor("a", wish).key).not.toBe(first.key);
  });

  it("takes another wish for another intention", () => {
    const keys = [
      attemptFor("a", { bestAvailable: { quantity: 2 } }),
      attemptFor("a", { bestAvailable: { quantity: 3 } }),
      attemptFor("a", { generalAdmission: { areaId: 1, quantity: 3 } }),
      attemptFor("a", { generalAdmission: { areaId: 2, quantity: 3 } }),
    ].map((attempt) => attempt.key);
    expect(new Set(keys).size).toBe(4);
  });

  it("is not led astray by what lies in the storage", () => {
    stored.set("a", "{");
    expect(attemptFor("a", { seatIds: [1] }).key).toHaveLength(36);
  });
});
