// What stands around the map: how fresh it is, its legend, the sections, and what was chosen.

import { serverNow } from "../api/clock.ts";
import type { SectionCounts } from "../api/types.ts";
import { useNow } from "../shell/hooks.ts";
import { formatMoney, isZero, sum } from "../shell/money.ts";
import { Notice, TierSwatch } from "../shell/parts.tsx";
import { formatAge, plural } from "../shell/time.ts";
import { STALE_MS, type LiveMap } from "./live.ts";
import { seatName, seatTiers, type Plan, type Seat } from "./plan.ts";
import type { Selection } from "./selection.ts";

/** A difference that a person need not care about: one tick of the feed and the way here. */
const FRESH_MS = 3_000;

export function Freshness({ live }: { live: LiveMap }) {
  useNow(1_000);
  const picture = live.picture.value;
  if (!picture) return <p class="freshness">Waiting for the first picture of the seats…</p>;
  const ageMs = serverNow() - picture.asOfMs;
  const isLive = live.connection.value === "live";
  if (ageMs > STALE_MS) {
    return (
      <Notice tone="warning">
        This map is {formatAge(ageMs)} old{isLive ? "" : " and its connection is lost; still trying"}. Seats shown as
        open may be gone; holding tells for sure.
      </Notice>
    );
  }
  const age = ageMs < FRESH_MS ? "up to date" : `${formatAge(ageMs)} old`;
  return (
    <p class="freshness">
      <span class={`pulse ${isLive ? "live" : "waiting"}`} aria-hidden="true" />
      {isLive ? `Live map, ${age}` : `Connecting again; the map is ${age}`}
    </p>
  );
}

export function Legend({ plan }: { plan: Plan }) {
  return (
    <ul class="legend" aria-label="Legend">
      {seatTiers(plan).map((tier) => (
        <li key={tier.tier ?? 0}>
          <TierSwatch tier={tier} /> {tier.name} {formatMoney(tier.price)}
        </li>
      ))}
      <li>
        <span class="swatch taken" aria-hidden="true" /> Taken
      </li>
      <li>
        <span class="swatch mine" aria-hidden="true">
          ✓
        </span>{" "}
        Yours
      </li>
      {[...plan.seats.values()].some((seat) => seat.accessible) && (
        <li>
          <span class="swatch square" aria-hidden="true" /> Wheelchair place
        </li>
      )}
    </ul>
  );
}

interface SectionPickerProps {
  plan: Plan;
  live: LiveMap;
  chosen: string;
  onChoose: (section: string) => void;
}

export function SectionPicker({ plan, live, chosen, onChoose }: SectionPickerProps) {
  const counts = live.picture.value?.counts;
  return (
    <section class="panel sections" aria-labelledby="sections-title">
      <h2 id="sections-title">Sections</h2>
      <ul>
        {plan.sections.map((section) => (
          <li key={section.name}>
            <button
              type="button"
              class="section-button"
              aria-pressed={section.name === chosen}
              onClick={() => onChoose(section.name === chosen ? "" : section.name)}
            >
              <TierSwatch tier={plan.tiers.get(section.tier) ?? { color: "var(--accent)" }} />
              <span class="section-name">{section.name}</span>
              <span class="soft">{countWords(counts?.get(section.name), section.seatCount)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Sold out and all held are different: held seats may come back. */
export function countWords(counts: SectionCounts | undefined, seatCount: number): string {
  if (!counts) return plural(seatCount, "seat");
  if (counts.open > 0) return `${counts.open.toLocaleString("en")} free`;
  return counts.held > 0 ? `all held, ${counts.held} may return` : "sold out";
}

interface SelectionBarProps {
  plan: Plan;
  selection: Selection;
  canHold: boolean;
  onHold: () => void;
  onRemove: (seat: Seat) => void;
}

export function SelectionBar({ plan, selection, canHold, onHold, onRemove }: SelectionBarProps) {
  const seats = [...selection.chosen.value.values()];
  const message = selection.holding.message.value;
  const isBusy = selection.holding.busy.value;
  return (
    <section class={`panel selection ${seats.length === 0 && !message ? "idle" : ""}`} aria-label="Your selection">
      {message && <Notice tone={message.tone}>{message.text}</Notice>}
      {seats.length === 0 && <p class="soft selection-empty">No seats chosen yet.</p>}
      <ul class="chips">
        {seats.map((seat) => (
          <li key={seat.id}>
            <button type="button" class="chip" aria-label={`Remove ${seatName(seat)}`} onClick={() => onRemove(seat)}>
              {seat.section} {seat.row}-{seat.number} <span aria-hidden="true">×</span>
            </button>
          </li>
        ))}
      </ul>
      <div class="selection-foot">
        <Price plan={plan} seats={seats} />
        <button
          type="button"
          class="button primary"
          disabled={seats.length === 0 || isBusy || !canHold}
          aria-busy={isBusy}
          onClick={onHold}
        >
          {isBusy ? "Holding…" : seats.length === 0 ? "Hold seats" : `Hold ${plural(seats.length, "seat")}`}
        </button>
      </div>
    </section>
  );
}

/** What the seats will cost, by the prices shown; the hold says what they do cost. */
function Price({ plan, seats }: { plan: Plan; seats: Seat[] }) {
  const tiers = seats.flatMap((seat) => plan.tiers.get(seat.tier) ?? []);
  const total = sum(tiers.flatMap((tier) => (tier.fee ? [tier.price, tier.fee] : [tier.price])));
  const hasFees = tiers.some((tier) => !isZero(tier.fee));
  if (!total) return <span />;
  return (
    <span class="price" aria-live="polite">
      <strong>{formatMoney(total)}</strong>
      {hasFees && <span class="soft"> with fees</span>}
    </span>
  );
}
