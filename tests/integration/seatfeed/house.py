"""What seatfeed's tests share: seats that change, and a client that follows the rules of the stream."""

import asyncio
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from chassis.ids import format_id
from services.seatfeed.feeds import Feeds
from services.seatfeed.follow import Follower
from services.seatfeed.ingest import Ingester
from services.seatfeed.rows import Snapshot, Standing, Update
from services.seatfeed.store.seats import SeatLog

EVENT = 7
EVENT_ID = format_id("evt", "s1", EVENT)
PUBLIC = {"AVAILABLE": Standing.OPEN, "HELD": Standing.OPEN}


@dataclass
class Booking:
    """The owner's side of the table."""

    dsn: str
    connection: asyncpg.Connection

    async def add_event(self, event: int, sections: Mapping[str, Iterable[int]]) -> None:
        rows = [(event, seat, section) for section, seats in sections.items() for seat in seats]
        await self.connection.executemany(
            "INSERT INTO seat (event_id, seat_id, tier, section, row_name, number) VALUES ($1, $2, 1, $3, '1', '1')",
            rows,
        )

    async def set_state(
        self, state: str, *seats: int, event: int = EVENT, connection: asyncpg.Connection | None = None
    ) -> None:
        """As booking's functions would, without their guards."""
        await (connection or self.connection).execute(
            "UPDATE seat SET state = $1, hold_id = CASE WHEN $1 = 'HELD' THEN $4::uuid END,"
            " hold_expires_at = CASE WHEN $1 = 'HELD' THEN clock_timestamp() + interval '1 hour' END,"
            " order_id = CASE WHEN $1 IN ('PENDING_PAYMENT', 'SOLD') THEN $4::uuid END"
            " WHERE event_id = $2 AND seat_id = ANY ($3::int[])",
            *(state, event, list(seats), uuid.uuid4()),
        )

    async def states(self, event: int = EVENT) -> dict[int, tuple[str, str]]:
        """(section, state) by seat."""
        rows = await self.connection.fetch("SELECT seat_id, section, state FROM seat WHERE event_id = $1", event)
        return {row["seat_id"]: (row["section"], row["state"]) for row in rows}

    async def counts(self, event: int = EVENT) -> dict[str, tuple[int, int, int]]:
        """(open, held, taken) by section, as they must be shown."""
        counted: dict[str, list[int]] = {}
        for section, state in (await self.states(event)).values():
            place = {"AVAILABLE": 0, "HELD": 1}.get(state, 2)
            counted.setdefault(section, [0, 0, 0])[place] += 1
        return {section: (a, b, c) for section, (a, b, c) in counted.items()}


@dataclass
class House:
    """Makes the parts; `slot` is the log's."""

    redis: Any
    slot: str
    open_log: Callable[[], SeatLog]
    ingester: Callable[..., Ingester]
    follower: Callable[[], Follower]
    feeds: Callable[[Follower], Feeds]


async def lead(ingester: Ingester) -> None:
    """Until it leads: a predecessor's connections end a moment after it has closed them."""
    for _ in range(500):
        if ingester.stream is not None:
            return
        await ingester.run_once()
        await asyncio.sleep(0.02)
    raise AssertionError("the ingester does not lead")


async def tick(ingester: Ingester) -> None:
    """Ticks until all that is committed now is stored; on a busy machine one tick may not get that far."""
    _, end = await ingester.seat_log.probe_log()
    for _ in range(50):
        await ingester.tick()
        if ingester.head is not None and ingester.head.covered >= end:
            return
    raise AssertionError("the ingester does not reach the end of the log")


async def follow(follower: Follower) -> None:
    """Until it has read everything that is stored."""
    while True:
        head = await follower.store.read_head()
        if head is not None and follower.head == head:
            return
        await follower.run_once()


@dataclass(eq=False)
class Client:
    """A browser that keeps to the rule: apply what follows the watermark, ignore what is older, else start over."""

    section: str = ""
    watermark: str = ""
    counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    seats: dict[int, Standing] = field(default_factory=dict)
    must_fetch: bool = True
    updates: list[Update] = field(default_factory=list)

    def deliver(self, update: Update) -> None:
        self.updates.append(update)
        epoch, mine = update.watermark.partition(".")[0], self.watermark.partition(".")[0]
        if update.resync or epoch != mine or update.prev > self.watermark:
            self.must_fetch = True
        elif update.watermark > self.watermark:
            self.watermark = update.watermark
            self.counts.update({name: (open_, held, taken) for name, open_, held, taken in update.sections})
            self.seats.update(dict(update.seats))

    def fetch(self, snapshot: Snapshot) -> None:
        self.watermark, self.must_fetch = snapshot.watermark, False
        self.counts = {name: (open_, held, taken) for name, open_, held, taken in snapshot.sections}
        self.seats = dict(snapshot.seats)


@dataclass
class Event:
    """One server-sent event."""

    id: str = ""
    event: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def parse_events(text: str) -> list[Event]:
    """The events of a stream's text that carry data."""
    events = []
    for block in text.split("\n\n"):
        made = Event()
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            if name == "data":
                made.data = json.loads(value)
            elif name in ("id", "event"):
                setattr(made, name, value)
        if made.data:
            events.append(made)
    return events
