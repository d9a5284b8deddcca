"""The public line: what it is doing, how long it will take, and the copy of it that every poll shares."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from services.waitingroom.rows import Line, LineState, Stop

SHARED_SECONDS = 0.25  # half a tick: a million polls a second read the store four times
LINES_SHARED = 10_000  # more than are ever polled at once; the oldest is dropped
PAUSED_AFTER_MS = 10_000  # a small zone moves every few seconds, and does not pause in between
LEAST_RATE = 0.01  # positions a second; below, a forecast says nothing


def state_of(line: Line) -> LineState:
    """Judged by the time at which the line was read."""
    if line.sale_end and line.as_of >= line.sale_end:
        return LineState.ENDED
    if not line.line:
        return LineState.OPEN
    if line.as_of < line.sale_start:
        return LineState.BEFORE_SALE
    if line.stop is Stop.SOLD_OUT:
        return LineState.SOLD_OUT
    stands = line.length and line.as_of - line.moved >= PAUSED_AFTER_MS
    return LineState.PAUSED if stands or line.stop is Stop.ALL_HELD else LineState.MOVING


def eta_seconds(ahead: int, rate_per_second: float) -> float | None:
    """Positions ahead over the rate (reference text, A6); None when there is no rate, 0 when it is one's turn."""
    if ahead <= 0:
        return 0.0
    return ahead / rate_per_second if rate_per_second >= LEAST_RATE else None


@dataclass
class _Copy:
    """The last reading of one line: it fails for all who wait for it, or is good for all."""

    reading: "asyncio.Task[Line]"
    read_at: float

    def fresh(self) -> bool:
        return not self.reading.done() or time.monotonic() - self.read_at < SHARED_SECONDS


class SharedLines:
    """One reading at a time for each event, shared by all who ask meanwhile and for SHARED_SECONDS after it began."""

    def __init__(self, read: Callable[[str], Coroutine[Any, Any, Line]]) -> None:
        self._read = read
        self._copies: OrderedDict[str, _Copy] = OrderedDict()

    async def get_line(self, event_id: str) -> Line:
        """The line, at most SHARED_SECONDS and one reading old; raises what the reading raised."""
        copy = self._copies.get(event_id)
        if copy is None or not copy.fresh():
            copy = self._start_reading(event_id)
        return await asyncio.shield(copy.reading)  # one caller who goes away takes nothing from the others

    def _start_reading(self, event_id: str) -> _Copy:
        reading = asyncio.create_task(self._read(event_id))
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())  # all who asked may have gone
        copy = self._copies[event_id] = _Copy(reading, time.monotonic())
        self._copies.move_to_end(event_id)
        if len(self._copies) > LINES_SHARED:
            self._copies.popitem(last=False)
        return copy


async def for_each_line(events: Sequence[str], work: Callable[[str], Awaitable[None]], at_once: int = 16) -> None:
    """Runs `work` for every event, a few at a time. One that fails takes nothing from the others; then the first
    failure is raised."""
    gate = asyncio.Semaphore(at_once)

    async def run(event_id: str) -> None:
        async with gate:
            await work(event_id)

    for result in await asyncio.gather(*map(run, events), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
