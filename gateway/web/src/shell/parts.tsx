// Small pieces that several pages show.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { signIn, signInEnded, SignInFailed } from "../account/session.ts";
import { Refusal } from "../api/client.ts";
import { wordsFor } from "../api/words.ts";
import type { HeldArea, HeldSeat, Money, Tier } from "../api/types.ts";
import { sectionName } from "../seats/plan.ts";
import { formatMoney, isZero, times } from "./money.ts";
import { address, Link } from "./router.tsx";

/** A page's heading. It takes the focus when the page is entered, so that a screen reader says where one is. */
export function Heading({ title, children }: { title: string; children?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Rowlock`;
    heading.current?.focus({ preventScroll: true });
  }, [title]);
  return (
    <h1 ref={heading} tabIndex={-1}>
      {children ?? title}
    </h1>
  );
}

export type Tone = "calm" | "good" | "warning" | "bad";

/** A message that is read out when it appears. */
export function Notice({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" || tone === "warning" ? "alert" : "status"}>
      {children}
    </div>
  );
}

/** What a failed call means, with a way on: what does not exist is not tried again. */
export function Problem({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const isMissing = error instanceof Refusal && error.status === 404;
  return (
    <Notice tone="bad">
      <p>{error instanceof SignInFailed ? error.message : wordsFor(error)}</p>
      {isMissing && (
        <Link class="button" to="/">
          Find events
        </Link>
      )}
      {onRetry && !isMissing && (
        <button type="button" class="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </Notice>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      <Course filled={0} total={5} /> Loading {what}…
    </p>
  );
}

/** Asks for a sign-in and comes back to this page. */
export function SignInPrompt({ why }: { why: string }) {
  const [error, setError] = useState<unknown>(null);
  const start = () => {
    const here = address.value.pathname + address.value.search;
    signIn(here).catch(setError);
  };
  return (
    <section class="panel narrow">
      <Heading title="Sign in" />
      {signInEnded.value && <p>Your sign-in has ended.</p>}
      <p>{why}</p>
      <button type="button" class="button primary" onClick={start}>
        Sign in
      </button>
      {error !== null && <Problem error={error} />}
    </section>
  );
}

/** Bricks laid on edge, some of them filled: Rowlock's mark, and its measure of how far something is. */
export function Course({ filled, total }: { filled: number; total: number }) {
  return (
    <span class="course" aria-hidden="true">
      {Array.from({ length: total }, (_, index) => (
        <span key={index} class={index < filled ? "brick filled" : "brick"} />
      ))}
    </span>
  );
}

/** A bar with its value for screen readers. */
export function Progress({ share, label }: { share: number; label: string }) {
  const bricks = 30;
  return (
    <div
      class="progress"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(share * 100)}
    >
      <Course filled={Math.round(share * bricks)} total={bricks} />
    </div>
  );
}

export function TierSwatch({ tier }: { tier: Pick<Tier, "color"> }) {
  return <span class="swatch" style={{ background: tier.color }} aria-hidden="true" />;
}

interface BillProps {
  seats: HeldSeat[];
  area: HeldArea | undefined;
  fees: Money | undefined;
  total: Money;
}

/** Seats, or units of an area, with their prices, fees and total. */
export function Bill({ seats, area, fees, total }: BillProps) {
  return (
    <table class="bill">
      <caption class="hidden">What is bought, and prices</caption>
      <tbody>
        {seats.map((seat) => (
          <tr key={seat.seatId}>
            <th scope="row">
              {sectionName(seat.section)},{" "}
              <span class="soft together">
                row {seat.row}, seat {seat.number}
              </span>
            </th>
            <td>{formatMoney(seat.price)}</td>
          </tr>
        ))}
        {area && (
          <tr>
            <th scope="row">
              {area.name},{" "}
              <span class="soft together">
                {area.quantity} × {formatMoney(area.price)}
              </span>
            </th>
            <td>{formatMoney(times(area.price, area.quantity))}</td>
          </tr>
        )}
        {fees && !isZero(fees) && (
          <tr>
            <th scope="row">Fees</th>
            <td>{formatMoney(fees)}</td>
          </tr>
        )}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">Total</th>
          <td>{formatMoney(total)}</td>
        </tr>
      </tfoot>
    </table>
  );
}
