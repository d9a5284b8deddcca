"""The best seats that are left, decided from a picture of which are free. Pure: no clock, no store.

The ladder, and a lower rung is only stepped on when the one above is empty:
1. the party together, neighbours in one row, and no seat left single beside it; nearest to the focal point, measured
   from the block's middle, or by the plan's order where there is none;
2. the same, with a single seat left over beside it;
3. the fewest groups of neighbours; nobody sits alone if it can be helped; the first group as near as can be to the
   focal point, the others as near as can be to the first.

Accessible seats are given out when asked for, exactly as many, and companions' seats only right beside one of them.
With accessible seats in it, a party that does not fit in one row is split by good sense, not by search: first as many
of the accessible seats together as there are, with as many of the others as fit beside them.

A seat is single when it is free and neither neighbour is. What was single before the party came is nobody's fault.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from services.booking.rows import Ask
from services.booking.seat_plan import Plan, Row

MOST_IN_A_ROW = 4  # candidates: enough to spread a crowd over many rows, few enough to find again when one is taken
MOST_SIZES = 8  # that are tried for the group around accessible seats: parties are small, and each try is a search


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

    def seats(self, plan: Plan) -> tuple[int, ...]:
        """Their ids, left to right."""
        return plan.rows[self.row].seats[self.start : self.start + self.size]


Party = tuple[Block, ...]  # one block, or several that share no seat


def candidates(plan: Plan, free: Sequence[int], ask: Ask, *, most: int = 1) -> list[Party]:
    """At most `most` parties of the highest rung that has any, best first, no two sharing a seat; none: no such party.

    `free` is a mask for each row of the plan. Several are found only on the first two rungs.
    """
    found = blocks(plan, free, ask, most=most) or blocks(plan, free, ask, most=most, stranding=True)
    if found:
        return [(block,) for block in found]
    party = _split(plan, free, ask)
    return [party] if party else []


def largest(plan: Plan, free: Sequence[int], ask: Ask) -> int:
    """The largest party, no larger than asked for, that there are seats for; 0: none of what was asked for is free."""
    accessible = min(count(plan, free, ask, accessible=True), ask.accessible) if ask.accessible else 0
    if ask.accessible and not accessible:
        return 0
    return accessible + min(count(plan, free, ask, accessible=False), ask.quantity - ask.accessible)


def count(plan: Plan, free: Sequence[int], ask: Ask, *, accessible: bool) -> int:
    """Free seats of the section and tier that are accessible, or ordinary."""
    return sum(
        _usable(row, free[row.number] & (row.accessible if accessible else row.ordinary), ask).bit_count()
        for row in plan.ranked_rows(ask.section)
    )


def blocks(plan: Plan, free: Sequence[int], ask: Ask, *, most: int, stranding: bool = False) -> list[Block]:
    """The best places for the whole party together, best first, no two sharing a seat; `stranding`: rung 2.

    Rows come by their lower bound, so that looking ends at the first that cannot be better than what was found. Most
    rows are as they were when a party of this kind was seated last, and so is what was found in them.
    """
    scale = ask.quantity * ask.quantity if plan.focal else 1
    known = plan.remembered((ask.quantity, ask.accessible, ask.tier, stranding))
    found: list[Block] = []
    worst: int | None = None  # of those found, once there are enough
    for row in plan.ranked_rows(ask.section):
        left = free[row.number]
        if not left:
            continue
        if worst is not None and row.floor * scale > worst:
            break
        in_row = known[row.number]
        if in_row is None or in_row[0] != left:
            in_row = known[row.number] = (left, _blocks_in(plan, row, left, ask, stranding))
        for block in in_row[1]:
            if worst is not None and block >= found[-1]:
                break
            insort(found, block)
            if len(found) >= most:
                del found[most:]
                worst = found[-1].key
    return found


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


def _usable(row: Row, mask: int, ask: Ask) -> int:
    return mask if ask.tier is None else mask & row.tiers.get(ask.tier, 0)


def _blocks_in(plan: Plan, row: Row, left: int, ask: Ask, stranding: bool) -> tuple[Block, ...]:
    """The best places in one row. Two of them leave no single seat between them, should both be taken."""
    size, wheels = ask.quantity, ask.accessible
    if wheels and not left & row.accessible:
        return ()
    fits = windows(_usable(row, left if wheels else left & row.ordinary, ask), row.joined, size)
    if fits and not stranding:
        fits &= ~strandings(left, row.joined, size)
    found: list[Block] = []
    near = (1 << (2 * size - 1)) - 1 | 1 << (2 * size)
    for start in plan.order(row, size) if fits else ():
        if fits >> start & 1 and (not wheels or _proper(row, start, ask)):
            found.append(Block(plan.key(row, start, size), row.number, start, size))
            fits &= ~(near << (start - size + 1) if start >= size else near >> (size - 1 - start))
            if start > size:
                fits &= ~(1 << (start - size - 1))
            if not fits or len(found) == MOST_IN_A_ROW:
                break
    return tuple(found)


def _proper(row: Row, start: int, ask: Ask) -> bool:
    """Exactly as many accessible seats as asked for, and every companion's seat right beside one of them."""
    window = ((1 << ask.quantity) - 1) << start
    wheels = row.accessible & window
    beside = (wheels << 1) & row.joined | (wheels & row.joined) >> 1
    return wheels.bit_count() == ask.accessible and not row.companion & window & ~beside


