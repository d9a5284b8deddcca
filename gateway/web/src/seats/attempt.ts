// One intention to hold something, with the key that makes its retries the same request. It is kept until somebody
// answers, so that a lost answer, or a reload in between, asks for the same hold and not for a second one.

import { newKey } from "../api/client.ts";
import type { Wish } from "../api/types.ts";

export interface Attempt {
  key: string;
  wish: Wish;
}

/** The unanswered attempt for just this wish, or a new one. */
export function attemptFor(storageName: string, wish: Wish): Attempt {
  const wanted = inOrder(wish);
  const before = read(storageName);
  if (before && JSON.stringify(before.wish) === JSON.stringify(wanted)) return before;
  const attempt = { key: newKey(), wish: wanted };
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

/** The same seats are the same wish, in whatever order they were chosen. */
function inOrder(wish: Wish): Wish {
  return "seatIds" in wish ? { seatIds: [...wish.seatIds].sort((a, b) => a - b) } : wish;
}

function read(storageName: string): Attempt | null {
  try {
    return JSON.parse(sessionStorage.getItem(storageName) ?? "null") as Attempt | null;
  } catch {
    return null;
  }
}
