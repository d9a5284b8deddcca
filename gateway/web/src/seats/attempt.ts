// One intention to hold seats, with the key that makes its retries the same request. It is kept until somebody
// answers, so that a lost answer, or a reload in between, asks for the same hold and not for a second one.

import { newKey } from "../api/client.ts";

export interface Attempt {
  key: string;
  seatIds: number[];
}

/** The unanswered attempt for just these seats, or a new one. */
export function attemptFor(storageName: string, seatIds: readonly number[]): Attempt {
  const wanted = [...seatIds].sort((a, b) => a - b);
  const before = read(storageName);
  if (before && before.seatIds.join() === wanted.join()) return before;
  const attempt = { key: newKey(), seatIds: wanted };
  sessionStorage.setItem(storageName, JSON.stringify(attempt));
  return attempt;
}

/** Somebody answered, with yes or no: the next intention is another one. */
export function answered(storageName: string): void {
  sessionStorage.removeItem(storageName);
}

/** The key of a named intention, the same each time it is asked for. */
export function keyOf(storageName: string): string {
  const before = sessionStorage.getItem(storageName);
  if (before) return before;
  const key = newKey();
  sessionStorage.setItem(storageName, key);
  return key;
}

function read(storageName: string): Attempt | null {
  try {
    return JSON.parse(sessionStorage.getItem(storageName) ?? "null") as Attempt | null;
  } catch {
    return null;
  }
}
