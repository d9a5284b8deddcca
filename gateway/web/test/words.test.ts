import { describe, expect, it } from "vitest";

import { NoAnswer, Refusal, refusalOf } from "../src/api/client.ts";
import { failureWords, largestParty, lostSeatIds, wordsFor } from "../src/api/words.ts";

const lost = (ids: string) => new Refusal(409, "SEAT_UNAVAILABLE", "gone", { lostSeatIds: ids });
const seatName = (id: number) => `Stalls, row C, seat ${id}`;

describe("wordsFor", () => {
  it("names the seat that went", () => {
    expect(wordsFor(lost("14"), { seatName })).toBe(
      "Somebody else was faster: Stalls, row C, seat 14 is gone. Nothing was held. Pick another seat and try again.",
    );
  });

  it("names every seat that went", () => {
    expect(wordsFor(lost("14,15"), { seatName })).toContain("Stalls, row C, seat 14; Stalls, row C, seat 15 are gone");
  });

  it("says how many tickets one account may have", () => {
    const refusal = new Refusal(409, "TOO_MANY_TICKETS", "", { limit: "8", used: "6" });
    expect(wordsFor(refusal)).toBe(
      "One account may have 8 tickets for this event. You already have 6. Choose fewer.",
    );
  });

  it("tells apart what is gone, what may come back and what is only too large", () => {
    const said = ["SOLD_OUT", "TEMPORARILY_UNAVAILABLE"].map((reason) => wordsFor(new Refusal(409, reason, "")));
    expect(said[0]).toMatch(/Nothing of what you asked for is left/);
    expect(said[1]).toMatch(/try again in a moment/);
    expect(wordsFor(new Refusal(409, "NO_BLOCK", "", { largest: "3" }))).toMatch(/3 places can still be had/);
    expect(wordsFor(new Refusal(409, "NO_BLOCK", "", { largest: "1" }))).toMatch(/1 place can still be had/);
    expect(wordsFor(new Refusal(409, "NO_BLOCK", ""))).toMatch(/Try fewer/);
  });

  it("says when one may hold again", () => {
    const retryTime = new Date(Date.now() + 190_000).toISOString();
    const refusal = new Refusal(429, "HOLD_BUDGET_SPENT", "", { retryTime });
    expect(wordsFor(refusal, { time: () => "20:05" })).toMatch(/again in 4 minutes \(20:05\)\.$/);
    expect(wordsFor(new Refusal(429, "HOLD_BUDGET_SPENT", ""))).toMatch(/Wait some minutes/);
  });

  it("says why an order can not be cancelled", () => {
    expect(wordsFor(new Refusal(409, "NOT_CANCELLABLE", "", { state: "CANCELLED" }))).toMatch(/already/);
    expect(wordsFor(new Refusal(409, "NOT_CANCELLABLE", "", { state: "FAILED" }))).toMatch(/Only a paid order/);
    expect(wordsFor(new Refusal(409, "CANCELLATION_CLOSED", ""))).toMatch(/any more/);
  });

  it("says when the sale begins", () => {
    const refusal = new Refusal(409, "NOT_ON_SALE", "", { saleStartTime: "2100-01-01T00:00:00Z" });
    expect(wordsFor(refusal, { time: () => "on New Year's Day" })).toBe("Tickets go on sale on New Year's Day.");
  });

  it("gives the server's sentence for a reason it does not know", () => {
    expect(wordsFor(new Refusal(400, "SOMETHING_NEW", "The server's words."))).toBe("The server's words.");
  });

  it("does not blame the person for silence", () => {
    expect(wordsFor(new NoAnswer())).toMatch(/No answer came/);
  });

  it("never shows a bare error", () => {
    expect(wordsFor(new TypeError("x is undefined"))).not.toContain("undefined");
  });
});

it("reads the reason and metadata out of a refusal's details", () => {
  const refusal = refusalOf(409, {
    code: 10,
    message: "gone",
    details: [
      {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        reason: "SEAT_UNAVAILABLE",
        metadata: { lostSeatIds: "3" },
      },
    ],
  });
  expect(refusal).toMatchObject({
    status: 409,
    reason: "SEAT_UNAVAILABLE",
    message: "gone",
    metadata: { lostSeatIds: "3" },
  });
});

it("takes an answer that is not ours for its status alone", () => {
  expect(refusalOf(502, null)).toMatchObject({ reason: "HTTP_502" });
});

it("finds lost seats in that refusal only", () => {
  expect(lostSeatIds(lost("3,4, 5"))).toEqual([3, 4, 5]);
  expect(lostSeatIds(lost(""))).toEqual([]);
  expect(lostSeatIds(new Refusal(409, "CONTENDED", "", { lostSeatIds: "3" }))).toEqual([]);
});

it("offers a smaller party after that refusal only", () => {
  expect(largestParty(new Refusal(409, "NO_BLOCK", "", { largest: "3" }))).toBe(3);
  expect(largestParty(new Refusal(409, "NO_BLOCK", "", { largest: "0" }))).toBe(0);
  expect(largestParty(new Refusal(409, "SOLD_OUT", "", { largest: "3" }))).toBe(0);
});

it("says why an order failed", () => {
  expect(failureWords("CARD_DECLINED")).toBe("The bank declined the card.");
  expect(failureWords("NEVER_HEARD_OF")).toBe("The payment did not go through.");
});
