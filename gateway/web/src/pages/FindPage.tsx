import { useEffect, useState } from "preact/hooks";

import { listEvents, type Search } from "../api/calls.ts";
import type { Event } from "../api/types.ts";
import { useLoad } from "../shell/hooks.ts";
import { formatMoney } from "../shell/money.ts";
import { Heading, Loading, Notice, Problem } from "../shell/parts.tsx";
import { eventPlace } from "../shell/places.ts";
import { address, Link, navigate } from "../shell/router.tsx";
import { calendarDay, formatShort } from "../shell/time.ts";

/** How long typing must rest before it becomes a search. */
const TYPING_MS = 300;

const cities = new Set<string>();

export function FindPage() {
  const search = searchOf(address.value.searchParams);
  const key = JSON.stringify(search);
  const first = useLoad((signal) => listEvents(search, "", signal), key);
  return (
    <>
      <div class="masthead">
        <Heading title="Find events">Find your seat</Heading>
        <SearchForm search={search} />
      </div>
      {first.error !== null && <Problem error={first.error} onRetry={first.reload} />}
      {!first.value && first.error === null && <Loading what="events" />}
      {first.value && <Results key={key} search={search} first={first.value} />}
    </>
  );
}

function SearchForm({ search }: { search: Search }) {
  const [draft, setDraft] = useState(search);
  useEffect(() => setDraft(search), [JSON.stringify(search)]);
  useEffect(() => {
    const timer = setTimeout(() => go(draft), TYPING_MS);
    return () => clearTimeout(timer);
  }, [JSON.stringify(draft)]);
  const edit = (name: keyof Search) => (event: InputEvent) =>
    setDraft({ ...draft, [name]: (event.currentTarget as HTMLInputElement).value });
  const submit = (event: SubmitEvent) => (event.preventDefault(), go(draft));
  return (
    <form class="search" role="search" onSubmit={submit}>
      <label class="wide">
        <span>Event, artist or venue</span>
        <input type="search" name="q" value={draft.q} onInput={edit("q")} autocomplete="off" />
      </label>
      <label>
        <span>City</span>
        <input type="text" name="city" list="cities" value={draft.city} onInput={edit("city")} placeholder="Any" />
      </label>
      <label>
        <span>From</span>
        <input type="date" name="dateFrom" value={draft.dateFrom} onInput={edit("dateFrom")} />
      </label>
      <label>
        <span>To</span>
        <input type="date" name="dateTo" value={draft.dateTo} onInput={edit("dateTo")} />
      </label>
      <datalist id="cities">
        {[...cities].sort().map((city) => (
          <option key={city} value={city} />
        ))}
      </datalist>
    </form>
  );
}

interface Page {
  events: Event[];
  nextPageToken: string;
}

function Results({ search, first }: { search: Search; first: Page }) {
  const [page, setPage] = useState<Page>(first);
  const [error, setError] = useState<unknown>(null);
  for (const event of page.events) cities.add(event.venue.city);
  const more = () =>
    listEvents(search, page.nextPageToken).then(
      (next) => (setError(null), setPage({ ...next, events: [...page.events, ...next.events] })),
      setError,
    );
  if (page.events.length === 0) return <Nothing search={search} />;
  return (
    <section aria-label="Events found">
      <ul class="cards">
        {page.events.map((event) => (
          <EventCard key={event.eventId} event={event} />
        ))}
      </ul>
      {error !== null && <Problem error={error} />}
      {page.nextPageToken !== "" && (
        <p class="more">
          <button type="button" class="button" onClick={more}>
            Show more events
          </button>
        </p>
      )}
    </section>
  );
}

function EventCard({ event }: { event: Event }) {
  const { venue, startTime } = event;
  const date = calendarDay(startTime, venue.timeZone);
  const prices = event.tiers
    .map((tier) => tier.price)
    .sort((a, b) => Number(a.amountMinor ?? 0) - Number(b.amountMinor ?? 0));
  return (
    <li>
      <Link to={eventPlace(event.eventId)} class="card">
        <time class="date-block" dateTime={startTime}>
          <span class="weekday">{date.weekday}</span>
          <span class="day">{date.day}</span>
          <span class="month">
            {date.month} {date.year}
          </span>
        </time>
        <span class="card-words">
          <strong class="card-name">{event.name}</strong>
          {event.performer && <span>{event.performer}</span>}
          <span class="soft">
            {venue.name}, {venue.city}
          </span>
        </span>
        <span class="card-foot">
          <span>{saleWords(event)}</span>
          {prices[0] && <span class="from">from {formatMoney(prices[0])}</span>}
        </span>
      </Link>
    </li>
  );
}

function saleWords(event: Event): string {
  const now = Date.now();
  if (event.saleStartTime && Date.parse(event.saleStartTime) > now) {
    return `On sale ${formatShort(event.saleStartTime, event.venue.timeZone)}`;
  }
  if (event.saleEndTime && Date.parse(event.saleEndTime) <= now) return "Sale over";
  return event.line ? "On sale, with a line" : "On sale";
}

function Nothing({ search }: { search: Search }) {
  const isFiltered = Object.values(search).some((value) => value !== "");
  return (
    <Notice tone="calm">
      <p>{isFiltered ? "No event matches this search." : "No events are on sale yet."}</p>
      {isFiltered && (
        <button type="button" class="button" onClick={() => navigate("/")}>
          Show all events
        </button>
      )}
    </Notice>
  );
}

function searchOf(query: URLSearchParams): Search {
  const of = (name: string) => query.get(name) ?? "";
  return { q: of("q"), city: of("city"), dateFrom: of("dateFrom"), dateTo: of("dateTo") };
}

function go(search: Search): void {
  if (JSON.stringify(search) === JSON.stringify(searchOf(address.value.searchParams))) return;
  if (address.value.pathname !== "/") return;
  const query = new URLSearchParams({ ...search });
  for (const [name, value] of [...query]) if (value.trim() === "") query.delete(name);
  navigate(query.size > 0 ? `/?${query}` : "/", { replace: true });
}
