// A seat plan made ready for drawing, hit-testing and naming.

import type { EventPlan, PlanSeat, Tier } from "../api/types.ts";

export interface Seat {
  id: number;
  section: string;
  row: string;
  number: string;
  x: number;
  y: number;
  tier: number;
  accessible: boolean;
  companion: boolean;
}

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface Section {
  name: string;
  rows: { name: string; seats: Seat[] }[];
  seatCount: number;
  box: Box;
  /** Where its name is written: the middle of its seats. */
  label: { x: number; y: number };
  /** Distance between neighbours, in plan units. */
  pitch: number;
  /** Distance between rows, in plan units. */
  rowPitch: number;
  /** The tier that most of its seats have. */
  tier: number;
}

export interface Plan {
  version: string;
  box: Box;
  focalPoint: { x: number; y: number };
  sections: Section[];
  seats: ReadonlyMap<number, Seat>;
  tiers: ReadonlyMap<number, Tier>;
  nearest: (x: number, y: number, within: number) => Seat | null;
}

export function planOf(answer: EventPlan): Plan {
  const sections = (answer.plan.sections ?? []).map((section) =>
    sectionOf(
      section.section,
      (section.rows ?? []).map((row) => ({
        name: row.row,
        seats: (row.seats ?? []).map((seat) => seatOf(seat, section.section, row.row)),
      })),
    ),
  );
  const seats = sections.flatMap((section) => section.rows.flatMap((row) => row.seats));
  return {
    version: answer.planVersion,
    box: boxOf([...seats, focalPointOf(answer)]),
    focalPoint: focalPointOf(answer),
    sections,
    seats: new Map(seats.map((seat) => [seat.id, seat])),
    tiers: new Map((answer.tiers ?? []).map((tier) => [tier.tier ?? 0, tier])),
    nearest: finder(seats, Math.max(1, median(sections.map((section) => section.pitch)) * 2)),
  };
}

/** "Stalls, row C, seat 14", "section 213, row A, seat 2": as it is said to a person. */
export function seatName(seat: { section: string; row: string; number: string }): string {
  return `${sectionName(seat.section)}, row ${seat.row}, seat ${seat.number}`;
}

/** "", ", wheelchair place" or ", companion place": what a seat is besides a seat. */
export function placeNote({ accessible, companion }: Pick<Seat, "accessible" | "companion">): string {
  if (companion) return ", companion place";
  return accessible ? ", wheelchair place" : "";
}

/** The tiers that seats have, in the order of the plan's; the others are areas'. */
export function seatTiers(plan: Pick<Plan, "seats" | "tiers">): Tier[] {
  const used = new Set([...plan.seats.values()].map((seat) => seat.tier));
  return [...plan.tiers.values()].filter((tier) => used.has(tier.tier ?? 0));
}

/** A bare number says nothing by itself. */
export function sectionName(section: string): string {
  return /^\d/.test(section) ? `section ${section}` : section;
}

export function boxOf(points: readonly { x: number; y: number }[]): Box {
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const { x, y } of points) {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y);
  }
  return points.length > 0 ? box : { left: 0, top: 0, right: 1, bottom: 1 };
}

/** The points of a row that a line through it needs: the rest is within `slack` of it (Douglas and Peucker). */
export function corners<P extends { x: number; y: number }>(points: readonly P[], slack: number): P[] {
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last || points.length < 3) return [...points];
  let farthest = 0;
  let away = slack;
  for (const [index, point] of points.entries()) {
    const distanceOf = offLine(point, first, last);
    if (distanceOf > away) [farthest, away] = [index, distanceOf];
  }
  if (farthest === 0) return [first, last];
  return [...corners(points.slice(0, farthest + 1), slack).slice(0, -1), ...corners(points.slice(farthest), slack)];
}

function offLine(point: { x: number; y: number }, a: { x: number; y: number }, b: { x: number; y: number }): number {
  const length = distance(a, b);
  if (length === 0) return distance(point, a);
  return Math.abs((b.x - a.x) * (a.y - point.y) - (a.x - point.x) * (b.y - a.y)) / length;
}

function focalPointOf({ plan }: EventPlan): { x: number; y: number } {
  return { x: plan.focalPoint?.x ?? plan.width / 2, y: plan.focalPoint?.y ?? 0 };
}

function seatOf(seat: PlanSeat, section: string, row: string): Seat {
  const { seatId, number, x = 0, y = 0, tier = 0, accessible = false, companion = false } = seat;
  return { id: seatId, section, row, number, x, y, tier, accessible, companion };
}

function sectionOf(name: string, rows: { name: string; seats: Seat[] }[]): Section {
  const seats = rows.flatMap((row) => row.seats);
  const pitch = median(rows.flatMap((row) => gaps(row.seats))) || 10;
  return {
    name,
    rows,
    seatCount: seats.length,
    box: boxOf(seats),
    label: { x: mean(seats.map((seat) => seat.x)), y: mean(seats.map((seat) => seat.y)) },
    pitch,
    rowPitch: median(rows.slice(1).map((row, index) => rowGap(rows[index]?.seats ?? [], row.seats))) || pitch,
    tier: commonest(seats.map((seat) => seat.tier)),
  };
}

function gaps(seats: readonly Seat[]): number[] {
  return seats.slice(1).map((seat, index) => distance(seat, seats[index] ?? seat));
}

/** From the middle of one row to the nearest seat of the row before. */
function rowGap(before: readonly Seat[], row: readonly Seat[]): number {
  const middle = row[Math.floor(row.length / 2)];
  return middle ? Math.min(...before.map((seat) => distance(seat, middle))) : Infinity;
}

/** Finds the seat nearest to a point by a grid of cells, so that 18,000 seats cost nothing on a tap. */
function finder(seats: readonly Seat[], cell: number): Plan["nearest"] {
  const cells = new Map<string, Seat[]>();
  const name = (column: number, line: number) => `${column}:${line}`;
  for (const seat of seats) {
    const key = name(Math.floor(seat.x / cell), Math.floor(seat.y / cell));
    cells.set(key, [...(cells.get(key) ?? []), seat]);
  }
  return (x, y, within) => {
    let best: Seat | null = null;
    let bestDistance = within;
    const reach = Math.ceil(within / cell);
    for (let column = Math.floor(x / cell) - reach; column <= Math.floor(x / cell) + reach; column++) {
      for (let line = Math.floor(y / cell) - reach; line <= Math.floor(y / cell) + reach; line++) {
        for (const seat of cells.get(name(column, line)) ?? []) {
          const away = distance(seat, { x, y });
          if (away <= bestDistance) [best, bestDistance] = [seat, away];
        }
      }
    }
    return best;
  };
}

function distance(a: { x: number; y: number }, b: { x: number; y: number }): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}

function median(values: readonly number[]): number {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / Math.max(1, values.length);
}

function commonest(values: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
}
