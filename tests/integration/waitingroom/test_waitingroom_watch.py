"""Figures and the alarm."""

import pytest
from prometheus_client import REGISTRY

from services.waitingroom import watch as watch_module
from services.waitingroom.admitter import Admitter
from services.waitingroom.rows import Counts
from services.waitingroom.watch import Watch
from tests.integration.waitingroom.room import EVENT, START, Room


class Monotonic:
    """A stopwatch in the test's hands."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    made = Monotonic()
    monkeypatch.setattr(watch_module, "time", made)
    return made


def figure(name: str) -> float | None:
    return REGISTRY.get_sample_value(f"waitingroom_{name}", {"event": EVENT})


def ticks(outcome: str) -> float:
    return REGISTRY.get_sample_value("waitingroom_ticks_total", {"outcome": outcome}) or 0


async def test_figures_of_a_line_are_shown(room: Room, stopwatch: Monotonic) -> None:
    await room.announce(capacity=2)
    for account in ("ann", "bob", "eve"):
        await room.join(account)
    before = {outcome: ticks(outcome) for outcome in ("ADVANCED", "TOO_SOON", "STOOD")}
    admitted = REGISTRY.get_sample_value("waitingroom_admitted_total") or 0
    admitter = Admitter(room.lines)
    for second in (0, 0.1, 0.5):
        room.at(second)
        await admitter.run_once()
    await room.enter("ann", 1)
    await Watch(room.lines).run_once()
    assert {outcome: ticks(outcome) - count for outcome, count in before.items()} == dict.fromkeys(before, 1)
    assert REGISTRY.get_sample_value("waitingroom_admitted_total") == admitted + 2
    shown = {name: figure(name) for name in ("line_length", "in_flight", "capacity", "claim_rate", "stalled")}
    assert shown == {"line_length": 1, "in_flight": 1, "capacity": 2, "claim_rate": 1, "stalled": 0}
    assert figure("admitted_per_30_seconds") == pytest.approx(2, rel=0.05)


async def test_the_alarm_rises_when_nobody_is_admitted_for_30_s_while_the_line_is_not_empty(
    room: Room, stopwatch: Monotonic
) -> None:
    await room.announce(capacity=1)
    watch = Watch(room.lines)
    await watch.run_once()
    stopwatch.seconds = 100
    await watch.run_once()
    assert figure("stalled") == 0  # nobody waits
    for account in ("ann", "bob"):
        await room.join(account)
    await watch.run_once()
    stopwatch.seconds = 129.9
    assert figure("stalled") == 0
    stopwatch.seconds = 130  # also when nothing was read meanwhile
    assert figure("stalled") == 1
    await room.lines.tick(EVENT)
    await watch.run_once()
    assert figure("stalled") == 0


async def test_the_alarm_is_silent_while_the_zone_is_full_and_ticks_say_so(room: Room, stopwatch: Monotonic) -> None:
    await room.announce(capacity=1)
    for account in ("ann", "bob"):
        await room.join(account)
    await room.lines.tick(EVENT)
    await room.enter("ann", 1)
    watch = Watch(room.lines)
    for second in (10.0, 39.0, 68.0, 97.0):
        room.at(second)
        await room.leases.heartbeat(EVENT, "ann")
        assert (await room.lines.tick(EVENT)).outcome == "STOOD"
        stopwatch.seconds = second
        await watch.run_once()
        assert figure("stalled") == 0
    for second in (112.0, 126.9):  # the ticks have stopped: what the last one said is no excuse any more
        stopwatch.seconds = second
        await watch.run_once()
        assert figure("stalled") == 0
    stopwatch.seconds = 127
    assert figure("stalled") == 1


@pytest.mark.parametrize("held", [0, 3])
async def test_the_alarm_is_silent_while_no_seat_is_open(room: Room, stopwatch: Monotonic, held: int) -> None:
    await room.announce()
    await room.join("ann")
    watch = Watch(room.lines)
    for second in (0.0, 29.0, 58.0, 87.0):
        room.at(second)
        stopwatch.seconds = second
        await room.lines.note_counts(EVENT, Counts(open=0, held=held, as_of=START + round(second * 1000)))
        assert (await room.lines.tick(EVENT)).advanced == 0
        await watch.run_once()
        assert figure("stalled") == 0
    room.at(98)  # no news any more, and no tick either
    for second in (98.0, 127.9):
        stopwatch.seconds = second
        await watch.run_once()
    assert figure("stalled") == 1


async def test_the_alarm_rises_when_ticks_find_room_and_the_line_stands(room: Room, stopwatch: Monotonic) -> None:
    await room.announce()
    await room.join("ann")
    watch = Watch(room.lines)
    for second in (0, 15, 30):
        await room.client.hset(room.line_key, mapping={"tick": START + second * 1000, "room": 10})
        stopwatch.seconds = second
        await watch.run_once()
    assert figure("stalled") == 1


async def test_the_alarm_is_silent_before_the_sale_and_after_it(room: Room, stopwatch: Monotonic) -> None:
    await room.announce(start=60, end=120)
    await room.join("ann")
    watch = Watch(room.lines)
    for second in (0, 40, 121, 180):
        room.at(second)
        stopwatch.seconds = second
        await watch.run_once()
        assert figure("stalled") == 0


async def test_a_line_is_forgotten_a_day_after_its_sale(room: Room, stopwatch: Monotonic) -> None:
    await room.announce(end=100)
    watch = Watch(room.lines)
    await watch.run_once()
    assert figure("capacity") == 10
    room.at(100 + 86_400)
    await watch.run_once()
    assert figure("capacity") is None
    assert figure("stalled") is None
    assert await room.lines.list_lines() == []
    await room.announce(end=200_000)
    assert await room.lines.list_lines() == [EVENT]
