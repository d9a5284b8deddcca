import { getEvent, getSeats } from "../api/calls.ts";
import type { Event, Snapshot } from "../api/types.ts";
import { serverNow } from "../api/clock.ts";
import { useLoad, useNow } from "../shell/hooks.ts";
import { formatMoney, isZero } from "../shell/money.ts";
import { Heading, Loading, Problem, TierSwatch } from "../shell/parts.tsx";
import { linePlace } from "../shell/places.ts";
import { Link } from "../shell/router.tsx";
import { cancelEnd, formatAge, formatMoment, plural } from "../shell/time.ts";

export function EventPage({ eventId }: { eventId: string }) {
  const event = useLoad((signal) => getEvent(eventId, signal), eventId);
  if (event.error !== null) return <Problem error={event.error} onRetry={event.reload} />;
  if (!event.value) return <Loading what="the event" />;
  return <Facts event={event.value} />;
}

function Facts({ event }: { event: Event }) {
  const { venue } = event;
  return (
    <article class="event">
      <header class="event-head">
        {event.performer && <p class="kicker">{event.performer}</p>}
        <Heading title={event.name} />
        {event.description && <p class="lead">{event.description}</p>}
      </header>
      <div class="event-columns">
        <dl class="facts">
          <dt>When</dt>
          <dd>
            <time dateTime={event.startTime}>{formatMoment(event.startTime, venue.timeZone)}</time>
            <span class="soft">{zoneNote(venue.timeZone)}</span>
          </dd>
          <dt>Where</dt>
          <dd>
            {venue.name}
            <span class="soft">
              {venue.city}, {venue.countryCode}
            </span>
          </dd>
          <dt>Seats</dt>
          <dd>
            {plural(event.seatCount, "seat")}
            <Availability event={event} />
            {event.areas.map((area) => (
              <span class="soft" key={area.areaId}>
                {area.name}: room for {area.capacity.toLocaleString("en")}, without a seat
              </span>
            ))}
          </dd>
        </dl>
        <section class="panel buy">
          <h2>Tickets</h2>
          <Prices event={event} />
          <Way event={event} />
          <Terms event={event} />
        </section>
      </div>
    </article>
  );
}

function Prices({ event }: { event: Event }) {
  return (
    <table class="bill">
      <caption class="hidden">Prices</caption>
      <tbody>
        {event.tiers.map((tier) => (
          <tr key={tier.tier ?? 0}>
            <th scope="row">
              <TierSwatch tier={tier} /> {tier.name}
            </th>
            <td>
              {formatMoney(tier.price)}
              {tier.fee && !isZero(tier.fee) && <span class="soft"> + {formatMoney(tier.fee)} fee</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** How to get in, or why not now. */
function Way({ event }: { event: Event }) {
  const now = useNow();
  const { saleStartTime, saleEndTime, venue } = event;
  if (saleEndTime && Date.parse(saleEndTime) <= now) return <p>The sale is over.</p>;
  const isBefore = saleStartTime !== undefined && Date.parse(saleStartTime) > now;
  return (
    <>
      {isBefore && <p>On sale from {formatMoment(saleStartTime, venue.timeZone)}.</p>}
      <Link to={linePlace(event.eventId)} class="button primary block">
        {event.line ? "Join the line" : "Choose seats"}
      </Link>
      {event.line && (
        <p class="hint">
          This event has a line. Everybody gets one position, in order of arrival; your turn opens the seat map.
        </p>
      )}
    </>
  );
}

/** What a buyer should know before, not after. */
function Terms({ event }: { event: Event }) {
  const end = cancelEnd(event);
  return (
    <>
      {event.rules?.bestAvailableOnly && (
        <p class="hint">The house chooses: you get the best seats that are left, side by side where it can.</p>
      )}
      <p class="hint">
        {end ? `You may cancel until ${formatMoment(end, event.venue.timeZone)}.` : "Orders can not be cancelled."}
      </p>
    </>
  );
}

/** A hint, not a promise: it says how old it is, and is silent when nobody knows. */
function Availability({ event }: { event: Event }) {
  const seats = useLoad((signal) => getSeats(event.eventId, "", signal), event.eventId);
  return seats.value ? <span class="soft">{availabilityWords(seats.value, event.areas.length > 0)}</span> : null;
}

function availabilityWords(snapshot: Snapshot, hasAreas: boolean): string {
  const open = snapshot.sections.reduce((total, section) => total + section.open, 0);
  const held = snapshot.sections.reduce((total, section) => total + section.held, 0);
  const ageMs = serverNow() - Date.parse(snapshot.asOf);
  const asOf = ageMs < 5_000 ? "just now" : `${formatAge(ageMs)} ago`;
  if (open > 0) return `${open.toLocaleString("en")} free ${asOf}`;
  if (held > 0) return `All held or sold ${asOf}; some may come back`;
  return hasAreas ? "All seats are sold" : "Sold out"; // areas are not counted here
}

function zoneNote(timeZone: string): string {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return here === timeZone ? "" : `Local time in ${(timeZone.split("/").pop() ?? timeZone).replace(/_/g, " ")}`;
}
