"""An event's seats, prepared for choosing among them: each row a line of bits, in the order of the plan.

Bit i of a mask is the i-th seat of the row, from the left as the plan lists them. Neighbours are positions in a row:
what is printed on a seat says nothing, odd and even sides are common.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise
from statistics import median
from typing import Any, NamedTuple

from services.booking.rows import PlacedSeats

# An aisle through a row is at least as wide as a seat, so it doubles the distance; a wheelchair's place is up to half
# as wide again as a seat and still has neighbours. Between the two, a party would talk across an aisle.
AISLE = 1.75
MOST_IN_A_ROW = 256  # seats; a longer one is several, and nobody's neighbour sits across. It bounds what a step costs
MOST_SHAPES = 64  # of parties, that are remembered: sizes 1 to 8 in some tiers, on both rungs

Shape = tuple[str | int | None, ...]  # what is remembered of it; its size, and what it asked for


class Block(NamedTuple):
    """Neighbours in a row; less `key` is better."""

    key: int
    row: int
    start: int
    size: int

    @property
    def mask(self) -> int:
        """Its seats in its row."""
        return ((1 << self.size) - 1) << self.start

    def seats(self, plan: "Plan") -> tuple[int, ...]:
        """Their ids, left to right."""
        return plan.rows[self.row].seats[self.start : self.start + self.size]


@dataclass(frozen=True, slots=True)
class Row:
    """A row: masks over its seats."""

    number: int  # in the plan's order, from 0
    section: str
    seats: tuple[int, ...]
    joined: int  # bit i: seats i - 1 and i are neighbours
    ordinary: int  # neither accessible nor a companion's
    accessible: int
    companion: int
    tiers: dict[int, int]
    sum_x: tuple[int, ...]  # of the first i seats
    sum_y: tuple[int, ...]
    box: tuple[int, int, int, int]  # around it: left, top, right, bottom
    floor: int  # no seat of the row is nearer to the focal point, in squared plan units
    # By size of a party: where its blocks begin, best first. Filled when first asked for.
    orders: dict[int, Sequence[int]] = field(default_factory=dict)

    def usable(self, mask: int, tier: int | None) -> int:
        """Of these seats those of the tier."""
        return mask if tier is None else mask & self.tiers.get(tier, 0)

    def middle(self, start: int, size: int) -> tuple[float, float]:
        """Of so many seats from one on."""
        return (
            (self.sum_x[start + size] - self.sum_x[start]) / size,
            (self.sum_y[start + size] - self.sum_y[start]) / size,
        )

    def distance(self, x: float, y: float) -> float:
        """Squared, from a point to the box: no block's middle is nearer."""
        return _beyond(self.box, x, y)


@dataclass(frozen=True, slots=True)
class Plan:
    """All rows. Immutable for a version of an event, but for what is remembered between questions."""

    version: int
    focal: tuple[int, int] | None
    rows: tuple[Row, ...]  # in the plan's order
    ranked: tuple[Row, ...]  # by their nearest seat, or in the plan's order
    sections: dict[str, tuple[Row, ...]]  # ranked, too
    accessible: dict[str, tuple[Row, ...]]  # by section those of them with accessible seats; of all sections at ""
    tiers: frozenset[int]
    places: dict[int, tuple[int, int]]  # of a seat: its row's number, and its bit
    ascending: tuple[int, ...] | None  # of the i-th place its rank among all seats by id; None when both orders are one
    shapes: dict[Shape, list[tuple[int, tuple[Any, ...]] | None]] = field(default_factory=dict)

    def ranked_rows(self, section: str, *, accessible: bool = False) -> tuple[Row, ...]:
        """The rows to look at, the best first; of a section, or of all when it is empty."""
        if accessible:
            return self.accessible.get(section, ())
        return self.sections[section] if section else self.ranked

    def key(self, row: Row, start: int, size: int) -> int:
        """How good a block is, less being better: its middle's squared distance from the focal point, times size².

        Without a focal point, the plan's order of rows.
        """
        if self.focal is None:
            return row.number
        x = row.sum_x[start + size] - row.sum_x[start] - size * self.focal[0]
        y = row.sum_y[start + size] - row.sum_y[start] - size * self.focal[1]
        return x * x + y * y

    def order(self, row: Row, size: int) -> Sequence[int]:
        """Where blocks of a size begin in a row, the best first."""
        known = row.orders.get(size)
        if known is None:
            starts = range(len(row.seats) - size + 1)
            by_key = starts if self.focal is None else sorted(starts, key=lambda start: self.key(row, start, size))
            known = row.orders[size] = array("I", by_key)
        return known

    def remembered(self, shape: Shape) -> list[tuple[int, tuple[Any, ...]] | None]:
        """By row: with which seats free a party of this shape was last looked for, and what was found."""
        known = self.shapes.pop(shape, None) or [None] * len(self.rows)
        while len(self.shapes) >= MOST_SHAPES:
            del self.shapes[next(iter(self.shapes))]
        self.shapes[shape] = known  # the last, so that the longest unused is the first to go
        return known


