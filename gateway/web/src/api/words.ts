// What a refusal means, as a sentence for the person who got it.

import { NoAnswer, Refusal } from "./client.ts";
import { plural } from "../shell/time.ts";
import { serverNow } from "./clock.ts";

export interface Context {
  /** Names a seat: "Stalls, row C, seat 14". */
  seatName?: (seatId: number) => string;
  /** Shows a time where the event is. */
  time?: (rfc3339: string) => string;
}

type Say = (refusal: Refusal, context: Context) => string;

const SENTENCES: Record<string, Say> = {
  SEAT_UNAVAILABLE: (refusal, context) => lostSeats(lostSeatIds(refusal), context),
  SEAT_NOT_FOUND: () => "One of these seats is not part of this event. Reload the map and pick again.",
  TOO_MANY_TICKETS: ({ metadata }) => tooMany(metadata["limit"], metadata["used"]),
  NOT_ON_SALE: ({ metadata }, context) => notOnSale(metadata, context),
  HOLD_EXPIRED: () => "The time for these seats ran out before the order was placed. Nothing was charged.",
  HOLD_NOT_FOUND: () => "There is no such hold on your account.",
  ORDER_EXISTS: () => "These seats are already ordered.",
  ORDER_NOT_FOUND: () => "There is no such order on your account.",
  SELECTION_CLOSED: () => "Seats cannot be picked at this event. Take the best that are left.",
  NO_BLOCK: ({ metadata }) => noBlock(Number(metadata["largest"])),
  TEMPORARILY_UNAVAILABLE: () =>
    "All that is left is held by others just now. Some of it may come back: try again in a moment.",
  SOLD_OUT: () => "Nothing of what you asked for is left. Another price or section may still have some.",
  HOLD_BUDGET_SPENT: ({ metadata }, context) => budgetSpent(metadata["retryTime"], context),
  NOT_CANCELLABLE: ({ metadata }) =>
    metadata["state"] === "CANCELLED" ? "This order is cancelled already." : "Only a paid order can be cancelled.",
  CANCELLATION_CLOSED: () => "This order can not be cancelled any more.",
  AREA_NOT_FOUND: () => "There is no such area at this event.",
  TIER_NOT_FOUND: () => "There is no such price at this event.",
  EVENT_NOT_FOUND: () => "There is no such event.",
  SECTION_NOT_FOUND: () => "There is no such section in this venue.",
  CONTENDED: () => "Too many people reached for these seats at once and nothing was decided. Try again.",
  NOT_YET: () => "It is not your turn yet.",
  ADMISSION_MISSED: () =>
    "Your turn came, but you were not there to enter in time. Join again, at the back of the line.",
  LEASE_ENDED: () => "Your time inside has ended. Join the line again to pick seats.",
  TOKEN_FOR_ANOTHER: () => "Your admission is for another event or account. Join this event's line.",
  IDEMPOTENCY_KEY_REUSED: () => "This request was already used for something else. Pick your seats and try again.",
};

const BY_STATUS: Record<number, string> = {
  401: "Your sign-in has ended. Sign in again.",
  403: "That is not yours to do.",
  404: "There is nothing here.",
  413: "That was too much at once.",
  429: "Too many requests from here. Wait a moment, then try again.",
};

/** The sentence for anything that a call threw. */
export function wordsFor(error: unknown, context: Context = {}): string {
  if (error instanceof NoAnswer) return "No answer came from Rowlock. Check your connection and try again.";
  if (!(error instanceof Refusal)) return "Something went wrong on this page. Reload it and try again.";
  const say = SENTENCES[error.reason];
  return say ? say(error, context) : (BY_STATUS[error.status] ?? (error.message || "Rowlock could not do that."));
}

/** Seats that somebody else took first; empty for any other refusal. */
export function lostSeatIds(error: unknown): number[] {
  if (!(error instanceof Refusal) || error.reason !== "SEAT_UNAVAILABLE") return [];
  return (error.metadata["lostSeatIds"] ?? "")
    .split(",")
    .map(Number)
    .filter((id) => Number.isInteger(id) && id > 0);
}

/** The size of party that a refusal says could still be had; 0 for any other refusal. */
export function largestParty(error: unknown): number {
  if (!(error instanceof Refusal) || error.reason !== "NO_BLOCK") return 0;
  const largest = Number(error.metadata["largest"]);
  return Number.isInteger(largest) && largest > 0 ? largest : 0;
}

const FAILURES: Record<string, string> = {
  CARD_DECLINED: "The bank declined the card.",
  INSUFFICIENT_FUNDS: "The bank declined the card: there is not enough money on it.",
  EXPIRED_CARD: "The card has expired.",
  AUTHENTICATION_REQUIRED: "The bank wants you to confirm this payment, which is not possible here yet.",
  INCORRECT_CVC: "The card's security code was not right.",
  CARD_VELOCITY_EXCEEDED: "The bank declined the card: it was used too often.",
  PROCESSING_ERROR: "The bank could not process the card just now.",
  PAYMENT_CANCELED: "The bank gave no answer in time, so the payment was called off.",
};

/** Why an order failed; the money was not taken. */
export function failureWords(reason: string | undefined): string {
  return FAILURES[reason ?? ""] ?? "The payment did not go through.";
}

function lostSeats(ids: number[], { seatName }: Context): string {
  if (ids.length === 0 || !seatName)
    return "Somebody else was faster: these seats are gone. Nothing was held. Pick others.";
  const names = ids.map(seatName).join("; ");
  return ids.length === 1
    ? `Somebody else was faster: ${names} is gone. Nothing was held. Pick another seat and try again.`
    : `Somebody else was faster: ${names} are gone. Nothing was held. Pick other seats and try again.`;
}

function noBlock(largest: number): string {
  return largest > 0
    ? `There are not so many left as you asked. ${plural(largest, "place")} can still be had.`
    : "There are not so many left as you asked. Try fewer, or another price or section.";
}

/** Rounded up, so that who waits as long as told is not refused again. */
function budgetSpent(retryTime: string | undefined, { time }: Context): string {
  const sentence = "You held and gave back too often at this event.";
  const leftMs = Date.parse(retryTime ?? "") - serverNow();
  if (!retryTime || Number.isNaN(leftMs)) return `${sentence} Wait some minutes, then try again.`;
  const moment = time ? ` (${time(retryTime)})` : "";
  return `${sentence} You can try again in ${plural(Math.max(1, Math.ceil(leftMs / 60_000)), "minute")}${moment}.`;
}

function tooMany(limit: string | undefined, used: string | undefined): string {
  if (!limit) return "That is more tickets than one account may have for this event.";
  const had = used && used !== "0" ? ` You already have ${used}.` : "";
  return `One account may have ${limit} tickets for this event.${had} Choose fewer.`;
}

function notOnSale(metadata: Readonly<Record<string, string>>, { time }: Context): string {
  const start = metadata["saleStartTime"];
  const end = metadata["saleEndTime"];
  if (start && time && Date.parse(start) > serverNow()) return `Tickets go on sale ${time(start)}.`;
  if (end && Date.parse(end) <= serverNow()) return "The sale is over.";
  return "Tickets for this event are not on sale now.";
}
