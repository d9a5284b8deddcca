"""What must always be true of the feed, asked again. The checks compare two stores, so they are no queries of one."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from chassis.ids import format_id
from chassis.invariants import Invariant
from services.seatfeed.errors import PictureLost
from services.seatfeed.follow import Follower
from services.seatfeed.rows import Seat
from services.seatfeed.store.seats import SeatLog

ROUNDS = 4  # in which a seat must differ alike to be called wrong: one that changes meanwhile differs for a moment
CATCH_UP_SECONDS = 5.0  # for the feed to reach the end of the log; five ticks
MOST_EVENTS = 2000  # of a shard that are compared

DESCRIPTIONS = {
    "slot_is_gone": "The log cannot be read on from where the pictures stand.",
    "log_acknowledged_beyond_the_pictures": "A change was acknowledged that no stored picture shows.",
    "pictures_are_behind": f"The pictures did not reach the log's end within {CATCH_UP_SECONDS:.0f} s.",
    "stored_seat_differs": "A seat stands otherwise in its stored picture than in booking's table.",
    "counts_do_not_add_up": "A section's counts in memory are not those of its seats.",
}

Differences = set[tuple[int, Seat | None, Seat | None]]


class Checks:
    """`open_log` makes a connection of its own for a check: the ingester's is busy."""

    def __init__(self, followers: Mapping[str, Follower], open_log: Mapping[str, Callable[[], SeatLog]]) -> None:
        self.followers, self.open_log = followers, open_log
        self.stores = {shard: follower.store for shard, follower in followers.items()}

    async def check_invariants(self) -> list[Invariant]:
        """All of them, over all shards."""
        found: dict[str, list[str]] = {name: [] for name in DESCRIPTIONS}
        for shard, open_log in self.open_log.items():
            seat_log = open_log()
            await seat_log.connect()
            try:
                await self._check_log(shard, seat_log, found)
                await self._check_seats(shard, seat_log, found)
            finally:
                await seat_log.close()
            found["counts_do_not_add_up"] += self._wrong_counts(shard)
        return [Invariant(name, DESCRIPTIONS[name], len(examples), examples) for name, examples in found.items()]

    async def _check_log(self, shard: str, seat_log: SeatLog, found: dict[str, list[str]]) -> None:
        """The slot before the head: a picture is stored before its log is acknowledged, never after."""
        slot, head = await seat_log.get_slot(), await self.stores[shard].read_head()
        if slot is None or slot.lost:
            found["slot_is_gone"].append(shard)
        elif head is None or slot.confirmed > head.covered:
            found["log_acknowledged_beyond_the_pictures"].append(shard)

    async def _check_seats(self, shard: str, seat_log: SeatLog, found: dict[str, list[str]]) -> None:
        for event in await self._events(shard, seat_log):
            name = format_id("evt", shard, event)
            wrong: Differences | None = None
            for _ in range(ROUNDS):
                differing = await self._differences(shard, seat_log, event)
                if differing is None:
                    found["pictures_are_behind"].append(shard)
                    return
                wrong = differing if wrong is None else wrong & differing
                if not wrong:
                    break
            found["stored_seat_differs"] += [f"{name} seat {seat_id}" for seat_id, _, _ in sorted(wrong or ())]

    async def _events(self, shard: str, seat_log: SeatLog) -> list[int]:
        head = await self.stores[shard].read_head()
        stored = await self.stores[shard].list_events(head.epoch) if head else {}
        return sorted(stored.keys() | set(await seat_log.list_events(MOST_EVENTS)))[:MOST_EVENTS]

    async def _differences(self, shard: str, seat_log: SeatLog, event: int) -> Differences | None:
        """The table first, then a picture that is not older; None if there is none in time."""
        table = await seat_log.list_seats_of_event(event)
        _, end = await seat_log.probe_log()
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while time.monotonic() < deadline:
            with suppress(PictureLost):
                head = await self.stores[shard].read_head()
                if head is not None and head.covered >= end:
                    stored = await self.stores[shard].load_picture(head.epoch, event)
                    seats = stored.seats if stored else {}
                    return {
                        (seat_id, table.get(seat_id), seats.get(seat_id))
                        for seat_id in table.keys() | seats.keys()
                        if table.get(seat_id) != seats.get(seat_id)
                    }
            await asyncio.sleep(0.1)
        return None

    def _wrong_counts(self, shard: str) -> list[str]:
        return [
            format_id("evt", shard, event)
            for event, view in self.followers[shard].views.items()
            if view.picture.all_counts() != view.picture.recount()
        ]
