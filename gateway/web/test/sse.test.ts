import { describe, expect, it } from "vitest";

import { parseEvents } from "../src/seats/sse.ts";

describe("parseEvents", () => {
  it("reads id, event and data, and keeps an unfinished event", () => {
    const parsed = parseEvents('id: e1.1\ndata: {"a":1}\n\nevent: resync\ndata: {}\n\nid: e1.2\nda');
    expect(parsed.events).toEqual([
      { event: "message", id: "e1.1", data: '{"a":1}' },
      { event: "resync", id: null, data: "{}" },
    ]);
    expect(parsed.rest).toBe("id: e1.2\nda");
  });

  it("gives the same events wherever the text is cut", () => {
    const text = "id: 1\ndata: x\ndata: y\n\n: comment\n\nevent: resync\n\ndata:z\n\n";
    const whole = parseEvents(text).events;
    expect(whole.map((event) => event.data)).toEqual(["x\ny", "", "z"]);
    for (let cut = 0; cut <= text.length; cut++) {
      const first = parseEvents(text.slice(0, cut));
      const second = parseEvents(first.rest + text.slice(cut));
      expect([...first.events, ...second.events]).toEqual(whole);
    }
  });

  it("reads retry and passes comments over", () => {
    const parsed = parseEvents(": hello\nretry: 2500\n\n");
    expect(parsed).toEqual({ events: [], rest: "", retryMs: 2500 });
  });

  it("takes carriage returns for line ends", () => {
    expect(parseEvents("data: x\r\n\r\n").events).toEqual([{ event: "message", id: null, data: "x" }]);
  });
});
