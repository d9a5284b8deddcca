"""PgBouncer in transaction mode. `make test-pgbouncer` runs all of booking's and payments' tests through it; these are
about the pooler itself."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from services.booking.store.shards import Shard, open_shards
from tests.integration.booking.booth import Booth
from tests.support.pooler import SESSIONS, Pooler

pytestmark = pytest.mark.pooler


async def ask(shard: Shard) -> int:
    """A statement with an argument, and time for others to come between."""
    return int(await shard.read(lambda c: c.fetchval("SELECT pg_backend_pid() + 0 * $1::int FROM pg_sleep(0.01)", 1)))


async def test_many_connections_share_few_sessions(database: Callable[..., Awaitable[str]], pooled: Pooler) -> None:
    way = pooled.between(await database("booking"))
    shards = await open_shards({"s1": way}, pool_size=2 * SESSIONS, statements=0)
    pids = await asyncio.gather(*(ask(shards["s1"]) for _ in range(200)))
    assert 1 < len(set(pids)) <= SESSIONS
    await shards.close()


async def test_kept_statements_break(database: Callable[..., Awaitable[str]], pooled: Pooler) -> None:
    """The control: the pooler is in the way, and the setting is what it takes."""
    way = pooled.between(await database("booking"))

    async def use() -> None:
        shards = await open_shards({"s1": way}, pool_size=2 * SESSIONS)
        await asyncio.gather(*(ask(shards["s1"]) for _ in range(200)))

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError), match="prepared statement"):
        await use()


async def test_the_roles_settings_reach_every_session(booth: Booth) -> None:
    async def setting() -> str:
        value = await booth.shards["s1"].read(lambda c: c.fetchval("SELECT current_setting($1)", "statement_timeout"))
        return str(value)

    assert set(await asyncio.gather(*(setting() for _ in range(50)))) == {"5s"}
