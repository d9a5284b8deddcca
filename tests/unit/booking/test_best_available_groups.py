"""The third rung against slow references: the same groups for an ordinary party, the fewest for one with accessible
seats."""

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.booking import best_available
from services.booking.best_available import candidates, largest
from services.booking.fewest_groups import fewest_groups
from services.booking.rows import Ask
from services.booking.seat_plan import Block, Plan
from tests.support.steps import at_once
from tests.unit.booking.halls import free_but, hall
from tests.unit.booking.test_best_available_random import Question, questions

WORSE = 25  # one in so many accessible parties may be split more than it must
NONE = (99, 0)  # groups, and people alone, of a party that cannot be seated


def runs_of(plan: Plan, free: Sequence[int], ask: Ask) -> list[Block]:
    """All stretches of free ordinary neighbours, seat by seat."""
    runs: list[Block] = []
    for row in plan.ranked_rows(ask.section):
        usable = free[row.number] & row.ordinary & (row.tiers.get(ask.tier, 0) if ask.tier is not None else -1)
        size = 0
        for bit in range(len(row.seats) + 1):
            if size and not (usable >> bit & 1 and row.joined >> bit & 1):
                key = plan.key(row, bit - size, size) // (size * size if plan.focal else 1)
                runs.append(Block(key, row.number, bit - size, size))
                size = 0
            size += usable >> bit & 1
    return runs


def chosen_slowly(plan: Plan, free: Sequence[int], ask: Ask, seated: list[Block]) -> list[tuple[int, int]]:
    """Rows and first seats of the runs: at each step all are looked at, and sorted again."""
    runs = runs_of(plan, free, ask)
    if sum(run.size for run in runs) < ask.quantity:
        return []
    longest = sorted((run.size for run in runs), reverse=True)
    groups = next(n for n in range(1, ask.quantity + 1) if sum(longest[:n]) >= ask.quantity)
    if longest[groups - 1] >= 2 and ask.quantity >= 2:
        runs = [run for run in runs if run.size >= 2]
    chosen: list[Block] = []
    left = ask.quantity
    for others in reversed(range(groups)):
        able = []
        for place, run in enumerate(runs):
            rest = sorted((other.size for other in runs[:place] + runs[place + 1 :]), reverse=True)
            if run.size + sum(rest[:others]) >= left:
                able.append(run)
        run = min(able, key=lambda run: (apart(plan, run, [*seated, *chosen]), run))
        chosen.append(run)
        runs.remove(run)
        left -= run.size
    return [(run.row, run.start) for run in chosen]


def apart(plan: Plan, run: Block, seated: list[Block]) -> tuple[float, int]:
    if not seated:
        return (0, 0)
    (x, y), (to_x, to_y) = (plan.rows[each.row].middle(each.start, each.size) for each in (run, seated[0]))
    return ((x - to_x) ** 2 + (y - to_y) ** 2, abs(run.row - seated[0].row))


@settings(max_examples=300, deadline=None)
@given(questions(), st.none() | st.integers(1, 12))
def test_the_groups_are_those_that_a_slow_search_finds(question: Question, sitting: int | None) -> None:
    rows, tiers, focal, taken, ask = question
    plan = hall(*rows, focal=focal, tiers=tiers)
    seated: list[Block] = []
    if sitting:
        row, bit = plan.places[sitting]
        seated, taken = [Block(0, row, bit, 1)], taken | {sitting}
    free = free_but(plan, taken)
    found = at_once(fewest_groups(plan, free, ask, seated))
    expected = chosen_slowly(plan, free, ask, seated)
    inside = {(run.row, run.start): range(run.start, run.start + run.size) for run in runs_of(plan, free, ask)}
    assert len(found) == len(expected)
    assert sum(block.size for block in found) == (ask.quantity if expected else 0)
    for block, run in zip(found, expected, strict=True):
        assert block.row == run[0]
        assert block.start in inside[run]
        assert block.start + block.size - 1 in inside[run]


def fewest(plan: Plan, free: Sequence[int], ask: Ask) -> tuple[int, int]:
    """Groups, and people alone, of the best of all ways to seat a party: seat by seat, a group begins here or not."""
    seats = [(row, bit) for row in plan.rows for bit in range(len(row.seats))]

    @cache
    def seat(place: int, wheels: int, others: int) -> tuple[int, int]:
        if not wheels and not others:
            return (0, 0)
        if place == len(seats):
            return NONE
        best = seat(place + 1, wheels, others)
        row, first = seats[place]
        for size in range(1, min(wheels + others, len(row.seats) - first) + 1):
            window = ((1 << size) - 1) << first
            if window & ~free[row.number] or window & ~(1 << first) & ~row.joined:
                break
            used = (row.accessible & window).bit_count()
            beside = (row.accessible & window) << 1 & row.joined | (row.accessible & window & row.joined) >> 1
            if used <= wheels and size - used <= others and not row.companion & window & ~beside:
                groups, alone = seat(place + size, wheels - used, others - size + used)
                best = min(best, (groups + 1, alone + (size == 1)))
        return best

    return seat(0, ask.accessible, ask.quantity - ask.accessible)


def judge(halls: int) -> Counter[str]:
    """Seats a party with accessible seats in each of so many halls, the same ones each time, and compares."""
    counts: Counter[str] = Counter()
    for seed in range(halls):
        dice = random.Random(seed)
        drawings = ["".join(dice.choices("oooooac ", k=dice.randint(2, 9))).strip() or "o" for _ in range(7)]
        plan = hall("oooooooooo", *drawings, focal=dice.choice([None, (90, -50), (40, 300)]))
        share = dice.choice([0.2, 0.4, 0.6])
        free = free_but(plan, [*range(1, 11), *(seat for seat in plan.places if dice.random() < share)])
        quantity = dice.randint(2, 8)
        ask = Ask(quantity, accessible=dice.randint(1, min(3, quantity)))
        best, found = fewest(plan, free, ask), at_once(candidates(plan, free, ask))
        if not found:
            assert at_once(largest(plan, free, ask)) < quantity
            counts["refused" if best == NONE else "missed"] += 1
            continue
        groups, alone = len(found[0]), sum(block.size == 1 for block in found[0])
        assert (groups, alone) >= best
        counts["as good" if (groups, alone) == best else "lonelier" if groups == best[0] else "more groups"] += 1
    return counts


def test_an_accessible_party_is_nearly_always_split_as_little_as_can_be() -> None:
    counts = judge(700)
    assert counts["as good"] > 400
    assert not counts["missed"]
    assert counts["lonelier"] + counts["more groups"] < counts["as good"] / WORSE


def test_without_trying_many_ways_to_begin_it_often_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_available, "MOST_BEGINNINGS", 1)
    counts = judge(700)
    assert counts["lonelier"] + counts["more groups"] > counts["as good"] / WORSE
