"""Moves every line, about twice a second. Any number of processes may: the tick itself lets only one through."""

import asyncio

import structlog

from chassis.errors import Unavailable
from services.waitingroom.line import for_each_line
from services.waitingroom.metrics import ADMITTED, TICKS
from services.waitingroom.store.lines import LineStore

ROUND_SECONDS = 5.0  # a store that hangs must not hold up a round by every line's time-out in turn

log = structlog.get_logger()


class Admitter:
    """Ticks. While the store is away it keeps its pace, so that lines move within a tick of its return."""

    def __init__(self, store: LineStore) -> None:
        self.store = store
        self.away = False

    async def run_once(self) -> int:
        """Never work left: the next tick comes when it is time."""
        try:
            async with asyncio.timeout(ROUND_SECONDS):
                await for_each_line(await self.store.list_lines(), self._tick)
        except (Unavailable, TimeoutError):
            TICKS.labels("UNAVAILABLE").inc()
            self._note(away=True)
        else:
            self._note(away=False)
        return 0

    async def _tick(self, event_id: str) -> None:
        try:
            tick = await self.store.tick(event_id)
        except Unavailable:
            raise
        except Exception as error:  # of this line alone: a round that fails is followed by a pause for all of them
            TICKS.labels("FAILED").inc()
            log.error("a line could not be moved", event_id=event_id, why=repr(error))
            return
        TICKS.labels(tick.outcome).inc()
        ADMITTED.inc(tick.advanced)

    def _note(self, *, away: bool) -> None:
        if away != self.away:
            log.warning("lines stand still: the store is away" if away else "lines move again")
        self.away = away
