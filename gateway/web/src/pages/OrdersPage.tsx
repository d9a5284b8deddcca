import { useState } from "preact/hooks";

import { endIfRefused, signedIn, userTokens } from "../account/session.ts";
import { getEvent, listOrders } from "../api/calls.ts";
import type { Order } from "../api/types.ts";
import { useLoad } from "../shell/hooks.ts";
import { formatMoney } from "../shell/money.ts";
import { Heading, Loading, Notice, Problem, SignInPrompt } from "../shell/parts.tsx";
import { orderPlace } from "../shell/places.ts";
import { Link } from "../shell/router.tsx";
import { formatShort, plural } from "../shell/time.ts";

interface Page {
  orders: Order[];
  nextPageToken: string;
}

export function OrdersPage() {
  const first = useLoad((signal) => listOrders("", userTokens(), signal), String(signedIn.value));
  if (!signedIn.value) return <SignInPrompt why="Sign in to see your orders and tickets." />;
  return (
    <>
      <Heading title="My orders" />
      {first.error !== null && <Problem error={first.error} onRetry={first.reload} />}
      {!first.value && first.error === null && <Loading what="your orders" />}
      {first.value && <OrderList first={first.value} />}
    </>
  );
}

function OrderList({ first }: { first: Page }) {
  const [page, setPage] = useState(first);
  const [error, setError] = useState<unknown>(null);
  const more = () =>
    listOrders(page.nextPageToken, userTokens()).then(
      (next) => setPage({ ...next, orders: [...page.orders, ...next.orders] }),
      (problem: unknown) => endIfRefused(problem) || setError(problem),
    );
  if (page.orders.length === 0) return <Empty />;
  return (
    <>
      <ul class="orders">
        {page.orders.map((order) => (
          <OrderRow key={order.orderId} order={order} />
        ))}
      </ul>
      {error !== null && <Problem error={error} />}
      {page.nextPageToken !== "" && (
        <p class="more">
          <button type="button" class="button" onClick={more}>
            Show older orders
          </button>
        </p>
      )}
    </>
  );
}

function OrderRow({ order }: { order: Order }) {
  const event = useLoad((signal) => getEvent(order.eventId, signal), order.eventId);
  const { tone, words } = stateOf(order);
  return (
    <li>
      <Link to={orderPlace(order.orderId)} class="order-row">
        <span class="order-row-words">
          <strong>{event.value?.name ?? "Event"}</strong>
          <span class="soft">
            {event.value && `${formatShort(event.value.startTime, event.value.venue.timeZone)} · `}
            {placesOf(order)} · {formatMoney(order.total)}
          </span>
        </span>
        <span class={`state ${tone}`}>{words}</span>
      </Link>
    </li>
  );
}

/** "2 seats", "3 × Standing". */
function placesOf({ seats, area }: Order): string {
  return area ? `${area.quantity} × ${area.name}` : plural(seats.length, "seat");
}

function Empty() {
  return (
    <Notice tone="calm">
      <p>You have no orders yet.</p>
      <Link class="button" to="/">
        Find events
      </Link>
    </Notice>
  );
}

function stateOf({ state, paymentState }: Order): { tone: string; words: string } {
  if (state === "ORDER_STATE_CONFIRMED") return { tone: "good", words: "Confirmed" };
  if (state === "ORDER_STATE_FAILED") return { tone: "bad", words: "Not paid" };
  if (state === "ORDER_STATE_CANCELLED") return { tone: "warning", words: "Cancelled" };
  return { tone: "calm", words: paymentState === "PAYMENT_STATE_UNKNOWN" ? "Asking the bank" : "Payment under way" };
}
