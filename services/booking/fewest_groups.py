"""Rung 3 of best available, for seats that are not accessible: a party in the fewest groups of neighbours, near each
other. Pure.

It comes when no row has room for all, so when the largest plans are nearly sold: what it costs goes with the rows, not
with the free seats. Runs of free neighbours are counted by length, and in a row that is as it was when last counted not
again; they are listed only in the rows that may have the next one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain
from operator import itemgetter

from services.booking.rows import Ask
from services.booking.seat_plan import Block, Plan, Row, strandings, windows
from services.booking.steps import ROWS_OF_A_STEP, Steps

Tally = tuple[int, ...]  # of a row: its runs with room for one, for two, … up to the party
Bound = tuple[float, ...]  # nothing in a row is better
Tallies = Sequence[tuple[Row, Tally]]
Ranked = Sequence[tuple[Bound, Row, int]]  # rows, the best first, with the room in their longest run

ROWS_OF_A_PART = 512  # that are sorted at once: some 1 ms


def fewest_groups(plan: Plan, free: Sequence[int], ask: Ask, seated: Sequence[Block]) -> Steps[tuple[Block, ...]]:
    """The ordinary seats of a party, near those who sit already; empty when there are too few.

    As many runs as it takes when the longest are filled first: no fewer can do. If those all have room for two, runs
    that seat one need not be looked at. The best run comes first, then those nearest to where people sit already; each
    must leave room for all in the longest of the others.
    """
    tallies, counts = yield from _tallies(plan, free, ask)
    rooms = _longest(counts, ask.quantity)
    least = 2 if rooms and rooms[-1] > 1 else 1
    anchor = seated[0] if seated else None
    ranked = (yield from _around(plan, tallies, anchor)) if rooms else ()
    chosen: list[Block] = []
    left = ask.quantity
    for others in reversed(range(len(rooms))):  # groups after this one
        needed = left - sum(rooms[:others])
        room = max(least, min(needed, rooms[others - 1] if others else left))
        run = yield from _nearest(plan, free, ask, ranked, anchor, room, chosen)
        if anchor is None:
            anchor = run
            ranked = (yield from _around(plan, tallies, anchor)) if others else ()
        chosen.append(run)
        left -= run.size
        if min(run.size, ask.quantity) in rooms:
            rooms.remove(min(run.size, ask.quantity))
    sizes = _sizes([run.size for run in chosen], ask.quantity)
    return tuple(_in_run(plan, free, run, size) for run, size in zip(chosen, sizes, strict=True))


def _tallies(plan: Plan, free: Sequence[int], ask: Ask) -> Steps[tuple[Tallies, Counter[Tally]]]:
    """Of the rows that have any, and how many rows have the same."""
    known = plan.remembered(("runs", ask.quantity, ask.tier))
    tallies: list[tuple[Row, Tally]] = []
    counts: Counter[Tally] = Counter()
    for place, row in enumerate(plan.ranked_rows(ask.section)):
        if not place % ROWS_OF_A_STEP:
            yield
        left = free[row.number]
        if not left:
            continue
        in_row = known[row.number]
        if in_row is None or in_row[0] != left:
            usable = row.usable(left & row.ordinary, ask.tier)
            in_row = known[row.number] = (left, _tally(usable, row.joined, ask.quantity))
        if in_row[1]:
            tallies.append((row, in_row[1]))
            counts[in_row[1]] += 1
    return tallies, counts


def _tally(usable: int, joined: int, most: int) -> Tally:
    first = usable & ~((usable << 1) & joined)  # where runs begin
    tally: list[int] = []
    fits = usable  # bit s: so many seats from s on are usable neighbours
    while fits and len(tally) < most:
        tally.append((fits & first).bit_count())
        fits = usable & (fits & joined) >> 1
    return tuple(tally)


def _longest(tallies: Counter[Tally], size: int) -> list[int]:
    """The room in as many runs as a party of the size needs, the longest first; none when all are too few. More than
    the party counts as just enough for it."""
    at_least = [0] * (size + 1)  # runs with room for one, for two …
    for tally, rows in tallies.items():
        for place, runs in enumerate(tally):
            at_least[place] += runs * rows
    found: list[int] = []
    left = size
    for room in range(size, 0, -1):
        runs = min(at_least[room - 1] - at_least[room], -(-left // room))
        found += [room] * runs
        left -= room * runs
        if left <= 0:
            return found
    return []


def _around(plan: Plan, tallies: Tallies, anchor: Block | None) -> Steps[Ranked]:
    """By their distance from an anchor, or from the focal point. Sorted in parts, as one sort lets nobody in."""
    x, y = plan.rows[anchor.row].middle(anchor.start, anchor.size) if anchor else (0, 0)
    parts: list[list[tuple[Bound, Row, int]]] = []
    for begin in range(0, len(tallies), ROWS_OF_A_PART):
        yield
        part = tallies[begin : begin + ROWS_OF_A_PART]
        if anchor:
            ranked = [((row.distance(x, y), abs(row.number - anchor.row)), row, len(tally)) for row, tally in part]
            parts.append(sorted(ranked, key=itemgetter(0)))
        else:
            parts.append([((row.floor,), row, len(tally)) for row, tally in part])  # in this order already
    found: list[tuple[Bound, Row, int]] = []
    for each in merge(*parts, key=itemgetter(0)) if anchor else chain.from_iterable(parts):
        found.append(each)
        if not len(found) % ROWS_OF_A_PART:
            yield
    return found


def _nearest(
    plan: Plan, free: Sequence[int], ask: Ask, ranked: Ranked, anchor: Block | None, room: int, chosen: Sequence[Block]
) -> Steps[Block]:
    """The best run with so much room that was not chosen yet, or the one nearest to the anchor."""
    found: tuple[Bound, Block] | None = None
    for place, (bound, row, longest) in enumerate(ranked):
        if not place % ROWS_OF_A_STEP:
            yield
        if found and bound > found[0]:
            break
        if longest < room:
            continue
        for run in _runs(plan, row, free, ask):
            if run.size >= room and run not in chosen:
                ranking = ((run.key,) if anchor is None else _apart(plan, run, anchor), run)
                found = ranking if found is None else min(found, ranking)
    assert found  # there is one: rooms were counted
    return found[1]


def _runs(plan: Plan, row: Row, free: Sequence[int], ask: Ask) -> Iterator[Block]:
    """As many free neighbours as there are in each stretch of a row; their keys compare with each other at any size."""
    usable = row.usable(free[row.number] & row.ordinary, ask.tier)
    while usable:
        start = (usable & -usable).bit_length() - 1
        here = usable >> start
        # The run ends at the first seat that is not usable, or no neighbour of the one before.
        apart = ~here | (~(row.joined >> start) & ~1)
        length = (apart & -apart).bit_length() - 1
        usable &= ~(((1 << length) - 1) << start)
        area = length * length if plan.focal else 1
        yield Block(plan.key(row, start, length) // area, row.number, start, length)


def _apart(plan: Plan, run: Block, anchor: Block) -> Bound:
    """How far a run is from where people sit: as drawn, and in rows."""
    (x, y), (other_x, other_y) = (plan.rows[each.row].middle(each.start, each.size) for each in (run, anchor))
    return ((x - other_x) ** 2 + (y - other_y) ** 2, abs(run.row - anchor.row))


def _sizes(rooms: Sequence[int], size: int) -> list[int]:
    """People for each run: first one, then a second for each, then as many as there is room for."""
    sizes = [1] * len(rooms)
    left = size - len(rooms)
    for upto in (2, size):
        for place, room in enumerate(rooms):
            more = min(left, max(min(room, upto) - sizes[place], 0))
            sizes[place] += more
            left -= more
    return sizes


def _in_run(plan: Plan, free: Sequence[int], run: Block, size: int) -> Block:
    """The best place in a run, without leaving a single seat if that can be."""
    row = plan.rows[run.row]
    fits = windows(((1 << run.size) - 1) << run.start, row.joined, size)
    fits = fits & ~strandings(free[run.row], row.joined, size) or fits
    start = next(start for start in plan.order(row, size) if fits >> start & 1)
    return Block(plan.key(row, start, size), run.row, start, size)
