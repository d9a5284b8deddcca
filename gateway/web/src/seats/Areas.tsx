// Areas without seats: so many may enter, and one says how many.

import { useMemo, useState } from "preact/hooks";

import type { Area, Event, Tier, Wish } from "../api/types.ts";
import { formatMoney, isZero } from "../shell/money.ts";
import { clamped } from "../shell/numbers.ts";
import { TierSwatch } from "../shell/parts.tsx";
import { Stepper } from "../shell/Stepper.tsx";
import { Answer } from "./BestSeats.tsx";
import { Holding } from "./holding.ts";

export interface AreasProps {
  event: Event;
  /** How many tickets one account may have. */
  limit: number;
  canHold: boolean;
  onHold: (holding: Holding, wish: Wish) => void;
}

export function Areas({ event, limit, canHold, onHold }: AreasProps) {
  if (event.areas.length === 0) return null;
  const tiers = new Map(event.tiers.map((tier) => [tier.tier ?? 0, tier]));
  return (
    <section class="panel areas" aria-labelledby="areas-title">
      <h2 id="areas-title">Without a seat</h2>
      <ul>
        {event.areas.map((area) => (
          <OneArea key={area.areaId} {...{ area, limit, canHold, onHold }} tier={tiers.get(area.tier ?? 0)} />
        ))}
      </ul>
    </section>
  );
}

interface OneAreaProps extends Omit<AreasProps, "event"> {
  area: Area;
  tier: Tier | undefined;
}

function OneArea({ area, tier, limit, canHold, onHold }: OneAreaProps) {
  const holding = useMemo(() => new Holding(), [area.areaId]);
  const [quantity, setQuantity] = useState(1);
  const most = clamped(limit, 1, area.capacity);
  const ask = (wanted: number) => {
    setQuantity(wanted);
    onHold(holding, { generalAdmission: { areaId: area.areaId, quantity: wanted } });
  };
  const isBusy = holding.busy.value;
  return (
    <li class="area">
      <span class="area-name">
        {tier && <TierSwatch tier={tier} />} <strong>{area.name}</strong>
        {tier && (
          <span class="soft">
            {formatMoney(tier.price)}
            {tier.fee && !isZero(tier.fee) && ` + ${formatMoney(tier.fee)} fee`}
          </span>
        )}
      </span>
      <Stepper
        label={`How many for ${area.name}`}
        value={quantity}
        least={1}
        most={most}
        onValue={(next) => (holding.forget(), setQuantity(next))}
      />
      <button
        type="button"
        class="button primary"
        aria-label={`Hold ${quantity} for ${area.name}`}
        disabled={isBusy || !canHold}
        aria-busy={isBusy}
        onClick={() => ask(quantity)}
      >
        {isBusy ? "Holding…" : `Hold ${quantity}`}
      </button>
      <Answer holding={holding} onInstead={(fewer) => ask(clamped(fewer, 1, most))} />
    </li>
  );
}
