// The server's time, as far as a browser can tell it. A hold ends by the database's clock; a device's clock that is
// minutes off must not show minutes that are not there.

/** Below this a difference is the Date header's own grain (1 s) and the network, not a wrong clock. */
const NOISE_MS = 1_500;

let offsetMs = 0;
let bestRoundTripMs = Infinity;

/** Learns from an answer's Date header; the quickest round trip seen so far tells the most. */
export function learnServerTime(dateHeader: string | null, sentMs: number, receivedMs: number): void {
  const offset = clockOffset(dateHeader, sentMs, receivedMs);
  const roundTripMs = receivedMs - sentMs;
  if (offset === null || roundTripMs > bestRoundTripMs) return;
  bestRoundTripMs = roundTripMs;
  offsetMs = offset;
}

/** Milliseconds to add to this device's clock; null without a usable header, 0 when the difference is noise. */
export function clockOffset(dateHeader: string | null, sentMs: number, receivedMs: number): number | null {
  const serverMs = Date.parse(dateHeader ?? "");
  if (Number.isNaN(serverMs)) return null;
  const halfOfTheGrainMs = 500; // the header is cut to whole seconds
  const offset = serverMs + halfOfTheGrainMs - (sentMs + receivedMs) / 2;
  return Math.abs(offset) < NOISE_MS ? 0 : Math.round(offset);
}

/** Milliseconds since 1970 by the server's clock. */
export function serverNow(): number {
  return Date.now() + offsetMs;
}
