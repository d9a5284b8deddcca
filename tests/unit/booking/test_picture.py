"""The picture between two readings, and how often it is read."""

import asyncio
from collections.abc import Callable

import pytest

from services.booking import picture as module
from services.booking.best_available import Party, candidates
from services.booking.best_seats import BestSeats, _Call
from services.booking.errors import EventNotFound
from services.booking.picture import Picture, Watch, Watches
from services.booking.rows import Ask, PlacedSeats, SeatStates
from services.booking.seat_plan import make_plan
from tests.support.steps import at_once
from tests.unit.booking.halls import hall, placed


class House:
    """Stands where the database is."""

    def __init__(self, *rows: str) -> None:
        self.placed: PlacedSeats | None = placed(*rows)
        self.states: SeatStates | None = SeatStates(1, b"F" * len(self.placed.seats))
        self.loads, self.looks = 0, 0
        self.meanwhile: Callable[[], None] = lambda: None
        self.watch = Watch(self.load, self.look)

    async def load(self) -> PlacedSeats | None:
        self.loads += 1
        return self.placed

    async def look(self) -> SeatStates | None:
        self.looks += 1
        states = self.states
        await asyncio.sleep(0)
        self.meanwhile()
        return states


def test_states_come_by_id_and_go_by_place() -> None:
    plan = make_plan(
        PlacedSeats(1, None, [1], [7, 3, 5], [1] * 3, ["A"] * 3, [0, 1, 1], [0] * 3, [0] * 3, [False] * 3, [False] * 3)
    )
    picture = Picture(plan)
    at_once(picture.apply(b"FHX"))  # seats 3, 5, 7
    assert (picture.free, picture.coming) == ([0, 0b01], [0, 0b10])


def test_what_is_in_hand_is_not_free_until_it_is_given_back() -> None:
    picture = Picture(hall("oooo"))
    at_once(picture.apply(b"FFFF"))
    (party,) = at_once(candidates(picture.plan, picture.free, Ask(2)))
    picture.take(party)
    assert picture.free == [0b1100]
    at_once(picture.apply(b"FFFF"))  # a reading changes nothing of it
    assert picture.free == [0b1100]
    picture.give_back(party)
    assert picture.free == [0b1111]
    picture.take(party)
    picture.mark([1])
    picture.give_back(party)
    assert (picture.free, picture.coming) == ([0b1110], [0b0001])


def test_a_look_stays_as_it_was() -> None:
    picture = Picture(hall("oooo"))
    at_once(picture.apply(b"FFFX", 7.0))
    look = picture.look()
    picture.mark([1])
    (party,) = at_once(candidates(picture.plan, picture.free, Ask(2)))
    picture.take(party)
    assert look == ([0b0111], False, 7.0)
    assert picture.look() == ([0], True, 7.0)
    assert picture.unsold() == [0b0111]
    assert not picture.has(party)


def test_a_mark_outlives_the_reading_that_was_under_way() -> None:
    picture = Picture(hall("oooo"))
    picture.reading()
    picture.mark([2])
    at_once(picture.apply(b"FFFF"))
    assert picture.free == [0b1101]
    picture.reading()
    at_once(picture.apply(b"FFFF"))  # began after it, so it is the newer
    assert picture.free == [0b1111]


async def test_many_callers_share_one_reading() -> None:
    house = House("oooo")
    await asyncio.gather(*(house.watch.get() for _ in range(50)))
    assert (house.loads, house.looks) == (1, 1)
    await house.watch.get()
    assert house.looks == 1


async def test_an_old_picture_is_read_again_behind_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    house = House("oooo")
    picture = await house.watch.get()
    picture.began -= module.FRESH_SECONDS + 0.01
    house.states = SeatStates(1, b"XXXX")
    assert (await house.watch.get()).free == [0b1111]
    for _ in range(5):
        await asyncio.sleep(0.01)
    assert picture.free == [0]
    picture.began -= module.STALE_SECONDS
    house.states = SeatStates(1, b"FXXX")
    assert (await house.watch.get()).free == [1]


async def test_a_reading_that_began_before_is_not_enough() -> None:
    house = House("oooo")
    moment = 0.0

    def later() -> None:
        nonlocal moment
        if not moment:
            moment = asyncio.get_running_loop().time()
            house.states = SeatStates(1, b"XXXX")

    house.meanwhile = later
    await house.watch.get()
    assert (await house.watch.get_since(moment)).free == [0]
    assert house.looks == 2


async def test_a_new_version_brings_its_plan() -> None:
    house = House("oooo")
    await house.watch.get()
    house.placed = placed("oo", "oooo")
    house.placed = PlacedSeats(2, *[getattr(house.placed, name) for name in PlacedSeats.__slots__[1:]])
    house.states = SeatStates(2, b"FFFFFX")
    picture = await house.watch.get_since(asyncio.get_running_loop().time())
    assert (picture.plan.version, picture.free) == (2, [0b11, 0b0111])


async def test_an_event_that_does_not_exist_and_a_reading_that_fails() -> None:
    house = House("oooo")
    house.states = None
    with pytest.raises(EventNotFound):
        await house.watch.get()
    house.placed = None
    with pytest.raises(EventNotFound):
        await house.watch.get()


def test_the_least_used_picture_goes_first() -> None:
    house, watches = House("oo"), Watches(most=2)
    for key in "abac":
        watches.get(key, lambda: Watch(house.load, house.look))
    assert list(watches.watches) == ["a", "c"]
    watches.forget("a")
    watches.forget("z")
    assert list(watches.watches) == ["c"]


def test_a_crowd_widens_the_choice_and_one_lost_race_does_not() -> None:
    watch = House("oo").watch
    watch.calls = 1
    assert watch.crowd() == 1
    watch.raced()
    assert watch.crowd() == 1
    watch.raced()
    assert watch.crowd() > 1
    watch.calls = 10
    assert watch.crowd() >= 19


async def test_a_crowd_is_spread_over_candidates_by_account() -> None:
    """Two replicas that know nothing of each other would else send everybody to the same seats."""
    best, picture, watch = BestSeats(holds=None), Picture(hall("o" * 40)), House("oo").watch  # type: ignore[arg-type]
    at_once(picture.apply(b"F" * 40))

    async def chosen(calls: int) -> set[Party]:
        watch.calls = calls
        asked = [_Call(None, f"fan-{number}", "evt_s1_1", Ask(2), "k") for number in range(30)]  # type: ignore[arg-type]
        return {(await best._choose(watch, picture, call, 0))[1] for call in asked}

    assert len(await chosen(1)) == 1
    assert len(await chosen(8)) > 2
    best.spread = 1
    assert len(await chosen(8)) == 1