def _split(plan: Plan, free: Sequence[int], ask: Ask) -> Party:
    """Rung 3; empty when there are too few seats."""
    left, others, wheels = list(free), ask.quantity - ask.accessible, ask.accessible
    if count(plan, free, ask, accessible=False) < others or (
        wheels and count(plan, free, ask, accessible=True) < wheels
    ):
        return ()
    party: list[Block] = []
    while wheels:
        block = next(filter(None, (_first(plan, left, head) for head in _heads(ask, wheels, others))))
        party.append(block)
        left[block.row] &= ~block.mask
        seated = (plan.rows[block.row].accessible & block.mask).bit_count()
        wheels, others = wheels - seated, others - block.size + seated
    if others:
        party.extend(_fewest_groups(plan, left, replace(ask, quantity=others, accessible=0), party))
    return tuple(party)


def _first(plan: Plan, free: Sequence[int], ask: Ask) -> Block | None:
    found = blocks(plan, free, ask, most=1) or blocks(plan, free, ask, most=1, stranding=True)
    return found[0] if found else None


def _heads(ask: Ask, wheels: int, others: int) -> Iterator[Ask]:
    """Groups around accessible seats, the most welcome first; the last is a single accessible seat.

    All accessible seats in one group, with the more of the others the better, but not so that one of them is left
    alone; else fewer of the accessible seats, with one or two of the others.
    """
    sizes = [n for n in range(others, -1, -1) if n != others - 1][:MOST_SIZES]
    for beside in dict.fromkeys([*sizes, others - 1, 1, 0]):
        if 0 <= beside <= others:
            yield replace(ask, quantity=wheels + beside, accessible=wheels)
    for some in range(wheels - 1, 0, -1):
        for beside in dict.fromkeys((min(others, 2), min(others, 1), 0)):
            yield replace(ask, quantity=some + beside, accessible=some)


def _fewest_groups(plan: Plan, free: Sequence[int], ask: Ask, seated: Sequence[Block]) -> list[Block]:
    """An ordinary party in as few groups as can be. There are seats enough.

    As many runs as it takes when the longest are filled first: no fewer can do. If those all have room for two, runs
    that seat one need not be looked at.
    """
    runs = list(_runs(plan, free, ask))
    lengths = sorted((run.size for run in runs), reverse=True)
    groups, room = 0, 0
    while room < ask.quantity:
        room += lengths[groups]
        groups += 1
    if lengths[groups - 1] >= 2:
        runs = [run for run in runs if run.size >= 2]
    chosen = _near_runs(plan, runs, ask.quantity, groups, seated)
    return [
        _in_run(plan, free, run, size, ask)
        for run, size in zip(chosen, _sizes([run.size for run in chosen], ask.quantity), strict=True)
    ]


def _runs(plan: Plan, free: Sequence[int], ask: Ask) -> Iterator[Block]:
    """Free neighbours, as many as there are in each stretch; their keys compare with each other at any size."""
    for row in plan.ranked_rows(ask.section):
        usable = _usable(row, free[row.number] & row.ordinary, ask)
        while usable:
            start = (usable & -usable).bit_length() - 1
            here = usable >> start
            # The run ends at the first seat that is not usable, or no neighbour of the one before.
            apart = ~here | (~(row.joined >> start) & ~1)
            length = (apart & -apart).bit_length() - 1
            usable &= ~(((1 << length) - 1) << start)
            area = length * length if plan.focal else 1
            yield Block(plan.key(row, start, length) // area, row.number, start, length)


def _near_runs(plan: Plan, runs: list[Block], size: int, groups: int, seated: Sequence[Block]) -> list[Block]:
    """So many runs with room for all: the best one first, then those nearest to where people sit already."""
    chosen: list[Block] = []
    anchor: Block | None = seated[0] if seated else None
    for wanted in range(groups, 0, -1):
        lengths = sorted((run.size for run in runs), reverse=True)
        longest, one_more = sum(lengths[: wanted - 1]), sum(lengths[:wanted])
        short = lengths[wanted - 2] if wanted > 1 else size
        run = min(
            (r for r in runs if (one_more if r.size >= short else longest + r.size) >= size),
            key=lambda r: (_apart(plan, r, anchor), r.key, r.row, r.start),
        )
        chosen.append(run)
        runs.remove(run)
        size -= run.size
        anchor = anchor or run
    return chosen


def _apart(plan: Plan, run: Block, anchor: Block | None) -> tuple[float, int]:
    """How far a run is from where people sit: as drawn, and in rows."""
    if anchor is None:
        return (0, 0)
    (x, y), (other_x, other_y) = (
        _middle(plan.rows[run.row], run.start, run.size),
        _middle(plan.rows[anchor.row], anchor.start, anchor.size),
    )
    return ((x - other_x) ** 2 + (y - other_y) ** 2, abs(run.row - anchor.row))


def _middle(row: Row, start: int, size: int) -> tuple[float, float]:
    return (
        (row.sum_x[start + size] - row.sum_x[start]) / size,
        (row.sum_y[start + size] - row.sum_y[start]) / size,
    )


def _sizes(rooms: Iterable[int], size: int) -> list[int]:
    """People for each run: first one, then a second for each, then as many as there is room for."""
    rooms = list(rooms)
    sizes = [1] * len(rooms)
    left = size - len(rooms)
    for upto in (2, size):
        for place, room in enumerate(rooms):
            more = min(left, max(min(room, upto) - sizes[place], 0))
            sizes[place] += more
            left -= more
    return sizes


def _in_run(plan: Plan, free: Sequence[int], run: Block, size: int, ask: Ask) -> Block:
    """The best place in a run, without leaving a single seat if that can be."""
    row = plan.rows[run.row]
    fits = windows(((1 << run.size) - 1) << run.start, row.joined, size)
    fits = fits & ~strandings(free[run.row], row.joined, size) or fits
    start = next(start for start in plan.order(row, size) if fits >> start & 1)
    return Block(plan.key(row, start, size), run.row, start, size)
