"""The shards: databases by name. An id says which one it lives on, so nothing is looked up."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from uuid import UUID

import asyncpg

from chassis.ids import parse_id
from chassis.postgres import (
    BY_INDEX_ONLY,
    STATEMENTS,
    KeptConnection,
    WrongDatabase,
    acquire,
    close_pool,
    finish,
    open_pool,
    with_retries,
)
from services.booking.rows import id_text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shard:
    """A database and its name, with the connections to it."""

    name: str
    pool: asyncpg.Pool
    dsn: str
    statements: int = STATEMENTS
    kept: list[KeptConnection] = field(default_factory=list)

    def keep_connection(self, purpose: str) -> KeptConnection:
        """One more connection, for one user at a time; it closes with the shard."""
        name = f"booking-{purpose}-{self.name}"
        self.kept.append(KeptConnection(self.dsn, name, self.statements, partial(_check_name, self.name)))
        return self.kept[-1]

    async def write(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Runs a transaction to its end, also without its caller, and again from the top if others were in the way.

        Raises Contended, or Unavailable when no connection was free in time.
        """

        async def once() -> T:
            async with acquire(self.pool, self.name) as connection:
                return await work(connection)

        return await finish(with_retries(once))

    async def read(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Runs a statement that changes nothing. Raises Unavailable when no connection was free in time."""
        async with acquire(self.pool, self.name) as connection:
            return await work(connection)

    def id_of(self, prefix: str, number: int | UUID) -> str:
        """The id of something on this shard, as callers see it."""
        return id_text(prefix, self.name, number)


class Shards(Mapping[str, Shard]):
    """All shards that this process serves."""

    def __init__(
        self, pools: Mapping[str, asyncpg.Pool], dsns: Mapping[str, str], statements: int = STATEMENTS
    ) -> None:
        self._shards = {name: Shard(name, pool, dsns[name], statements) for name, pool in pools.items()}

    def __getitem__(self, name: str) -> Shard:
        return self._shards[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    def locate(self, prefix: str, text: str) -> tuple[Shard, int] | None:
        """The shard and number of an id; None for a text that names nothing here."""
        parsed = parse_id(prefix, text)
        if parsed is None or parsed[0] not in self._shards:
            return None
        return self._shards[parsed[0]], parsed[1]

    def locate_event(self, text: str) -> tuple[Shard, int] | None:
        """`locate` for events, whose numbers have 63 bits."""
        found = self.locate("evt", text)
        return found if found and found[1] < 2**63 else None

    def locate_uuid(self, prefix: str, text: str) -> tuple[Shard, UUID] | None:
        """`locate` for holds, orders and tickets."""
        found = self.locate(prefix, text)
        return (found[0], UUID(int=found[1])) if found and found[1] < 2**128 else None

    async def close(self) -> None:
        """Every connection, when nothing is under way any more. All at once: over a network that stands still each
        takes its whole bound."""
        kept = [connection.close() for shard in self.values() for connection in shard.kept]
        await asyncio.gather(*kept, *(close_pool(shard.pool) for shard in self.values()))


async def open_shards(
    dsns: Mapping[str, str], *, pool_size: int, purpose: str = "calls", statements: int = STATEMENTS
) -> Shards:
    """Connects to each shard. Every connection, also a later one, compares the shard's name with the one that the
    database has written down.

    Raises WrongDatabase: a database under another's name would sell the wrong seats.
    """
    pools: dict[str, asyncpg.Pool] = {}
    try:
        for name, dsn in dsns.items():
            pools[name] = await open_pool(
                dsn,
                name=f"booking-{purpose}-{name}",
                max_size=pool_size,
                statements=statements,
                expect=BY_INDEX_ONLY,
                check=partial(_check_name, name),
            )
    except BaseException:
        await Shards(pools, dsns).close()
        raise
    return Shards(pools, dsns, statements)


async def _check_name(name: str, connection: asyncpg.Connection) -> None:
    """One round trip, for without arguments nothing is prepared. A name is letters and digits."""
    if await connection.execute(f"SELECT FROM shard WHERE name = '{name}'") != "SELECT 1":
        found = await connection.fetchval("SELECT name FROM shard")
        raise WrongDatabase(f"the database configured as shard {name} is shard {found}")
