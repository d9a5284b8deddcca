// Every call that the page makes, one function each.

import { send, sendUntilAnswered, type Tokens } from "./client.ts";
import type {
  Admission,
  Event,
  EventPlan,
  Hold,
  Line,
  Order,
  Position,
  SectionCounts,
  Snapshot,
  Ticket,
  Wish,
} from "./types.ts";

export interface Search {
  q: string;
  city: string;
  dateFrom: string;
  dateTo: string;
}

export const EVENTS_PER_PAGE = 20;

export async function listEvents(search: Search, pageToken: string, signal?: AbortSignal) {
  const path = `/v1/events${queryOf({ ...search, pageToken, pageSize: String(EVENTS_PER_PAGE) })}`;
  const answer = await send<{ events?: Event[]; nextPageToken?: string }>(path, withSignal(signal));
  return { events: (answer.events ?? []).map(wholeEvent), nextPageToken: answer.nextPageToken ?? "" };
}

export async function getEvent(eventId: string, signal?: AbortSignal): Promise<Event> {
  const answer = await send<{ event: Event }>(`/v1/events/${encodeURIComponent(eventId)}`, withSignal(signal));
  return wholeEvent(answer.event);
}

export async function getPlan(eventId: string, signal?: AbortSignal): Promise<EventPlan> {
  return send<EventPlan>(`/v1/events/${encodeURIComponent(eventId)}/plan`, withSignal(signal));
}

export async function getSeats(eventId: string, section: string, signal?: AbortSignal): Promise<Snapshot> {
  const path = `/v1/events/${encodeURIComponent(eventId)}/seats${queryOf({ section })}`;
  return wholeSnapshot(await send<Partial<Snapshot>>(path, withSignal(signal)));
}

export function updatesPath(eventId: string, section: string): string {
  return `/v1/events/${encodeURIComponent(eventId)}/updates${queryOf({ section })}`;
}

export async function joinLine(eventId: string, tokens: Tokens): Promise<Position> {
  const path = `/v1/events/${encodeURIComponent(eventId)}/waiting-room`;
  const answer = await send<Partial<Position>>(path, { method: "POST", tokens, body: {} });
  return {
    epoch: "0",
    position: "0",
    queueToken: "",
    state: "POSITION_STATE_UNSPECIFIED",
    ...answer,
  };
}

export async function getLine(eventId: string, signal?: AbortSignal): Promise<Line> {
  const path = `/v1/events/${encodeURIComponent(eventId)}/waiting-room`;
  const answer = await send<Partial<Line>>(path, withSignal(signal));
  return {
    epoch: "0",
    admittedThrough: "0",
    tail: "0",
    ratePerSecond: 0,
    state: "LINE_STATE_UNSPECIFIED",
    ...answer,
  };
}

export async function enterEvent(eventId: string, tokens: Tokens): Promise<Admission> {
  return send(`/v1/events/${encodeURIComponent(eventId)}/enter`, { method: "POST", tokens, body: {} });
}

export async function heartbeat(eventId: string, tokens: Tokens): Promise<Admission> {
  return send(`/v1/events/${encodeURIComponent(eventId)}/heartbeat`, { method: "POST", tokens, body: {} });
}

export async function leaveEvent(eventId: string, tokens: Tokens): Promise<void> {
  await send(`/v1/events/${encodeURIComponent(eventId)}/leave`, { method: "POST", tokens, body: {} });
}

export interface HoldSeats {
  eventId: string;
  wish: Wish;
  key: string;
  tokens: Tokens;
}

export async function holdSeats({ eventId, wish, key, tokens }: HoldSeats, onWait: () => void): Promise<Hold> {
  const path = `/v1/events/${encodeURIComponent(eventId)}/holds`;
  const answer = await sendUntilAnswered<Omit<Hold, "eventId">>(
    path,
    { method: "POST", tokens, key, body: wish },
    onWait,
  );
  return { ...answer, eventId, seats: answer.seats ?? [] };
}

