"""Hears from the seat feed what is left of each event on sale, so that nobody is admitted to an empty house.

Best effort, and from every process: the store keeps the newest counts, and for a few seconds only. Without news a line
moves on.
"""

import asyncio
import random
from typing import Protocol

from chassis.errors import Unavailable
from services.waitingroom.line import for_each_line, state_of
from services.waitingroom.metrics import COUNTS
from services.waitingroom.rows import Counts, LineState
from services.waitingroom.store.lines import LineStore

ROUND_SECONDS = 4.0  # the seat feed hung: the next round may find it well before what was noted ends
AT_ONCE = 8  # the answer is ready-made there; more would only queue

NOT_ON_SALE = (LineState.OPEN, LineState.BEFORE_SALE, LineState.ENDED)


class SeatFeed(Protocol):
    """Who knows what is left."""

    async def get_counts(self, event_id: str) -> Counts | None:
        """Of all sections together; None when there is no picture of the event. Refuses with UNAVAILABLE."""


class CountsWatch:
    """Asks of every line whose sale is on."""

    def __init__(self, store: LineStore, seatfeed: SeatFeed) -> None:
        self.store, self.seatfeed = store, seatfeed

    async def run_once(self) -> int:
        """Never work left. A round that takes too long is cut, so each begins with other events."""
        events = list(await self.store.list_lines())
        random.shuffle(events)
        try:
            async with asyncio.timeout(ROUND_SECONDS):
                await for_each_line(events, self._note_counts, AT_ONCE)
        except TimeoutError:
            COUNTS.labels("CUT").inc()
        return 0

    async def _note_counts(self, event_id: str) -> None:
        if state_of(await self.store.get_line(event_id)) in NOT_ON_SALE:
            return
        try:
            counts = await self.seatfeed.get_counts(event_id)
        except Unavailable:
            COUNTS.labels("UNAVAILABLE").inc()
            return
        if counts is None:
            COUNTS.labels("NO_PICTURE").inc()
            return
        COUNTS.labels("NOTED" if await self.store.note_counts(event_id, counts) else "OLD").inc()
