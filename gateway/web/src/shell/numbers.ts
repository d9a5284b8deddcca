// Numbers as people type them.

/** The nearest whole number within the bounds; the least for what is no number. */
export function clamped(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, Number.isFinite(value) ? Math.floor(value) : least));
}
