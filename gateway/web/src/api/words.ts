// What a refusal means, as a sentence for the person who got it.

import { NoAnswer, Refusal } from "./client.ts";
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

function tooMany(limit: string | undefined, used: string | undefined): string {
  if (!limit) return "That is more tickets than one account may have for this event.";
  const had = used && used !== "0" ? ` You already have ${used}.` : "";
  return `One account may have ${limit} tickets for this event.${had} Choose fewer seats.`;
}

function notOnSale(metadata: Readonly<Record<string, string>>, { time }: Context): string {
  const start = metadata["saleStartTime"];
  const end = metadata["saleEndTime"];
  if (start && time && Date.parse(start) > serverNow()) return `Tickets go on sale ${time(start)}.`;
  if (end && Date.parse(end) <= serverNow()) return "The sale is over.";
  return "Tickets for this event are not on sale now.";
}
