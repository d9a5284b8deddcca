"""Measures an outbox, and deletes what is over."""

from collections.abc import Sequence

import asyncpg
import structlog
from prometheus_client import Counter, Gauge

from chassis.outbox.statements import queries
from chassis.postgres import acquire
from chassis.queries import affected

KEEP_SECONDS = 7 * 24 * 3600.0  # published messages, so that they can be published again
MOST_DELETED = 1000  # rows of one statement: some milliseconds, so that no lock lasts
KEEPER_SECONDS = 15.0  # between two rounds: as often as Prometheus scrapes

# Every process that works on a database says the same of it: take the max over instances, never the sum.
DEPTH = Gauge("rowlock_outbox_depth", "Messages not yet delivered", ["database", "sink"])
OLDEST = Gauge("rowlock_outbox_oldest_seconds", "How long the oldest of them has waited", ["database", "sink"])
PARKED = Gauge("rowlock_outbox_parked", "Messages that wait for a person; alarm at 1", ["database", "sink"])
UNREAD = Counter("rowlock_outbox_unread_total", "Messages that nobody asked for, deleted undelivered", ["database"])

log = structlog.get_logger()


class Keeper:
    """For one database, named as its metrics are labelled, and its sinks. Any number may run.

    `unread` are sinks for which this process has no relay. Their messages wait as long as published ones are kept, for
    a relay that may come, and are deleted then. Parked messages are never deleted.
    """

    def __init__(
        self, pool: asyncpg.Pool, database: str, *, sinks: Sequence[str] = (), unread: Sequence[str] = ()
    ) -> None:
        self.pool, self.database, self.unread = pool, database, list(unread)
        self.measured = set(sinks)  # those found in the table are added

    async def run_once(self) -> bool:
        """Measures, and deletes a batch; whether there is more to delete."""
        async with acquire(self.pool, "outbox") as connection:
            await self._measure(connection)
            kept = {"keep_seconds": KEEP_SECONDS, "most": MOST_DELETED}
            published = affected(await queries.delete_published(connection, **kept))
            unread = [affected(await queries.delete_unread(connection, sink=sink, **kept)) for sink in self.unread]
        if any(unread):
            UNREAD.labels(self.database).inc(sum(unread))
            log.warning("messages that nobody asked for were deleted", database=self.database, messages=sum(unread))
        return MOST_DELETED in (published, *unread)

    async def _measure(self, connection: asyncpg.Connection) -> None:
        found = {row["sink"]: row async for row in queries.measure(connection)}
        self.measured |= found.keys()
        for sink in self.measured:
            row = found.get(sink, {"waiting": 0, "parked": 0, "oldest_seconds": 0})
            DEPTH.labels(self.database, sink).set(row["waiting"])
            PARKED.labels(self.database, sink).set(row["parked"])
            OLDEST.labels(self.database, sink).set(row["oldest_seconds"])
