import { useEffect, useState } from "preact/hooks";

import { endIfRefused, signedIn } from "../account/session.ts";
import { getEvent } from "../api/calls.ts";
import type { Event, Line } from "../api/types.ts";
import { etaWords, progress } from "../line/eta.ts";
import { visitTo, type Visit, type VisitKeeper } from "../line/visit.ts";
import { useLoad, useNow } from "../shell/hooks.ts";
import { Heading, Loading, Notice, Problem, Progress, SignInPrompt } from "../shell/parts.tsx";
import { eventPlace, seatsPlace } from "../shell/places.ts";
import { Link, navigate } from "../shell/router.tsx";
import { formatCountdown, formatMoment, secondsLeft } from "../shell/time.ts";

export function LinePage({ eventId }: { eventId: string }) {
  const event = useLoad((signal) => getEvent(eventId, signal), eventId);
  if (event.error !== null) return <Problem error={event.error} onRetry={event.reload} />;
  if (!event.value) return <Loading what="the event" />;
  if (!signedIn.value) return <SignInPrompt why={whySignIn(event.value)} />;
  return <Waiting event={event.value} keeper={visitTo(eventId)} />;
}

function whySignIn(event: Event): string {
  return event.line
    ? "A position in the line belongs to an account. Sign in to take yours."
    : "Seats are held for an account. Sign in to choose yours.";
}

function Waiting({ event, keeper }: { event: Event; keeper: VisitKeeper }) {
  const [error, setError] = useState<unknown>(null);
  const [turn, setTurn] = useState(0);
  const visit = keeper.visit.value;
  useEffect(() => {
    const run = new AbortController();
    follow(keeper, run.signal).catch((problem: unknown) => endIfRefused(problem) || setError(problem));
    return () => run.abort();
  }, [keeper, turn]);
  useEffect(() => {
    if (visit.stage === "inside") navigate(seatsPlace(event.eventId), { replace: true });
  }, [visit.stage]);
  const again = () => (setError(null), setTurn(turn + 1));
  const rejoin = () => {
    setError(null);
    keeper.join().then(again, setError);
  };
  return (
    <section class="panel narrow line">
      <p class="kicker">{event.name}</p>
      {error !== null && <Problem error={error} onRetry={again} />}
      {visit.stage === "missed" && <Missed onRejoin={rejoin} />}
      {visit.stage === "ended" && <Ended onRejoin={rejoin} />}
      {visit.stage === "outside" && error === null && <Loading what="your position" />}
      {visit.stage === "waiting" && <Standing keeper={keeper} event={event} />}
      {visit.stage === "inside" && <Heading title="Your turn" />}
    </section>
  );
}

/** Joins if nobody did, then waits. A reload finds its position kept, and only waits. */
async function follow(keeper: VisitKeeper, signal: AbortSignal): Promise<void> {
  if (keeper.visit.value.stage === "outside") await keeper.join();
  await keeper.wait(signal);
}

function Standing({ keeper, event }: { keeper: VisitKeeper; event: Event }) {
  const visit = keeper.visit.value;
  const line = keeper.line.value;
  const ahead = peopleBefore(visit, line);
  const isBefore = line?.state === "LINE_STATE_BEFORE_SALE";
  const share = progress(visit.aheadAtStart ?? ahead, ahead);
  const leave = () => void keeper.leave().then(() => navigate(eventPlace(event.eventId)));
  return (
    <>
      <Heading title="You are in the line">{ahead === 0 && !isBefore ? "You are next" : "You are in the line"}</Heading>
      <p class="big" aria-live="polite">
        <span class="big-number">{ahead.toLocaleString("en")}</span>{" "}
        {ahead === 1 ? "person before you" : "people before you"}
      </p>
      {!isBefore && <Progress share={share} label="How far you have come in the line" />}
      <dl class="facts compact">
        <dt>Your position</dt>
        <dd>{visit.position.toLocaleString("en")}</dd>
        <dt>Time left</dt>
        <dd>{timeLeft(line, visit)}</dd>
      </dl>
      <LineWords line={line} event={event} isStale={keeper.stale.value} />
      <p class="hint">
        Your position is kept if you reload. When it is your turn the seat map opens by itself; be here within a minute
        of it.
      </p>
      <button type="button" class="button quiet" onClick={leave}>
        Leave the line
      </button>
    </>
  );
}

function timeLeft(line: Line | null, { etaSeconds }: Visit): string {
  if (line?.state === "LINE_STATE_BEFORE_SALE") return "the line moves once the sale starts";
  if (line?.state === "LINE_STATE_SOLD_OUT") return "nobody knows: nothing is left right now";
  return etaWords(etaSeconds);
}

function LineWords({ line, event, isStale }: { line: Line | null; event: Event; isStale: boolean }) {
  if (isStale)
    return <Notice tone="warning">The line can not be reached right now. Your position is safe; still trying.</Notice>;
  switch (line?.state) {
    case "LINE_STATE_BEFORE_SALE":
      return <BeforeSale event={event} />;
    case "LINE_STATE_PAUSED":
      return (
        <Notice tone="calm">
          The line is standing still: everybody inside is still choosing, or all seats are held.
        </Notice>
      );
    case "LINE_STATE_SOLD_OUT":
      return (
        <Notice tone="warning">
          Everything is sold or being paid for. If something comes back, the line moves on, and your position is kept.
        </Notice>
      );
    case "LINE_STATE_ENDED":
      return <Notice tone="warning">The sale is over.</Notice>;
    default:
      return null;
  }
}

function BeforeSale({ event }: { event: Event }) {
  const now = useNow();
  if (!event.saleStartTime) return null;
  const left = secondsLeft(event.saleStartTime, now);
  return (
    <Notice tone="calm">
      The sale starts {formatMoment(event.saleStartTime, event.venue.timeZone)}
      {left > 0 && left < 86_400 ? `, in ${formatCountdown(left)}` : ""}. Your position is already yours.
    </Notice>
  );
}

function Missed({ onRejoin }: { onRejoin: () => void }) {
  return (
    <>
      <Heading title="You missed your turn" />
      <p>Your turn came, but this page did not enter within a minute, so your position went to somebody else.</p>
      <button type="button" class="button primary" onClick={onRejoin}>
        Join again, at the back
      </button>
    </>
  );
}

function Ended({ onRejoin }: { onRejoin: () => void }) {
  return (
    <>
      <Heading title="Your time inside has ended" />
      <p>
        Seats that you already hold stay yours until their time is up; <Link to="/orders">your orders</Link> stay too.
        To choose more seats, join the line again.
      </p>
      <button type="button" class="button primary" onClick={onRejoin}>
        Join the line again
      </button>
    </>
  );
}

export function peopleBefore(
  visit: Pick<Visit, "position" | "aheadAtStart">,
  line: Pick<Line, "admittedThrough"> | null,
): number {
  if (!line) return visit.aheadAtStart ?? Math.max(0, visit.position - 1);
  return Math.max(0, visit.position - Number(line.admittedThrough) - 1);
}
