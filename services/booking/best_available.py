"""The best seats that are left, decided from a picture of which are free. Pure: no clock, no store.

The ladder, and a lower rung is only stepped on when the one above is empty:
1. the party together, neighbours in one row, and no seat left single beside it; nearest to the focal point, measured
   from the block's middle, or by the plan's order where there is none;
2. the same, with a single seat left over beside it;
3. the fewest groups of neighbours; nobody sits alone if it can be helped; the first group as near as can be to the
   focal point, the others as near as can be to the first.

Accessible seats are given out when asked for, exactly as many, and companions' seats only right beside one of them, on
every rung. A party with accessible seats in it is seated whenever there are so many accessible and ordinary seats, and
its two first rungs are the same search as anybody's.

Its third is a heuristic: the fewest groups around accessible seats is a packing problem over the whole plan. Up to
MOST_BEGINNINGS ways to seat the first group are tried, each at its best place only; whoever is left goes on from there,
the largest group that can be found each time, and the ordinary ones by the exact search. Of these parties the one with
the fewest groups, and of those with the fewest alone, is taken. On small random plans 98 of 100 are as good as can be,
and hardly one has a group more than it needs (`test_best_available_groups.py` counts them).

A seat is single when it is free and neither neighbour is. What was single before the party came is nobody's fault.

What looks at rows is written in steps (`steps.py`): where it yields, somebody else may have a turn. `free` must not
change meanwhile.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice

from services.booking.fewest_groups import fewest_groups
from services.booking.rows import Ask
from services.booking.seat_plan import Block, Plan, Row, strandings, windows
from services.booking.steps import ROWS_OF_A_STEP, Steps

MOST_IN_A_ROW = 4  # candidates: enough to spread a crowd over many rows, few enough to find again when one is taken
MOST_SIZES = 8  # that are tried for the group around accessible seats: parties are small, and each try is a search
MOST_BEGINNINGS = 24  # tried for a party with accessible seats, once one was found: all there are up to a party of 8
MOST_ROWS = 30_000  # looked at by all of them: fewer are tried in a plan of more than 1,250 rows


Party = tuple[Block, ...]  # one block, or several that share no seat


def candidates(plan: Plan, free: Sequence[int], ask: Ask, *, most: int = 1) -> Steps[list[Party]]:
    """At most `most` parties of the highest rung that has any, best first, no two sharing a seat; none: no such party.

    `free` is a mask for each row of the plan. Several are found only on the first two rungs.
    """
    for stranding in (False, True):
        found = yield from blocks(plan, free, ask, most=most, stranding=stranding)
        if found:
            return [(block,) for block in found]
    party = yield from _split(plan, free, ask)
    return [party] if party else []


def largest(plan: Plan, free: Sequence[int], ask: Ask) -> Steps[int]:
    """The largest party, no larger than asked for, that there are seats for; 0: none of what was asked for is free."""
    accessible = yield from _count(plan, free, ask, ask.accessible, accessible=True)
    if ask.accessible and not accessible:
        return 0
    return accessible + (yield from _count(plan, free, ask, ask.quantity - ask.accessible, accessible=False))


def _count(plan: Plan, free: Sequence[int], ask: Ask, enough: int, *, accessible: bool) -> Steps[int]:
    """Free seats of the section and tier that are accessible, or ordinary; no more than `enough`."""
    seats = 0
    for place, row in enumerate(plan.ranked_rows(ask.section, accessible=accessible)):
        if not place % ROWS_OF_A_STEP:
            yield
        if seats >= enough:
            break
        seats += row.usable(free[row.number] & (row.accessible if accessible else row.ordinary), ask.tier).bit_count()
    return min(seats, enough)


def blocks(plan: Plan, free: Sequence[int], ask: Ask, *, most: int, stranding: bool = False) -> Steps[list[Block]]:
    """The best places for the whole party together, best first, no two sharing a seat; `stranding`: rung 2.

    Rows come by their lower bound, so that looking ends at the first that cannot be better than what was found. Most
    rows are as they were when a party of this kind was seated last, and so is what was found in them.
    """
    scale = ask.quantity * ask.quantity if plan.focal else 1
    known = plan.remembered(("blocks", ask.quantity, ask.accessible, ask.tier, stranding))
    found: list[Block] = []
    worst: int | None = None  # of those found, once there are enough
    for place, row in enumerate(plan.ranked_rows(ask.section, accessible=ask.accessible > 0)):
        if not place % ROWS_OF_A_STEP:
            yield
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


def _blocks_in(plan: Plan, row: Row, left: int, ask: Ask, stranding: bool) -> tuple[Block, ...]:
    """The best places in one row. Two of them leave no single seat between them, should both be taken."""
    size, wheels = ask.quantity, ask.accessible
    if wheels and not left & row.accessible:
        return ()
    fits = windows(row.usable(left if wheels else left & row.ordinary, ask.tier), row.joined, size)
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


def _split(plan: Plan, free: Sequence[int], ask: Ask) -> Steps[Party]:
    """Rung 3; empty when there are too few seats. Of the ways to begin with accessible seats the one that ends best."""
    if not ask.accessible:
        return (yield from fewest_groups(plan, free, ask, ()))
    best: Party = ()
    if (yield from _count(plan, free, ask, ask.accessible, accessible=True)) < ask.accessible:
        return best
    room = yield from _most_together(plan, free, ask)
    most = max(1, min(MOST_BEGINNINGS, MOST_ROWS // len(plan.rows)))
    hopeless: set[Ask] = set()
    for tried, head in enumerate(dict.fromkeys((*_heads(ask, room), *islice(_all_heads(ask, room), most)))):
        if best and (tried >= most or _loneliness(best) <= (2, 0)):
            break  # no party is in one group: that was looked for before
        first = yield from _first(plan, free, [head], hopeless)
        party = (yield from _beginning_with(first, plan, free, ask, room, hopeless)) if first else ()
        if party and (not best or _loneliness(party) < _loneliness(best)):
            best = party
    return best


def _loneliness(party: Party) -> tuple[int, int]:
    """Groups, and people who sit alone: the fewer the better."""
    return len(party), sum(block.size == 1 for block in party)


def _most_together(plan: Plan, free: Sequence[int], ask: Ask) -> Steps[int]:
    """No group with an accessible seat is larger. Saves looking for groups that nothing has room for."""
    most = 0
    for place, row in enumerate(plan.ranked_rows(ask.section, accessible=True)):
        if not place % ROWS_OF_A_STEP:
            yield
        left = row.usable(free[row.number], ask.tier)
        while left & row.accessible and most < ask.quantity and windows(left, row.joined, most + 1):
            most += 1
    return most


def _beginning_with(
    block: Block, plan: Plan, free: Sequence[int], ask: Ask, room: int, hopeless: AbstractSet[Ask]
) -> Steps[Party]:
    """The party with its first group there; empty when the others find no seats."""
    left, party, hopeless = list(free), [block], set(hopeless)
    while True:
        left[block.row] &= ~block.mask
        seated = (plan.rows[block.row].accessible & block.mask).bit_count()
        ask = replace(ask, quantity=ask.quantity - block.size, accessible=ask.accessible - seated)
        if not ask.accessible:
            break
        found = yield from _first(plan, left, _heads(ask, room), hopeless)
        assert found  # at worst a single accessible seat: they were counted
        block = found
        party.append(block)
    rest = yield from fewest_groups(plan, left, ask, party)
    return (*party, *rest) if rest or not ask.quantity else ()


def _first(plan: Plan, free: Sequence[int], heads: Iterable[Ask], hopeless: set[Ask]) -> Steps[Block | None]:
    """The best place of the first of these groups that has any. Most have none, and a search that finds nothing is the
    longest: so the lower rung, which has all there is, comes first, and a group with no place on it is written down as
    hopeless: it will have none when fewer seats are free."""
    for head in heads:
        if head in hopeless:
            continue
        somewhere = yield from blocks(plan, free, head, most=1, stranding=True)
        if somewhere:
            found = yield from blocks(plan, free, head, most=1)
            return (found or somewhere)[0]
        hopeless.add(head)
    return None


def _heads(ask: Ask, room: int) -> Iterator[Ask]:
    """Groups around accessible seats, the most welcome first; the last is a single accessible seat.

    As many accessible seats as can be in one group, with the more of the others the better, but not so that one of them
    is left alone; else fewer of the accessible seats, with one or two of the others.
    """
    others = ask.quantity - ask.accessible
    for wheels in range(min(ask.accessible, room), 0, -1):
        if wheels == ask.accessible:
            sizes = [n for n in range(min(others, room - wheels), -1, -1) if n != others - 1][:MOST_SIZES]
            sizes += [others - 1, 1, 0]
        else:
            sizes = [min(others, 2), min(others, 1), 0]
        for beside in dict.fromkeys(sizes):
            if 0 <= beside <= min(others, room - wheels):
                yield replace(ask, quantity=wheels + beside, accessible=wheels)


def _all_heads(ask: Ask, room: int) -> Iterator[Ask]:
    for wheels in range(ask.accessible, 0, -1):
        for others in range(min(ask.quantity - ask.accessible, room - wheels), -1, -1):
            yield replace(ask, quantity=wheels + others, accessible=wheels)
