// Times as people read them. An event's times are in its venue's zone, wherever the reader is.

/** "Saturday 14 November 2026, 20:00 GMT". */
export function formatMoment(rfc3339: string, timeZone: string): string {
  return new Intl.DateTimeFormat("en-GB", {
    timeZone,
    weekday: "long",
    day: "numeric",
    month: "long",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    timeZoneName: "short",
  }).format(new Date(rfc3339));
}

/** "Sat 14 Nov, 20:00". */
export function formatShort(rfc3339: string, timeZone: string): string {
  return new Intl.DateTimeFormat("en-GB", {
    timeZone,
    weekday: "short",
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
  }).format(new Date(rfc3339));
}

export interface CalendarDay {
  day: string;
  month: string;
  year: string;
  weekday: string;
}

/** The parts of a date block, in the venue's zone. */
export function calendarDay(rfc3339: string, timeZone: string): CalendarDay {
  const part = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat("en-GB", { timeZone, ...options }).format(new Date(rfc3339));
  return {
    day: part({ day: "numeric" }),
    month: part({ month: "short" }),
    year: part({ year: "numeric" }),
    weekday: part({ weekday: "short" }),
  };
}

/** Whole seconds left, never negative: a hold of 0.2 s shows 1, one that is over shows 0. */
export function secondsLeft(expiresAt: string, nowMs: number): number {
  return Math.max(0, Math.ceil((Date.parse(expiresAt) - nowMs) / 1_000));
}

/** "9:05", "1:02:09". */
export function formatCountdown(seconds: number): string {
  const [hours, minutes, rest] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (part: number) => String(part).padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** "8 seconds", "3 minutes", "2 hours": rounded down, for an age. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 90) return plural(seconds, "second");
  if (seconds < 5_400) return plural(Math.floor(seconds / 60), "minute");
  return plural(Math.floor(seconds / 3_600), "hour");
}

/** The moment until which an event's buyers may cancel; null for never. */
export function cancelEnd(event: { startTime: string; rules?: { cancelSeconds?: number } }): string | null {
  const seconds = event.rules?.cancelSeconds ?? 0;
  return seconds > 0 ? new Date(Date.parse(event.startTime) - seconds * 1_000).toISOString() : null;
}

export function plural(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