def make_plan(placed: PlacedSeats) -> Plan:
    """Takes seats in the plan's order. Some 30 ms for 18,000 of them."""
    pitch = _pitches(placed)
    rows: list[Row] = []
    for at in _parts(placed):
        rows.append(_row(placed, len(rows), at, pitch))
    by_floor = tuple(sorted(rows, key=lambda row: (row.floor, row.number)))
    accessible = [row for row in by_floor if row.accessible]
    ids = sorted(placed.seats)
    rank = {seat: place for place, seat in enumerate(ids)}
    return Plan(
        version=placed.version,
        focal=placed.focal,
        rows=tuple(rows),
        ranked=by_floor,
        sections=_by_section(by_floor),
        accessible=_by_section(accessible) | {"": tuple(accessible)},
        tiers=frozenset(placed.tiers),
        places={seat: (row.number, bit) for row in rows for bit, seat in enumerate(row.seats)},
        ascending=None if tuple(ids) == tuple(placed.seats) else tuple(rank[seat] for seat in placed.seats),
    )


def windows(mask: int, joined: int, size: int) -> int:
    """Bit s: the `size` seats from s on are neighbours and in the mask. Doubles the length in each step."""
    length = 1
    while length < size and mask:
        step = min(length, size - length)
        mask &= (mask & joined) >> step
        length += step
    return mask


def strandings(free: int, joined: int, size: int) -> int:
    """Bit s: a party of `size` that sits from s on leaves exactly one free seat on its left or on its right."""
    left = (free << 1) & joined  # bit i: the seat to the left of i is free
    right = (free & joined) >> 1  # bit i: the seat to the right of i is free
    return left & ~(left << 1) | (right & ~(right >> 1)) >> (size - 1)


def mask_of(bits: Iterable[int]) -> int:
    """A mask with these bits."""
    mask = 0
    for bit in bits:
        mask |= 1 << bit
    return mask


def _rows(placed: PlacedSeats) -> "groupby[tuple[str, int], int]":
    return groupby(range(len(placed.seats)), key=lambda i: (placed.sections[i], placed.row_indexes[i]))


def _parts(placed: PlacedSeats) -> Iterator[Sequence[int]]:
    for _, group in _rows(placed):
        row = tuple(group)
        for begin in range(0, len(row), MOST_IN_A_ROW):
            yield row[begin : begin + MOST_IN_A_ROW]


def _row(placed: PlacedSeats, number: int, at: Sequence[int], pitch: dict[str, float]) -> Row:
    section = placed.sections[at[0]]
    aisle = AISLE * pitch.get(section, 0)
    joined = (bit for bit, pair in enumerate(pairwise(at), 1) if not aisle or _distance(placed, *pair) <= aisle)
    accessible = mask_of(bit for bit, i in enumerate(at) if placed.accessible[i])
    companion = mask_of(bit for bit, i in enumerate(at) if placed.companion[i]) & ~accessible
    tiers: defaultdict[int, int] = defaultdict(int)
    for bit, i in enumerate(at):
        tiers[placed.seat_tiers[i]] |= 1 << bit
    x, y = [placed.x[i] for i in at], [placed.y[i] for i in at]
    box = min(x), min(y), max(x), max(y)
    return Row(
        number=number,
        section=section,
        seats=tuple(placed.seats[i] for i in at),
        joined=mask_of(joined),
        ordinary=((1 << len(at)) - 1) & ~accessible & ~companion,
        accessible=accessible,
        companion=companion,
        tiers=dict(tiers),
        sum_x=(0, *accumulate(x)),
        sum_y=(0, *accumulate(y)),
        box=box,
        floor=int(_beyond(box, *placed.focal)) if placed.focal else number,
    )


def _by_section(rows: Iterable[Row]) -> dict[str, tuple[Row, ...]]:
    sections: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        sections[row.section].append(row)
    return {section: tuple(its) for section, its in sections.items()}


def _beyond(box: tuple[int, int, int, int], x: float, y: float) -> float:
    left, top, right, bottom = box
    return max(left - x, 0, x - right) ** 2 + max(top - y, 0, y - bottom) ** 2


def _pitches(placed: PlacedSeats) -> dict[str, float]:
    """By section: the usual distance between seats that follow each other in a row; 0 where nothing was drawn."""
    distances: defaultdict[str, list[float]] = defaultdict(list)
    for (section, _), group in _rows(placed):
        distances[section].extend(_distance(placed, *pair) for pair in pairwise(group))
    return {section: median(its) for section, its in distances.items() if its}


def _distance(placed: PlacedSeats, left: int, right: int) -> float:
    return math.hypot(placed.x[left] - placed.x[right], placed.y[left] - placed.y[right])
