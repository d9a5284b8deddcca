"""An outbox with a long backlog, and all that is done with it, under a meter."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Any

import asyncpg

from chassis.outbox import Outboxes, Relay, SinkUnavailable, operators, relay, statements
from chassis.outbox.keeper import KEEP_SECONDS, MOST_DELETED
from tests.integration.chassis.outboxes import SINK, Sink, end_rests
from tests.support.reads import Meter

UNREAD = "booking.orders"

# As many aggregates, of two sinks in turn, with one message that was published and one that waits.
FILL = """
INSERT INTO outbox (sink, aggregate_id, kind, payload, created_time, due_time, published_time)
SELECT (CAST($1 AS text[]))[1 + n % 2], 'order ' || n, 'old', '{}', t, t, t
  FROM (SELECT n, clock_timestamp() - interval '1 hour' - ($2 - n) * interval '10 ms' AS t
          FROM generate_series(1, CAST($2 AS int)) n) x
"""
WAIT = """
INSERT INTO outbox (sink, aggregate_id, kind, payload)
SELECT (CAST($1 AS text[]))[1 + n % 2], 'order ' || n, 'new', '{}' FROM generate_series(1, CAST($2 AS int)) n
"""
PARK_LAST = """
UPDATE outbox SET parked_time = clock_timestamp(), refusals = 10
 WHERE message_id = ANY (ARRAY(
   SELECT message_id FROM outbox WHERE published_time IS NULL AND parked_time IS NULL
    ORDER BY message_id DESC LIMIT 2))
"""


async def fill(observer: asyncpg.Connection, messages: int) -> None:
    """So many published, so many that wait."""
    for statement in (FILL, WAIT):
        await observer.execute(statement, [SINK, UNREAD], messages)


class Office:
    """Everything that is done with an outbox, on the one connection of a pool."""

    def __init__(self, pool: asyncpg.Pool, observer: asyncpg.Connection) -> None:
        self.pool, self.observer, self.meter = pool, observer, Meter(observer, pool)
        self.relay, self.outboxes = Relay(pool, SINK, Sink()), Outboxes({"s1": pool})

    async def run(self) -> None:
        """Parks two, and changes some hundred others."""
        await self.deliver()
        await self.operate()
        await self.keep()

    async def deliver(self) -> None:
        """What a relay does, whatever became of its deliveries."""
        for name, verdict in (("postpone", SinkUnavailable()), ("refuse", ValueError()), ("publish", None)):
            claimed = await self.meter("claim", self.relay._claim(relay.CONCURRENCY))
            assert claimed
            some = claimed[:1] if name == "refuse" else claimed
            await self.meter(name, self.relay._settle([(message, verdict) for message in some]))
            await end_rests(self.observer, self.relay)

    async def operate(self) -> None:
        """What people do."""
        await self.observer.execute(PARK_LAST)
        _, token = await self.meter("list", self.list(page_size=2))
        assert token
        await self.meter("list, on", self.list(page_token=token))
        parked, _ = await self.meter("list, parked", self.list(parked=True))
        await self.meter("retry", self.outboxes.retry_message(parked[-1].message_id))
        await self.meter("drop", self.outboxes.drop_message(parked[-2].message_id))
        first, last, now = await self.observer.fetchrow(
            "SELECT min(published_time), max(published_time), clock_timestamp() FROM outbox"
        )
        await self.meter("republish", self.republish(first, first, now))
        await self.meter("republish, the last", self.republish(first, last, now))

    async def keep(self) -> None:
        """What the keeper does."""
        await self.meter("measure", self.measure())
        await self.meter("delete_published", self.delete("delete_published"))
        await self.meter("delete_unread", self.delete("delete_unread", sink=UNREAD))

    def list(self, *, parked: bool = False, page_size: int = 0, page_token: str = "") -> Awaitable[Any]:
        return self.outboxes.list_outbox(parked=parked, page_size=page_size, page_token=page_token)

    async def republish(self, start: datetime, after: datetime, now: datetime) -> None:
        """One batch."""
        limits = {"asked_time": now, "after_time": after, "after_id": 0, "most": operators.REPUBLISH_BATCH}
        async with self.pool.acquire() as connection:
            assert await statements.queries.republish(connection, sink=SINK, start_time=start, **limits)

    async def measure(self) -> None:
        async with self.pool.acquire() as connection:
            assert [row async for row in statements.queries.measure(connection)]

    async def delete(self, name: str, **more: str) -> None:
        """Nothing is old enough."""
        limits = {"keep_seconds": KEEP_SECONDS, "most": MOST_DELETED}
        async with self.pool.acquire() as connection:
            assert await getattr(statements.queries, name)(connection, **limits, **more) == "DELETE 0"
