import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { serverNow } from "../src/api/clock.ts";
import { NoAnswer, Refusal, send, sendUntilAnswered } from "../src/api/client.ts";

type Answer = () => Promise<Response>;

const yes: Answer = async () => Response.json({ orderId: "ord_s1_1" }, { status: 202 });
const status =
  (code: number, reason: string): Answer =>
  async () =>
    Response.json({ message: "no", details: [{ reason }] }, { status: code });
const dropped: Answer = async () => {
  throw new TypeError("network");
};

/** Answers in turn; remembers what was asked. */
function serve(...answers: Answer[]): Headers[] {
  const asked: Headers[] = [];
  vi.stubGlobal("fetch", async (_path: string, init: RequestInit) => {
    asked.push(new Headers(init.headers));
    return (answers[asked.length - 1] ?? answers.at(-1) ?? yes)();
  });
  return asked;
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function ask(onWait = () => {}): Promise<unknown> {
  const request = { method: "POST", key: "k-1", tokens: { user: "u", admission: "a" }, body: {} } as const;
  const answer = sendUntilAnswered("/v1/orders", request, onWait).catch((error: unknown) => error);
  await vi.runAllTimersAsync();
  return answer;
}

describe("sendUntilAnswered", () => {
  it("asks again with the same key after a dropped connection, 503 and 504", async () => {
    const asked = serve(dropped, status(503, "UNAVAILABLE"), status(504, "DEADLINE_EXCEEDED"), yes);
    const waits = vi.fn();
    expect(await ask(waits)).toEqual({ orderId: "ord_s1_1" });
    expect(asked.map((headers) => headers.get("idempotency-key"))).toEqual(["k-1", "k-1", "k-1", "k-1"]);
    expect(waits).toHaveBeenCalledTimes(3);
  });

  it("takes a no for an answer", async () => {
    const asked = serve(status(409, "SEAT_UNAVAILABLE"));
    expect(await ask()).toBeInstanceOf(Refusal);
    expect(asked).toHaveLength(1);
  });

  it("asks again when nothing was decided", async () => {
    const asked = serve(status(409, "CONTENDED"), yes);
    expect(await ask()).toEqual({ orderId: "ord_s1_1" });
    expect(asked).toHaveLength(2);
  });

  it("gives up in the end, and says that nobody answered", async () => {
    const asked = serve(dropped);
    expect(await ask()).toBeInstanceOf(NoAnswer);
    expect(asked).toHaveLength(7);
  });
});

it("takes the time from first-hand answers only: a cached one has an old Date", async () => {
  vi.setSystemTime(new Date("2026-11-30T12:00:00Z"));
  const date = "Mon, 30 Nov 2026 11:00:00 GMT";
  serve(async () => Response.json({}, { headers: { date } }));
  await send("/v1/events");
  expect(serverNow()).toBe(Date.now());
  await send("/v1/orders", { tokens: { user: "u" } });
  expect(serverNow()).toBe(Date.parse(date) + 500);
});

it("sends tokens in headers", async () => {
  const asked = serve(yes);
  await send("/v1/x", { tokens: { user: "u", queue: "q", admission: "a" } });
  const names = ["authorization", "x-rowlock-queue", "x-rowlock-admission"];
  expect(names.map((name) => asked[0]?.get(name))).toEqual(["Bearer u", "q", "a"]);
});
