// "Best seats for me": the house chooses, near the stage and side by side where it can.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { Wish } from "../api/types.ts";
import { formatMoney } from "../shell/money.ts";
import { clamped } from "../shell/numbers.ts";
import { Notice } from "../shell/parts.tsx";
import { Stepper } from "../shell/Stepper.tsx";
import { plural } from "../shell/time.ts";
import type { Holding } from "./holding.ts";
import type { LiveMap } from "./live.ts";
import { countWords } from "./panels.tsx";
import { wholeParty, wishOf, type Party } from "./party.ts";
import { sectionName, seatTiers, type Plan } from "./plan.ts";

export interface BestSeatsProps {
  plan: Plan;
  live: LiveMap;
  holding: Holding;
  /** How many tickets one account may have. */
  limit: number;
  canHold: boolean;
  onHold: (wish: Wish) => void;
}

const USUAL_PARTY = 2;

export function BestSeats({ plan, live, holding, limit, canHold, onHold }: BestSeatsProps) {
  const [party, setParty] = useState<Party>({
    quantity: clamped(USUAL_PARTY, 1, limit),
    section: "",
    tier: "",
    accessible: 0,
  });
  const change = (changed: Partial<Party>) => {
    holding.forget();
    setParty((before) => wholeParty({ ...before, ...changed }, limit));
  };
  const ask = (asked: Party) => {
    setParty(asked);
    onHold(wishOf(asked));
  };
  const isBusy = holding.busy.value;
  const submit = (submitted: SubmitEvent) => {
    submitted.preventDefault();
    ask(party);
  };
  return (
    <form class="panel best" aria-labelledby="best-title" onSubmit={submit}>
      <h2 id="best-title">Best seats for me</h2>
      <p class="soft">Side by side and near the stage, as far as there are such seats.</p>
      <Field label="How many">
        <Stepper
          label="How many seats"
          value={party.quantity}
          least={1}
          most={limit}
          onValue={(quantity) => change({ quantity })}
        />
      </Field>
      <Choices plan={plan} live={live} party={party} onChange={change} />
      {[...plan.seats.values()].some((seat) => seat.accessible) && (
        <Field label="Wheelchair places among them">
          <Stepper
            label="Wheelchair places"
            value={party.accessible}
            least={0}
            most={party.quantity}
            onValue={(accessible) => change({ accessible })}
          />
        </Field>
      )}
      <Answer holding={holding} onInstead={(quantity) => ask(wholeParty({ ...party, quantity }, limit))} />
      <button type="submit" class="button primary block" disabled={isBusy || !canHold} aria-busy={isBusy}>
        {isBusy ? "Holding…" : `Hold the best ${plural(party.quantity, "seat")}`}
      </button>
    </form>
  );
}

interface ChoicesProps {
  plan: Plan;
  live: LiveMap;
  party: Party;
  onChange: (changed: Partial<Party>) => void;
}

function Choices({ plan, live, party, onChange }: ChoicesProps) {
  const counts = live.picture.value?.counts;
  return (
    <>
      <label>
        <span>Price</span>
        <select value={party.tier} onChange={(change) => onChange({ tier: change.currentTarget.value })}>
          <option value="">Any price</option>
          {seatTiers(plan).map((tier) => (
            <option key={tier.tier ?? 0} value={tier.tier ?? 0}>
              {tier.name}, {formatMoney(tier.price)}
            </option>
          ))}
        </select>
      </label>
      {plan.sections.length > 1 && (
        <label>
          <span>Section</span>
          <select value={party.section} onChange={(change) => onChange({ section: change.currentTarget.value })}>
            <option value="">Anywhere</option>
            {plan.sections.map((section) => (
              <option key={section.name} value={section.name}>
                {sectionName(section.name)}, {countWords(counts?.get(section.name), section.seatCount)}
              </option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}

/** What became of the wish, and a way on where fewer could be had. */
export function Answer({ holding, onInstead }: { holding: Holding; onInstead: (quantity: number) => void }) {
  const message = holding.message.value;
  const instead = holding.instead.value;
  if (!message) return null;
  return (
    <Notice tone={message.tone}>
      <p>{message.text}</p>
      {instead > 0 && (
        <button type="button" class="button" disabled={holding.busy.value} onClick={() => onInstead(instead)}>
          Hold {instead} instead
        </button>
      )}
    </Notice>
  );
}

function Field({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <span class="field-label" aria-hidden="true">
        {label}
      </span>
      {children}
    </div>
  );
}
