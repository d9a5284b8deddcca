import { useEffect, useMemo, useState } from "preact/hooks";

import { signedIn } from "../account/session.ts";
import { getEvent, getPlan } from "../api/calls.ts";
import type { Event, Hold, Wish } from "../api/types.ts";
import { visitTo, type VisitKeeper } from "../line/visit.ts";
import { Areas } from "../seats/Areas.tsx";
import { BestSeats } from "../seats/BestSeats.tsx";
import { Holding } from "../seats/holding.ts";
import { LiveMap } from "../seats/live.ts";
import { MapCanvas } from "../seats/MapCanvas.tsx";
import { placeNote, planOf, seatName, type Plan, type Seat } from "../seats/plan.ts";
import { Freshness, Legend, SectionPicker, SelectionBar } from "../seats/panels.tsx";
import { SeatList } from "../seats/SeatList.tsx";
import { Selection } from "../seats/selection.ts";
import { useLoad } from "../shell/hooks.ts";
import { formatMoney } from "../shell/money.ts";
import { Heading, Loading, Notice, Problem, SignInPrompt } from "../shell/parts.tsx";
import { holdPlace, linePlace } from "../shell/places.ts";
import { Link, navigate } from "../shell/router.tsx";
import { formatShort } from "../shell/time.ts";

export function SeatsPage({ eventId }: { eventId: string }) {
  const loaded = useLoad(async (signal) => {
    const [event, plan] = await Promise.all([getEvent(eventId, signal), getPlan(eventId, signal)]);
    return { event, plan: planOf(plan) };
  }, eventId);
  if (!signedIn.value) return <SignInPrompt why="Seats are held for an account. Sign in to choose yours." />;
  if (loaded.error !== null) return <Problem error={loaded.error} onRetry={loaded.reload} />;
  if (!loaded.value) return <Loading what="the seat map" />;
  return <Inside {...loaded.value} keeper={visitTo(eventId)} />;
}

interface InsideProps {
  event: Event;
  plan: Plan;
  keeper: VisitKeeper;
}

function Inside({ event, plan, keeper }: InsideProps) {
  const stage = keeper.visit.value.stage;
  useEffect(() => {
    const run = new AbortController();
    void keeper.stay(run.signal);
    return () => run.abort();
  }, [keeper, stage]);
  useEffect(() => {
    // Whoever comes here without an admission goes through the line first; an admission that ended is said below.
    if (stage === "outside" || stage === "waiting") navigate(linePlace(event.eventId), { replace: true });
  }, [stage]);
  return <Chooser event={event} plan={plan} keeper={keeper} />;
}

/** How many tickets of one account an event allows when it does not say. */
const USUAL_LIMIT = 8;

type View = "best" | "map" | "list";

function Chooser({ event, plan, keeper }: InsideProps) {
  const isBestOnly = event.rules?.bestAvailableOnly ?? false;
  const limit = event.rules?.ticketsPerAccount || USUAL_LIMIT;
  const live = useMemo(() => new LiveMap(event.eventId), [event.eventId]);
  const selection = useMemo(() => new Selection(limit), [event.eventId]);
  const best = useMemo(() => new Holding(), [event.eventId]);
  const [section, setSection] = useState(plan.sections.length === 1 ? (plan.sections[0]?.name ?? "") : "");
  const [view, setView] = useState<View>(isBestOnly ? "best" : "map");
  useEffect(() => {
    live.watch(section);
    return () => live.stop();
  }, [live, section]);
  const picture = live.picture.value;
  const taken = picture?.section === section && section !== "" ? picture.taken : null;
  const pick = (seat: Seat) => selection.toggle(seat, taken?.has(seat.id) ?? false);
  const choose = (name: string) => {
    setSection(name);
    // On a phone the list of sections is below the map: what was chosen should be seen.
    document.querySelector(".chooser-main")?.scrollIntoView({ block: "nearest" });
  };
  const pay = async (asked: Promise<Hold | null>) => {
    const held = await asked;
    if (held) return navigate(holdPlace(event.eventId, held.holdId));
    await live.resync().catch(() => undefined); // the refusal was said; the stream brings the rest
  };
  const context = wordsContext(event, plan);
  const hold = (holding: Holding, wish: Wish) => void pay(holding.hold(keeper, wish, context));
  const isInside = keeper.visit.value.stage === "inside";
  return (
    <div class="chooser">
      <header class="chooser-head">
        <p class="kicker">
          {formatShort(event.startTime, event.venue.timeZone)} · {event.venue.name}
        </p>
        <Heading title={`Choose seats: ${event.name}`}>{event.name}</Heading>
        {view !== "best" && <Freshness live={live} />}
      </header>
      {live.problem.value !== null && <Problem error={live.problem.value} />}
      {!isInside && <OutsideNotice event={event} />}
      <div class="chooser-columns">
        <div class="chooser-main">
          {!isBestOnly && <ViewSwitch view={view} onView={setView} />}
          {view === "best" && (
            <BestSeats
              {...{ plan, live, limit }}
              holding={best}
              canHold={isInside}
              onHold={(wish) => hold(best, wish)}
            />
          )}
          {view === "map" && (
            <MapPane {...{ plan, live, selection, section, taken }} onSection={setSection} onSeat={pick} />
          )}
          {view === "list" && <ListPane {...{ plan, selection, section, taken }} onSeat={pick} />}
          {view !== "best" && <Legend plan={plan} />}
        </div>
        <div class="chooser-side">
          <Areas event={event} limit={limit} canHold={isInside} onHold={hold} />
          {view !== "best" && <SectionPicker plan={plan} live={live} chosen={section} onChoose={choose} />}
        </div>
        {view !== "best" && (
          <SelectionBar
            plan={plan}
            selection={selection}
            canHold={isInside}
            onHold={() => void pay(selection.hold(keeper, context))}
            onRemove={pick}
          />
        )}
      </div>
    </div>
  );
}

