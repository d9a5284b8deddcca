"""Choosing at a large plan lets others in: how much is looked at in one go, what may happen meanwhile, and that no
shortcut changes what is found."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings

from chassis.errors import Contended
from services.booking import best_available, best_seats, fewest_groups, steps
from services.booking.best_available import Party, candidates, largest
from services.booking.best_seats import BestSeats, _Call
from services.booking.picture import Picture, Watch
from services.booking.rows import Ask
from services.booking.seat_plan import MOST_IN_A_ROW, Block, Plan, Row
from services.booking.steps import ROWS_OF_A_STEP, Steps, Turns
from tests.support.steps import at_once
from tests.unit.booking.halls import free_but, hall
from tests.unit.booking.test_best_available_random import Question, questions

ROWS = 1200  # more than two parts of what is sorted


def every_second_seat(*, focal: tuple[int, int] | None = (40, 3000)) -> tuple[Plan, list[int]]:
    """Nobody has a neighbour, and half of the seats are accessible."""
    plan = hall(*["aoao"] * ROWS, focal=focal)
    return plan, [0b0101 if row.number % 2 else 0b1010 for row in plan.rows]


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Rows looked at since the counter was cleared."""
    looks: Counter[str] = Counter()

    def count(place: Any, name: str) -> None:
        real = getattr(place, name)

        def look(*args: Any, **kwargs: Any) -> Any:
            looks[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(place, name, look)

    count(best_available, "_blocks_in")
    count(fewest_groups, "_tally")
    count(fewest_groups, "_runs")
    count(Row, "distance")
    count(Row, "usable")
    return looks


@pytest.mark.parametrize("ask", [Ask(8), Ask(8, accessible=4), Ask(50), Ask(50, accessible=25), Ask(50, tier=1)])
@pytest.mark.parametrize("focal", [None, (40, 3000)])
def test_no_step_looks_at_more_rows_than_it_may(
    monkeypatch: pytest.MonkeyPatch, ask: Ask, focal: tuple[int, int] | None
) -> None:
    plan, free = every_second_seat(focal=focal)
    looks, longest = counted(monkeypatch), Counter[str]()
    for _ in chain(candidates(plan, free, ask), largest(plan, free, ask)):
        longest |= looks  # the most of each
        looks.clear()
    assert longest["_blocks_in"] == longest["_tally"] == ROWS_OF_A_STEP
    # Usable seats are asked for once by a search of each of its rows, and once more by each of its runs.
    assert longest["usable"] <= 2 * ROWS_OF_A_STEP
    assert longest["_runs"] <= ROWS_OF_A_STEP
    assert 0 < longest["distance"] <= fewest_groups.ROWS_OF_A_PART


def test_rows_that_are_sorted_in_parts_are_sorted() -> None:
    plan, _ = every_second_seat()
    ranked = at_once(fewest_groups._around(plan, [(row, (1,)) for row in plan.rows], Block(0, ROWS // 2, 1, 1)))
    bounds = [bound for bound, *_ in ranked]
    assert len(bounds) == ROWS > 2 * fewest_groups.ROWS_OF_A_PART
    assert bounds == sorted(bounds)
    assert bounds[0][1] == 0


def test_rows_without_room_are_passed_over_in_steps() -> None:
    plan = hall(*["o"] * ROWS, "oo")
    ranked = [((row.floor,), row, len(row.seats)) for row in plan.rows]
    looking = fewest_groups._nearest(plan, free_but(plan), Ask(2), ranked, None, 2, [])
    assert sum(1 for _ in looking) > ROWS / ROWS_OF_A_STEP


def test_a_reading_is_applied_in_steps_and_seen_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = hall(*["oooo"] * ROWS)
    picture = Picture(plan)
    at_once(picture.apply(b"F" * 4 * ROWS, 1.0))
    (party,) = at_once(candidates(plan, picture.free, Ask(2)))
    seen = 0
    for number, _ in enumerate(picture.apply(b"X" * 4 * ROWS, 2.0)):
        seen += picture.free[-1] == 0b1111 and picture.began == 1.0
        if not number:
            picture.take(party)
    assert seen == 2 * -(-ROWS // ROWS_OF_A_STEP)
    assert not any(picture.free)
    picture.give_back(party)
    assert (picture.free[0], picture.in_hand, picture.began) == (0, {}, 2.0)


@settings(max_examples=300, deadline=None)
@given(questions())
def test_no_shortcut_changes_what_is_found(question: Question) -> None:
    """What an accessible party gets by what is remembered, by groups known to be hopeless and by sorting in parts, it
    gets when each group is looked for anew, rung by rung."""
    rows, tiers, focal, taken, ask = question
    plan, fresh = hall(*rows, focal=focal, tiers=tiers), hall(*rows, focal=focal, tiers=tiers)
    asks = [ask, Ask(ask.quantity, ask.section, ask.tier, max(1, ask.quantity // 2))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fewest_groups, "ROWS_OF_A_PART", 2)
        found = [at_once(candidates(plan, free_but(plan, taken), each)) for each in (*asks, *asks)]
        patch.setattr(fewest_groups, "_around", around_slowly)
        patch.setattr(best_available, "_first", first_slowly)
        patch.setattr(Plan, "remembered", lambda plan, _: [None] * len(plan.rows))
        assert found == [at_once(candidates(fresh, free_but(plan, taken), each)) for each in asks] * 2


def first_slowly(plan: Plan, free: list[int], heads: Iterable[Ask], _: set[Ask]) -> Steps[Block | None]:
    for head in heads:
        for stranding in (False, True):
            found = yield from best_available.blocks(plan, free, head, most=1, stranding=stranding)
            if found:
                return found[0]
    return None


def around_slowly(plan: Plan, tallies: fewest_groups.Tallies, anchor: Block | None) -> Steps[fewest_groups.Ranked]:
    yield
    if anchor is None:
        return [((row.floor,), row, len(tally)) for row, tally in tallies]
    x, y = plan.rows[anchor.row].middle(anchor.start, anchor.size)
    return sorted(
        (((row.distance(x, y), abs(row.number - anchor.row)), row, len(tally)) for row, tally in tallies),
        key=lambda ranked: ranked[0],
    )


def test_a_row_that_is_too_long_is_several() -> None:
    plan = hall("o" * (MOST_IN_A_ROW + 3))
    assert [len(row.seats) for row in plan.rows] == [MOST_IN_A_ROW, 3]
    assert plan.places[MOST_IN_A_ROW + 1] == (1, 0)
    (party,) = at_once(candidates(plan, free_but(plan, range(1, MOST_IN_A_ROW)), Ask(2)))
    assert [block.seats(plan) for block in party] == [(MOST_IN_A_ROW + 1, MOST_IN_A_ROW + 2)]


def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step takes a turn."""
    ticks = iter(range(10**9))
    monkeypatch.setattr(steps, "thread_time", lambda: next(ticks) * steps.TURN_SECONDS * 1.01)


async def test_others_have_their_turn_while_a_party_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch)
    plan, free = every_second_seat()
    expected = at_once(candidates(plan, free, Ask(8)))
    turns, ended = 0, asyncio.create_task(Turns().run(lambda: candidates(plan, free, Ask(8))))
    while not ended.done():
        turns += 1
        await asyncio.sleep(0)
    assert await ended == expected
    assert turns > 2 * ROWS / ROWS_OF_A_STEP


async def test_long_work_is_done_one_after_the_other_and_not_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch)
    monkeypatch.setattr(steps, "MOST_WAITING", 3)
    turns, under_way, most = Turns(), 0, 0

    def work() -> Steps[str]:
        nonlocal under_way, most
        yield  # the turn before it waits
        yield
        under_way += 1
        most = max(most, under_way)
        yield
        under_way -= 1
        return "done"

    def short() -> Steps[str]:
        return "short"
        yield

    calls = [asyncio.create_task(turns.run(work)) for _ in range(5)]
    await asyncio.sleep(0)
    assert await turns.run(short) == "short"
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [str] * 4 + [Contended]
    assert most == 1
    assert await turns.run(work) == "done"  # whoever came after they had gone


async def test_a_turn_that_does_not_come_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch)
    monkeypatch.setattr(steps, "MOST_SECONDS", 0.05)
    turns, ends = Turns(), asyncio.Event()

    def work() -> Steps[str]:
        yield
        while not ends.is_set():
            yield
        return "done"

    first = asyncio.create_task(turns.run(work))
    await asyncio.sleep(0)
    with pytest.raises(Contended):
        await turns.run(work)
    ends.set()
    assert await first == "done"
    assert await turns.run(work) == "done"


async def choose_while(monkeypatch: pytest.MonkeyPatch, picture: Picture, meanwhile: Callable[[Party], None]) -> Party:
    """`meanwhile` is told of the first party that is found, before the one who looks for it knows."""
    told: list[Party] = []

    def looked_for(*args: Any, **kwargs: Any) -> Steps[list[Party]]:
        found = yield from candidates(*args, **kwargs)
        if found and not told:
            told.append(found[0])
            meanwhile(found[0])
        return found

    monkeypatch.setattr(best_seats, "candidates", looked_for)
    watch = Watch(None, None)  # type: ignore[arg-type]
    call = _Call(None, "ann", "evt_s1_1", Ask(8), "k")  # type: ignore[arg-type]
    _, party = await BestSeats(holds=None)._choose(watch, picture, call, 0)  # type: ignore[arg-type]
    assert told
    return party


async def test_what_another_call_took_meanwhile_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = every_second_seat()
    picture = Picture(plan)
    at_once(picture.apply(b"XF" * 2 * ROWS))
    taken: list[Party] = []

    def take(party: Party) -> None:
        picture.take(party)
        taken.append(party)

    party = await choose_while(monkeypatch, picture, take)
    assert len(taken) == 1
    assert not {(each.row, each.start) for each in party} & {(each.row, each.start) for each in taken[0]}


async def test_without_asking_again_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Picture, "has", lambda *_: True)
    picture = Picture(every_second_seat()[0])
    at_once(picture.apply(b"XF" * 2 * ROWS))
    party = await choose_while(monkeypatch, picture, picture.take)
    assert not picture.free[party[0].row] & party[0].mask
