"""How much of a database's tables a call reads."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import asyncpg

from chassis.postgres import STATEMENTS
from tests.support.databases import at

T = TypeVar("T")

PLANNINGS = 7  # more than the five executions after which the server may keep a generic plan
LONGEST = "60s"  # what reads too much is to end all the same, on any machine

# The planner's settings as they are without us.
UNSET = """
DO $$
DECLARE
  v_setting text;
BEGIN
  FOREACH v_setting IN ARRAY ARRAY['seqscan', 'hashjoin', 'mergejoin', 'material', 'bitmapscan'] LOOP
    EXECUTE format('ALTER ROLE app IN DATABASE %I RESET enable_%s', current_database(), v_setting);
  END LOOP;
END $$
"""


@dataclass
class Meter:
    """Counts what calls on the one connection of a pool read, by the statistics of tables and indexes: rows, and
    entries of indexes. Of calls of one name the one that read most counts."""

    observer: asyncpg.Connection
    pool: asyncpg.Pool
    read: dict[str, Counter[str]] = field(default_factory=dict)

    async def __call__(self, name: str, call: Awaitable[T]) -> T:
        """The call's answer. Nothing else may be under way in this database."""
        before = await self._count()
        answer = await call
        read = await self._count() - before
        self.read[name] = max(self.read.get(name, Counter()), read, key=Counter.total)
        return answer

    async def _count(self) -> Counter[str]:
        for session in (self.pool, self.observer):
            await session.execute("SELECT pg_stat_force_next_flush()")
        rows = await self.observer.fetch(
            "SELECT relname AS name, seq_tup_read AS read FROM pg_stat_user_tables"
            " UNION ALL SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes"
        )
        return Counter({row["name"]: row["read"] for row in rows})

    def excess(self, most: int, more: Mapping[str, int]) -> dict[str, Counter[str]]:
        """Calls that read more than `most`, or their own number, and where."""
        return {name: +counts for name, counts in self.read.items() if counts.total() > more.get(name, most)}


async def unset_planner(dsn: str) -> None:
    """For sessions to come."""
    connection = await asyncpg.connect(at(dsn, user="postgres"))
    await connection.execute(UNSET)
    await connection.close()


@asynccontextmanager
async def observed(dsn: str, table: str) -> AsyncIterator[asyncpg.Connection]:
    """The superuser's connection. Nobody else looks at the table: a visit by autovacuum would have every session plan
    again. Sessions to come are patient."""
    observer = await asyncpg.connect(at(dsn, user="postgres"))
    await observer.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    database = await observer.fetchval("SELECT current_database()")
    await observer.execute(f"ALTER ROLE app IN DATABASE \"{database}\" SET statement_timeout = '{LONGEST}'")
    try:
        yield observer
    finally:
        await observer.close()


@asynccontextmanager
async def session(dsn: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool of one connection, which keeps its plans."""
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1, statement_cache_size=STATEMENTS) as pool:
        yield pool
