// The seats of one section as rows of buttons: the map's equal, for the keyboard and for screen readers.

import { useRef, useState } from "preact/hooks";

import { formatMoney } from "../shell/money.ts";
import { placeNote, type Plan, type Seat, type Section } from "./plan.ts";

export interface SeatListProps {
  plan: Plan;
  section: Section;
  taken: ReadonlySet<number>;
  mine: ReadonlySet<number>;
  onSeat: (seat: Seat) => void;
}

interface Spot {
  row: number;
  seat: number;
}

/** Arrow keys move, Home and End go to a row's ends, Enter and Space choose. One stop for the Tab key. */
export function SeatList(props: SeatListProps) {
  const { section } = props;
  const grid = useRef<HTMLDivElement>(null);
  const [spot, setSpot] = useState<Spot>({ row: 0, seat: 0 });
  const move = (event: KeyboardEvent) => {
    const next = target(section, spot, event.key);
    if (!next) return;
    event.preventDefault();
    setSpot(next);
    grid.current?.querySelector<HTMLElement>(`[data-spot="${next.row}:${next.seat}"]`)?.focus();
  };
  return (
    <div>
      <p class="hint seat-keys" id="seat-keys">
        Arrow keys move between seats, Enter chooses.
      </p>
      <div
        ref={grid}
        role="grid"
        aria-label={`Seats of ${section.name}`}
        aria-describedby="seat-keys"
        aria-multiselectable="true"
        class="seat-grid"
        onKeyDown={move}
      >
        {section.rows.map((row, index) => (
          <div role="row" class="seat-row" key={`${row.name}:${index}`}>
            <span role="rowheader" class="seat-row-name">
              {row.name}
            </span>
            <div class="seat-row-seats" role="presentation">
              {row.seats.map((seat, place) => (
                <SeatButton
                  key={seat.id}
                  {...props}
                  seat={seat}
                  spot={`${index}:${place}`}
                  isStop={index === Math.min(spot.row, section.rows.length - 1) && place === spot.seat}
                  onFocus={() => setSpot({ row: index, seat: place })}
                />
              ))}
            </div>
          </div>
        ))}
      </div>
    </div>
  );
}

interface SeatButtonProps extends SeatListProps {
  seat: Seat;
  spot: string;
  isStop: boolean;
  onFocus: () => void;
}

function SeatButton({ plan, seat, taken, mine, spot, isStop, onSeat, onFocus }: SeatButtonProps) {
  const tier = plan.tiers.get(seat.tier);
  const state = mine.has(seat.id) ? "mine" : taken.has(seat.id) ? "taken" : "open";
  const words = { mine: "yours, chosen", taken: "taken", open: "open" }[state];
  const price = tier ? `, ${tier.name}, ${formatMoney(tier.price)}` : "";
  return (
    <button
      type="button"
      role="gridcell"
      class={`seat ${state}${seat.accessible ? " accessible" : ""}`}
      data-spot={spot}
      data-seat={seat.id}
      tabIndex={isStop ? 0 : -1}
      aria-selected={state === "mine"}
      aria-disabled={state === "taken"}
      aria-label={`Row ${seat.row}, seat ${seat.number}${price}${placeNote(seat)}, ${words}`}
      style={{ "--tier": tier?.color ?? "var(--accent)" }}
      onFocus={onFocus}
      onClick={() => onSeat(seat)}
    >
      {state === "mine" ? "✓" : seat.number}
    </button>
  );
}

/** Where a key leads; null for a key that moves nothing. */
export function target(section: { rows: { seats: unknown[] }[] }, spot: Spot, key: string): Spot | null {
  const rowLength = (row: number) => section.rows[row]?.seats.length ?? 0;
  const at = (row: number, seat: number): Spot => {
    const safeRow = Math.min(section.rows.length - 1, Math.max(0, row));
    return { row: safeRow, seat: Math.min(rowLength(safeRow) - 1, Math.max(0, seat)) };
  };
  if (key === "ArrowLeft") return at(spot.row, spot.seat - 1);
  if (key === "ArrowRight") return at(spot.row, spot.seat + 1);
  if (key === "ArrowUp") return at(spot.row - 1, spot.seat);
  if (key === "ArrowDown") return at(spot.row + 1, spot.seat);
  if (key === "Home") return at(spot.row, 0);
  if (key === "End") return at(spot.row, Infinity);
  return null;
}
