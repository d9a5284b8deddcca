import { useEffect, useState } from "preact/hooks";

import { endIfRefused, signedIn, userTokens } from "../account/session.ts";
import { createOrder, getEvent, getHold, releaseHold } from "../api/calls.ts";
import { Refusal } from "../api/client.ts";
import { wordsFor } from "../api/words.ts";
import type { Event, Hold } from "../api/types.ts";
import { visitTo } from "../line/visit.ts";
import { keyOf } from "../seats/attempt.ts";
import { useLoad, useNow } from "../shell/hooks.ts";
import { formatMoney } from "../shell/money.ts";
import { Bill, Heading, Loading, Notice, Problem, SignInPrompt } from "../shell/parts.tsx";
import { orderPlace, seatsPlace } from "../shell/places.ts";
import { Link, navigate } from "../shell/router.tsx";
import { formatCountdown, formatMoment, secondsLeft } from "../shell/time.ts";

/** The processor's test tokens: there is no card form, and no card number ever comes near this page. */
const WAYS_TO_PAY = [
  { token: "pm_card_visa", label: "Visa (succeeds)" },
  { token: "pm_card_visa_chargeDeclined", label: "Declined card" },
  { token: "pm_sandbox_slow", label: "Slow bank" },
] as const;

/** From here on the countdown asks for attention. */
const HURRY_SECONDS = 60;

export function CheckoutPage({ holdId }: { holdId: string }) {
  const loaded = useLoad(async (signal) => {
    const hold = await getHold(holdId, userTokens(), signal);
    return { hold, event: await getEvent(hold.eventId, signal) };
  }, `${holdId} ${signedIn.value}`);
  if (!signedIn.value) return <SignInPrompt why="A hold belongs to an account. Sign in to see yours." />;
  if (loaded.error !== null) return <Problem error={loaded.error} onRetry={loaded.reload} />;
  if (!loaded.value) return <Loading what="your seats" />;
  return <Checkout {...loaded.value} onExpired={loaded.reload} />;
}

interface CheckoutProps {
  hold: Hold;
  event: Event;
  onExpired: () => void;
}

function Checkout({ hold, event, onExpired }: CheckoutProps) {
  const now = useNow(500);
  const left = secondsLeft(hold.expiresAt, now);
  const isActive = hold.state === "HOLD_STATE_ACTIVE";
  useStay(event.eventId, isActive);
  useEffect(() => {
    if (hold.orderId) navigate(orderPlace(hold.orderId), { replace: true });
  }, [hold.orderId]);
  useEffect(() => {
    if (isActive && left === 0) onExpired(); // the server's word on it; this clock only guesses
  }, [isActive && left === 0]);
  return (
    <section class="checkout">
      <p class="kicker">{event.name}</p>
      <Heading title={hold.area ? "Pay for your tickets" : "Pay for your seats"} />
      <p class="soft">
        {formatMoment(event.startTime, event.venue.timeZone)} · {event.venue.name}, {event.venue.city}
      </p>
      {isActive ? <Countdown left={left} /> : <HoldOver hold={hold} event={event} />}
      <div class="checkout-columns">
        <section class="panel">
          <h2>{hold.area ? "Your tickets" : "Your seats"}</h2>
          <Bill seats={hold.seats} area={hold.area} fees={hold.fees} total={hold.total} />
        </section>
        {isActive && <PayForm hold={hold} event={event} />}
      </div>
    </section>
  );
}

/** The lease goes on while its holder pays, so that changing one's mind does not cost the position. */
function useStay(eventId: string, wanted: boolean): void {
  useEffect(() => {
    const run = new AbortController();
    if (wanted) void visitTo(eventId).stay(run.signal);
    return () => run.abort();
  }, [eventId, wanted]);
}

function Countdown({ left }: { left: number }) {
  const isClose = left <= HURRY_SECONDS;
  return (
    <div class={`countdown ${isClose ? "close" : ""}`}>
      <span role="timer">
        <span class="soft">Held for</span> <strong>{formatCountdown(left)}</strong>
      </span>
      <span class="hidden" role="status">
        {isClose && left > 0 ? "Less than a minute left." : ""}
      </span>
    </div>
  );
}

function PayForm({ hold, event }: { hold: Hold; event: Event }) {
  const [paymentToken, setPaymentToken] = useState<string>(WAYS_TO_PAY[0].token);
  const [isBusy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ tone: "calm" | "bad"; text: string } | null>(null);
  const pay = async (submitted: SubmitEvent) => {
    submitted.preventDefault();
    setBusy(true);
    setMessage(null);
    const wait = () => setMessage({ tone: "calm", text: "No answer yet. Asking again; you are charged once at most." });
    try {
      navigate(orderPlace(await order(hold.holdId, paymentToken, wait)));
    } catch (error) {
      if (!endIfRefused(error)) setMessage({ tone: "bad", text: wordsFor(error) });
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="panel pay" onSubmit={pay}>
      <h2>Payment</h2>
      <label>
        <span>Way to pay</span>
        <select
          name="payment"
          value={paymentToken}
          disabled={isBusy}
          onChange={(change) => setPaymentToken(change.currentTarget.value)}
        >
          {WAYS_TO_PAY.map((way) => (
            <option key={way.token} value={way.token}>
              {way.label}
            </option>
          ))}
        </select>
      </label>
      <p class="hint">Test payments only: no money moves.</p>
      {message && <Notice tone={message.tone}>{message.text}</Notice>}
      <button type="submit" class="button primary block" disabled={isBusy} aria-busy={isBusy}>
        {isBusy ? "Ordering…" : `Pay ${formatMoney(hold.total)}`}
      </button>
      <GiveBack hold={hold} event={event} isDisabled={isBusy} />
    </form>
  );
}

/** The order's id. A hold that already became an order leads to that order. */
async function order(holdId: string, paymentToken: string, onWait: () => void): Promise<string> {
  const key = keyOf(`rowlock.order.${holdId}.${paymentToken}`);
  try {
    return await createOrder({ holdId, paymentToken, key, tokens: userTokens() }, onWait);
  } catch (error) {
    const orderId = error instanceof Refusal && error.reason === "ORDER_EXISTS" ? error.metadata["orderId"] : undefined;
    if (orderId) return orderId;
    throw error;
  }
}

function GiveBack({ hold, event, isDisabled }: { hold: Hold; event: Event; isDisabled: boolean }) {
  const [error, setError] = useState<unknown>(null);
  const giveBack = () =>
    releaseHold(hold.holdId, userTokens()).then(() => navigate(seatsPlace(event.eventId), { replace: true }), setError);
  return (
    <>
      <button type="button" class="button quiet block" disabled={isDisabled} onClick={giveBack}>
        {hold.area ? "Give these tickets back" : "Give these seats back"}
      </button>
      {error !== null && <Problem error={error} />}
    </>
  );
}

function HoldOver({ hold, event }: { hold: Hold; event: Event }) {
  const these = hold.area ? "tickets" : "seats";
  const words: Partial<Record<Hold["state"], string>> = {
    HOLD_STATE_EXPIRED: `The time for these ${these} ran out. They are on sale again; nothing was charged.`,
    HOLD_STATE_RELEASED: `These ${these} were given back. Nothing was charged.`,
    HOLD_STATE_CONFIRMED: `These ${these} are ordered.`,
  };
  return (
    <Notice tone="warning">
      <p>{words[hold.state] ?? "This hold has ended."}</p>
      <Link class="button" to={seatsPlace(event.eventId)}>
        {hold.area ? "Choose again" : "Choose seats again"}
      </Link>
    </Notice>
  );
}