interface PaneProps {
  plan: Plan;
  selection: Selection;
  section: string;
  taken: ReadonlySet<number> | null;
  onSeat: (seat: Seat) => void;
}

function MapPane({
  plan,
  live,
  selection,
  section,
  taken,
  onSection,
  onSeat,
}: PaneProps & {
  live: LiveMap;
  onSection: (name: string) => void;
}) {
  const [hovered, setHovered] = useState<Seat | null>(null);
  return (
    <>
      <MapCanvas
        plan={plan}
        counts={live.picture.value?.counts ?? new Map()}
        chosen={section}
        taken={taken}
        mine={new Set(selection.chosen.value.keys())}
        lost={selection.lost.value}
        onSection={onSection}
        onSeat={onSeat}
        onHover={setHovered}
      />
      <p class="hint map-hint">{hovered ? seatWords(plan, hovered) : hintFor(section)}</p>
    </>
  );
}

function ListPane({ plan, selection, section, taken, onSeat }: PaneProps) {
  const chosen = plan.sections.find((candidate) => candidate.name === section);
  if (!chosen) return <Notice tone="calm">Choose a section to see its seats row by row.</Notice>;
  if (!taken) return <Loading what="the seats of this section" />;
  return (
    <SeatList
      key={section}
      plan={plan}
      section={chosen}
      taken={new Set([...taken, ...selection.lost.value])}
      mine={new Set(selection.chosen.value.keys())}
      onSeat={onSeat}
    />
  );
}

const VIEWS: [View, string][] = [
  ["best", "Best seats"],
  ["map", "Map"],
  ["list", "Seat list"],
];

function ViewSwitch({ view, onView }: { view: View; onView: (view: View) => void }) {
  return (
    <div class="switch" role="group" aria-label="Choose seats by">
      {VIEWS.map(([name, words]) => (
        <button key={name} type="button" aria-pressed={view === name} onClick={() => onView(name)}>
          {words}
        </button>
      ))}
    </div>
  );
}

function OutsideNotice({ event }: { event: Event }) {
  return (
    <Notice tone="warning">
      <p>Your time inside has ended, so nothing more can be held. The map stays live.</p>
      <Link class="button" to={linePlace(event.eventId)}>
        Join the line again
      </Link>
    </Notice>
  );
}

function seatWords(plan: Plan, seat: Seat): string {
  const tier = plan.tiers.get(seat.tier);
  return seatName(seat) + placeNote(seat) + (tier ? ` · ${tier.name} · ${formatMoney(tier.price)}` : "");
}

function hintFor(section: string): string {
  return section === ""
    ? "Choose a section, on the map or in the list."
    : "Tap seats to choose them. Drag to move, pinch or scroll to zoom.";
}

function wordsContext(event: Event, plan: Plan) {
  return {
    time: (moment: string) => formatShort(moment, event.venue.timeZone),
    seatName: (id: number) => {
      const seat = plan.seats.get(id);
      return seat ? seatName(seat) : "a seat";
    },
  };
}
