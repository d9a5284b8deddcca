// Server-sent events out of a fetch body. EventSource would do this, but it cannot send the headers that our tokens
// travel in, and it hides the comments that show that a quiet stream is alive.

export interface StreamEvent {
  event: string;
  id: string | null;
  data: string;
}

export interface Parsed {
  events: StreamEvent[];
  /** Text of an unfinished event, to be given back with the next chunk. */
  rest: string;
  /** What the server asks to wait before reconnecting. */
  retryMs: number | null;
}

/** Longer than any delta; a stream without an end of event would grow for ever. */
const LONGEST_EVENT = 4_000_000;

/** Cuts whole events off the front of `text`. */
export function parseEvents(text: string): Parsed {
  const blocks = text.replace(/\r\n?/g, "\n").split("\n\n");
  const rest = blocks.pop() ?? "";
  if (rest.length > LONGEST_EVENT) throw new Error("an event of the stream has no end");
  const parsed: Parsed = { events: [], rest, retryMs: null };
  for (const block of blocks) addBlock(parsed, block);
  return parsed;
}

function addBlock(parsed: Parsed, block: string): void {
  const event: StreamEvent = { event: "message", id: null, data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const [field, value] = fieldOf(line);
    if (field === "event") event.event = value;
    else if (field === "id") event.id = value;
    else if (field === "data") data.push(value);
    else if (field === "retry" && /^\d+$/.test(value)) parsed.retryMs = Number(value);
  }
  event.data = data.join("\n");
  if (data.length > 0 || event.event !== "message") parsed.events.push(event);
}

function fieldOf(line: string): [string, string] {
  const colon = line.indexOf(":");
  if (colon < 0) return [line, ""];
  return [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
}
