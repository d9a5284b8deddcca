import { useEffect, useRef, useState } from "preact/hooks";

import { endIfRefused, userTokens } from "../account/session.ts";
import { cancelOrder } from "../api/calls.ts";
import { wordsFor } from "../api/words.ts";
import type { Event, Order } from "../api/types.ts";
import { useNow } from "../shell/hooks.ts";
import { formatMoney } from "../shell/money.ts";
import { Notice } from "../shell/parts.tsx";
import { cancelEnd, formatMoment } from "../shell/time.ts";

export interface CancelOrderProps {
  order: Order;
  event: Event;
  onCancelled: () => void;
}

/** A paid order may be cancelled where the event allows it and while it does; in two steps, for it has no way back. */
export function CancelOrder({ order, event, onCancelled }: CancelOrderProps) {
  const now = useNow(10_000);
  const [isAsking, setAsking] = useState(false);
  const end = cancelEnd(event);
  if (order.state !== "ORDER_STATE_CONFIRMED" || !end || Date.parse(end) <= now) return null;
  if (isAsking) return <Confirm {...{ order, event, onCancelled }} onKeep={() => setAsking(false)} />;
  return (
    <section class="cancel">
      <button type="button" class="button quiet" onClick={() => setAsking(true)}>
        Cancel this order
      </button>
      <p class="hint">Possible until {formatMoment(end, event.venue.timeZone)}.</p>
    </section>
  );
}

interface ConfirmProps extends CancelOrderProps {
  onKeep: () => void;
}

function Confirm({ order, event, onCancelled, onKeep }: ConfirmProps) {
  const [isBusy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ tone: "calm" | "bad"; text: string } | null>(null);
  const keep = useRef<HTMLButtonElement>(null);
  useEffect(() => keep.current?.focus(), []); // on the answer that changes nothing
  const cancel = async () => {
    setBusy(true);
    const wait = () => setMessage({ tone: "calm", text: "No answer yet. Asking again; it is cancelled once at most." });
    try {
      await cancelOrder(order.orderId, userTokens(), wait);
      onCancelled();
    } catch (error) {
      if (!endIfRefused(error)) setMessage({ tone: "bad", text: wordsFor(error) });
    } finally {
      setBusy(false);
    }
  };
  return (
    <section class="panel cancel" role="alertdialog" aria-labelledby="cancel-title" aria-describedby="cancel-words">
      <h2 id="cancel-title">Cancel this order?</h2>
      <p id="cancel-words">
        Its tickets will open nothing any more
        {event.rules?.noResale ? "" : `, and others may buy your ${order.area ? "places" : "seats"}`}. You are owed {formatMoney(order.total)} back. This can not be undone.
      </p>
      {message && <Notice tone={message.tone}>{message.text}</Notice>}
      <div class="cancel-answers">
        <button ref={keep} type="button" class="button" disabled={isBusy} onClick={onKeep}>
          Keep it
        </button>
        <button type="button" class="button danger" disabled={isBusy} aria-busy={isBusy} onClick={() => void cancel()}>
          {isBusy ? "Cancelling…" : "Yes, cancel it"}
        </button>
      </div>
    </section>
  );
}
