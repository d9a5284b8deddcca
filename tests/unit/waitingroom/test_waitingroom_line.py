"""The public line: states, forecast, and the reading that all polls share."""

import asyncio
import dataclasses

import pytest

from services.waitingroom import line as line_module
from services.waitingroom.line import SharedLines, eta_seconds, for_each_line, state_of
from services.waitingroom.rows import Line, LineState, Stop

STANDING = Line(
    epoch=1,
    line=True,
    capacity=10,
    sale_start=1_000,
    sale_end=900_000,
    tail=20,
    admitted_through=10,
    in_flight=10,
    as_of=50_000,
    moved=45_000,
    ticked=49_900,
    room=0,
    stop=Stop.NONE,
    rate_per_second=2.0,
    claim_rate=0.5,
    commits_per_second=0.0,
    conflicts_per_second=0.0,
)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, LineState.MOVING),
        ({"moved": 40_000}, LineState.PAUSED),
        ({"moved": 40_000, "tail": 10}, LineState.MOVING),
        ({"as_of": 999}, LineState.BEFORE_SALE),
        ({"as_of": 900_000}, LineState.ENDED),
        ({"as_of": 900_000, "line": False}, LineState.ENDED),
        ({"line": False}, LineState.OPEN),
        ({"stop": Stop.SOLD_OUT}, LineState.SOLD_OUT),
        ({"stop": Stop.SOLD_OUT, "tail": 10}, LineState.SOLD_OUT),
        ({"stop": Stop.ALL_HELD}, LineState.PAUSED),
        ({"stop": Stop.ALL_HELD, "tail": 10}, LineState.PAUSED),
        ({"stop": Stop.SOLD_OUT, "as_of": 999}, LineState.BEFORE_SALE),
        ({"stop": Stop.SOLD_OUT, "as_of": 900_000}, LineState.ENDED),
        ({"stop": Stop.SOLD_OUT, "line": False}, LineState.OPEN),
        ({"sale_start": 0, "sale_end": 0}, LineState.MOVING),
    ],
)
def test_state_of_a_line(changes: dict[str, object], state: LineState) -> None:
    assert state_of(dataclasses.replace(STANDING, **changes)) is state  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ahead", "rate", "seconds"), [(100, 4.0, 25.0), (0, 4.0, 0.0), (-3, 0.0, 0.0), (5, 0.0, None), (5, 0.009, None)]
)
def test_eta_is_positions_over_rate(ahead: int, rate: float, seconds: float | None) -> None:
    assert eta_seconds(ahead, rate) == seconds


class Stopwatch:
    """Stands still unless a test moves it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture(autouse=True)
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    made = Stopwatch()
    monkeypatch.setattr(line_module, "time", made)
    return made


class Reader:
    """Reads slowly, and counts."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.fault: Exception | None = None

    async def __call__(self, event_id: str) -> Line:
        self.reads.append(event_id)
        await asyncio.sleep(0.01)
        if self.fault:
            raise self.fault
        return STANDING


async def test_get_line_is_read_once_for_all_who_ask_together_and_shortly_after(stopwatch: Stopwatch) -> None:
    reader = Reader()
    shared = SharedLines(reader)
    lines = await asyncio.gather(*(shared.get_line(event) for event in ["a", "b"] * 500))
    assert set(map(id, lines)) == {id(STANDING)}
    stopwatch.seconds = line_module.SHARED_SECONDS - 0.001
    await shared.get_line("a")
    assert reader.reads == ["a", "b"]
    stopwatch.seconds = line_module.SHARED_SECONDS
    await shared.get_line("a")
    assert reader.reads == ["a", "b", "a"]


async def test_get_line_goes_on_for_the_others_when_the_first_caller_leaves() -> None:
    reader = Reader()
    shared = SharedLines(reader)
    first = asyncio.create_task(shared.get_line("a"))
    await asyncio.sleep(0)
    second = asyncio.create_task(shared.get_line("a"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is STANDING
    assert reader.reads == ["a"]


async def test_a_reading_that_failed_fails_for_all_and_is_not_repeated_at_once() -> None:
    reader = Reader()
    reader.fault = LookupError("away")
    shared = SharedLines(reader)
    results = await asyncio.gather(*(shared.get_line("a") for _ in range(50)), return_exceptions=True)
    assert all(isinstance(result, LookupError) for result in results)
    with pytest.raises(LookupError):
        await shared.get_line("a")
    assert reader.reads == ["a"]


async def test_shared_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "LINES_SHARED", 3)
    reader = Reader()
    shared = SharedLines(reader)
    await asyncio.gather(*(shared.get_line(event) for event in "abcd"))
    await asyncio.gather(*(shared.get_line(event) for event in "bcd"))
    assert reader.reads == list("abcd")
    await shared.get_line("a")
    assert reader.reads == list("abcda")


async def test_for_each_line_does_all_and_then_raises() -> None:
    done: list[str] = []

    async def work(event_id: str) -> None:
        if event_id == "b":
            raise LookupError(event_id)
        done.append(event_id)

    with pytest.raises(LookupError):
        await for_each_line(["a", "b", "c"], work)
    assert done == ["a", "c"]
