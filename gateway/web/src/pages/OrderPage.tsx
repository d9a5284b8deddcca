import { useEffect, useState } from "preact/hooks";

import { endIfRefused, signedIn, userTokens } from "../account/session.ts";
import { getEvent, getOrder, listTickets } from "../api/calls.ts";
import { jittered, pause, Refusal } from "../api/client.ts";
import { failureWords } from "../api/words.ts";
import type { Event, Order, Ticket } from "../api/types.ts";
import { useLoad } from "../shell/hooks.ts";
import { formatMoney } from "../shell/money.ts";
import { Bill, Heading, Loading, Notice, Problem, SignInPrompt } from "../shell/parts.tsx";
import { CancelOrder } from "./CancelOrder.tsx";
import { linePlace } from "../shell/places.ts";
import { Link } from "../shell/router.tsx";
import { formatMoment } from "../shell/time.ts";
import { TicketStub } from "./TicketStub.tsx";

const FIRST_POLL_MS = 700;
const SLOWEST_POLL_MS = 8_000;

interface Progress {
  order: Order | null;
  tickets: Ticket[];
  error: unknown;
  /** The last look failed, an earlier one did not. */
  isStale: boolean;
}

export function OrderPage({ orderId }: { orderId: string }) {
  const { order, tickets, error, isStale, reload } = useOrder(orderId);
  const event = useLoad(
    (signal) => (order ? getEvent(order.eventId, signal) : Promise.resolve(null)),
    order?.eventId ?? "",
  );
  if (!signedIn.value) return <SignInPrompt why="An order belongs to an account. Sign in to see yours." />;
  if (error !== null) return <Problem error={error} />;
  if (!order) return <Loading what="your order" />;
  return (
    <section class="order">
      <p class="kicker">{event.value?.name ?? "Your order"}</p>
      <Heading title={titleOf(order)} />
      {event.value && (
        <p class="soft">
          {formatMoment(event.value.startTime, event.value.venue.timeZone)} · {event.value.venue.name},{" "}
          {event.value.venue.city}
        </p>
      )}
      <State order={order} tickets={tickets} />
      {isStale && (
        <Notice tone="warning">
          The order can not be reached right now; this is what was known last. Still trying.
        </Notice>
      )}
      {tickets.length > 0 && event.value && <Tickets tickets={tickets} event={event.value} />}
      <section class="panel">
        <h2>Receipt</h2>
        <Bill seats={order.seats} area={order.area} fees={order.fees} total={order.total} />
        <p class="hint">Order {order.orderId}</p>
      </section>
      {event.value && <CancelOrder order={order} event={event.value} onCancelled={reload} />}
    </section>
  );
}

/** Looks until nothing can change any more: quickly at first, then slower. */
function useOrder(orderId: string): Progress & { reload: () => void } {
  const [turn, setTurn] = useState(0);
  const [progress, setProgress] = useState<Progress>({ order: null, tickets: [], error: null, isStale: false });
  useEffect(() => {
    const run = new AbortController();
    if (progress.order?.orderId !== orderId) setProgress({ order: null, tickets: [], error: null, isStale: false });
    if (signedIn.value) void poll(orderId, run.signal, setProgress);
    return () => run.abort();
  }, [orderId, signedIn.value, turn]);
  return { ...progress, reload: () => setTurn(turn + 1) };
}

async function poll(orderId: string, signal: AbortSignal, tell: (next: Progress) => void): Promise<void> {
  let known: Progress = { order: null, tickets: [], error: null, isStale: false };
  for (let everyMs = FIRST_POLL_MS; !signal.aborted; everyMs = Math.min(everyMs * 1.25, SLOWEST_POLL_MS)) {
    try {
      const order = await getOrder(orderId, userTokens(), signal);
      const isIssued = order.ticketsState === "TICKETS_STATE_ISSUED";
      const tickets = isIssued ? await listTickets(orderId, userTokens(), signal) : [];
      known = { order, tickets, error: null, isStale: false };
    } catch (error) {
      if (signal.aborted || endIfRefused(error)) return;
      const isFinal = error instanceof Refusal && error.status < 500 && error.status !== 429;
      known = { ...known, isStale: known.order !== null, error: isFinal ? error : null };
    }
    tell(known);
    if (known.error !== null || isSettled(known)) return;
    await pause(jittered(everyMs), signal);
  }
}

export function isSettled({ order, tickets }: Pick<Progress, "order" | "tickets">): boolean {
  if (order?.state === "ORDER_STATE_CONFIRMED")
    return order.ticketsState === "TICKETS_STATE_ISSUED" && tickets.length > 0;
  return order?.state === "ORDER_STATE_FAILED" || order?.state === "ORDER_STATE_CANCELLED";
}

function titleOf({ state }: Order): string {
  switch (state) {
    case "ORDER_STATE_CONFIRMED":
      return "You are going";
    case "ORDER_STATE_FAILED":
      return "Not paid";
    case "ORDER_STATE_CANCELLED":
      return "Cancelled";
    default:
      return "Payment under way";
  }
}

function placesOf({ area }: Order): string {
  return area ? "places" : "seats";
}

/** The order, its payment and its tickets are separate facts, and are said apart. */
function State({ order, tickets }: { order: Order; tickets: Ticket[] }) {
  const them = placesOf(order);
  switch (order.state) {
    case "ORDER_STATE_CONFIRMED":
      return tickets.length > 0 ? (
        <Notice tone="good">Paid. Your tickets are below.</Notice>
      ) : (
        <Notice tone="good">Paid, and the {them} are yours. The tickets come within seconds.</Notice>
      );
    case "ORDER_STATE_FAILED":
      return (
        <Notice tone="bad">
          <p>
            {failureWords(order.failureReason)} Nothing was charged, and the {them} are on sale again.
          </p>
          <Link class="button" to={linePlace(order.eventId)}>
            {order.area ? "Choose again" : "Choose seats again"}
          </Link>
        </Notice>
      );
    case "ORDER_STATE_CANCELLED":
      return (
        <Notice tone="warning">
          This order was cancelled. Its tickets open nothing any more, and {formatMoney(order.total)} are owed back to
          you.
        </Notice>
      );
    default:
      return <PaymentPending order={order} />;
  }
}

function PaymentPending({ order }: { order: Order }) {
  const them = placesOf(order);
  if (order.paymentState === "PAYMENT_STATE_UNKNOWN") {
    return (
      <Notice tone="warning">
        The bank has not told us yet whether the payment went through. We do not guess: the {them} stay yours until we
        know, and you are charged once at most. You may close this page; the order stays in My orders.
      </Notice>
    );
  }
  return (
    <Notice tone="calm">Waiting for the bank. The {them} are kept for you meanwhile; this page looks by itself.</Notice>
  );
}

function Tickets({ tickets, event }: { tickets: Ticket[]; event: Event }) {
  return (
    <section aria-labelledby="tickets-title">
      <h2 id="tickets-title">{tickets.length === 1 ? "Your ticket" : "Your tickets"}</h2>
      <ul class="tickets">
        {tickets.map((ticket) => (
          <TicketStub key={ticket.ticketId} ticket={ticket} event={event} />
        ))}
      </ul>
    </section>
  );
}
