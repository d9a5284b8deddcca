// How long the line will still take. Approximate, and never growing on screen: a number that people watch must not
// take back what it said.

export interface EtaInput {
  /** People before this one. */
  ahead: number;
  /** Positions passed a second; 0 when nobody knows. */
  ratePerSecond: number;
}

/** Seconds to show now, given what was shown before; null until there is something to go by. */
export function nextEta(shown: number | null, { ahead, ratePerSecond }: EtaInput): number | null {
  const estimate = ahead <= 0 ? 0 : ratePerSecond > 0 ? ahead / ratePerSecond : null;
  if (estimate === null) return shown;
  return shown === null ? estimate : Math.min(shown, estimate);
}

/** "about 4 minutes". Rounded up, in steps that grow with the number, so that it does not flicker. */
export function etaWords(seconds: number | null): string {
  if (seconds === null) return "not known yet";
  if (seconds < 50) return "less than a minute";
  const minutes = Math.ceil(seconds / 60);
  if (minutes <= 1) return "about a minute";
  if (minutes < 20) return `about ${minutes} minutes`;
  if (minutes <= 90) return `about ${Math.ceil(minutes / 5) * 5} minutes`;
  return `about ${Math.ceil(minutes / 60)} hours`;
}

/** Seconds of a protobuf Duration ("12.5s"); null when there is none. */
export function durationSeconds(duration: string | undefined): number | null {
  const seconds = Number.parseFloat(duration ?? "");
  return Number.isFinite(seconds) ? seconds : null;
}

/** How far along, 0 to 1, from the people who were before this one at the start. */
export function progress(aheadAtStart: number, ahead: number): number {
  if (aheadAtStart <= 0) return ahead <= 0 ? 1 : 0;
  return Math.min(1, Math.max(0, 1 - ahead / aheadAtStart));
}