export async function getHold(holdId: string, tokens: Tokens, signal?: AbortSignal): Promise<Hold> {
  const path = `/v1/holds/${encodeURIComponent(holdId)}`;
  const answer = await send<{ hold: Hold }>(path, { tokens, ...withSignal(signal) });
  return { ...answer.hold, seats: answer.hold.seats ?? [] };
}

export async function releaseHold(holdId: string, tokens: Tokens): Promise<void> {
  await send(`/v1/holds/${encodeURIComponent(holdId)}`, { method: "DELETE", tokens });
}

export interface CreateOrder {
  holdId: string;
  paymentToken: string;
  key: string;
  tokens: Tokens;
}

export async function createOrder(order: CreateOrder, onWait: () => void): Promise<string> {
  const { holdId, paymentToken, key, tokens } = order;
  const request = { method: "POST", tokens, key, body: { holdId, paymentToken } } as const;
  return (await sendUntilAnswered<{ orderId: string }>("/v1/orders", request, onWait)).orderId;
}

export async function getOrder(orderId: string, tokens: Tokens, signal?: AbortSignal): Promise<Order> {
  const path = `/v1/orders/${encodeURIComponent(orderId)}`;
  const answer = await send<{ order: Order }>(path, { tokens, ...withSignal(signal) });
  return wholeOrder(answer.order);
}

/** The order as it ended. May be repeated: a cancelled order stays cancelled. */
export async function cancelOrder(orderId: string, tokens: Tokens, onWait: () => void): Promise<Order> {
  const path = `/v1/orders/${encodeURIComponent(orderId)}/cancel`;
  const answer = await sendUntilAnswered<{ order: Order }>(path, { method: "POST", tokens, body: {} }, onWait);
  return wholeOrder(answer.order);
}

export async function listOrders(pageToken: string, tokens: Tokens, signal?: AbortSignal) {
  const request = { tokens, ...withSignal(signal) };
  const answer = await send<{ orders?: Order[]; nextPageToken?: string }>(
    `/v1/orders${queryOf({ pageToken })}`,
    request,
  );
  return { orders: (answer.orders ?? []).map(wholeOrder), nextPageToken: answer.nextPageToken ?? "" };
}

export async function listTickets(orderId: string, tokens: Tokens, signal?: AbortSignal): Promise<Ticket[]> {
  const path = `/v1/orders/${encodeURIComponent(orderId)}/tickets`;
  return (await send<{ tickets?: Ticket[] }>(path, { tokens, ...withSignal(signal) })).tickets ?? [];
}

/** A snapshot or delta with the fields that JSON leaves out at their defaults. */
export function wholeSnapshot(answer: Partial<Snapshot>): Snapshot {
  return {
    asOf: answer.asOf ?? "",
    watermark: answer.watermark ?? "",
    sections: (answer.sections ?? []).map(wholeCounts),
    seats: answer.seats ?? [],
  };
}

/** `?name=value&…` without the empty ones. A space is %20: the gateway takes a plus sign for a plus sign. */
export function queryOf(values: Record<string, string>): string {
  const filled = Object.entries(values).filter(([, value]) => value !== "");
  const text = String(new URLSearchParams(filled)).replace(/\+/g, "%20");
  return text === "" ? "" : `?${text}`;
}

function wholeCounts(counts: Partial<SectionCounts>): SectionCounts {
  return { section: "", open: 0, held: 0, taken: 0, ...counts };
}

function wholeOrder(order: Order): Order {
  return { ...order, seats: order.seats ?? [] };
}

function wholeEvent(event: Event): Event {
  return { ...event, tiers: event.tiers ?? [], areas: event.areas ?? [], seatCount: event.seatCount ?? 0 };
}

function withSignal(signal?: AbortSignal): { signal?: AbortSignal } {
  return signal ? { signal } : {};
}
