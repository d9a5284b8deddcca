"""PgBouncer in transaction mode. `make test-pgbouncer` runs most of booking's and payments' tests through it; these
are about the pooler itself."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from services.booking.store.shards import Shard, open_shards
from tests.integration.booking.booth import EVENT, Booth, caller, inventory, refused
from tests.integration.booking.schedules import guarded_or_not
from tests.integration.booking.test_booking_shard_name import ALL_SESSIONS, CONTENT
from tests.support import pooler
from tests.support.pooler import SESSIONS, Pooler

pytestmark = pytest.mark.pooler

# What services/booking/README.md asks of a pooler.
NAMED = "connect_query='SELECT pg_terminate_backend(pg_backend_pid()) FROM shard WHERE name <> ''s1'''"


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


@guarded_or_not
async def test_a_poolers_session_that_leads_to_another_shard_is_not_used(
    database: Callable[..., Awaitable[str]],
    open_replica: Callable[..., Awaitable[Booth]],
    postgres: str,
    scratch: Path,
    guarded: bool,
) -> None:
    """Booking's connections to the pooler outlive a failover behind it, so they are not compared again: the pooler has
    to compare. The control's does not."""
    way = pooler.start(scratch, postgres, *(("pgbouncer-named", NAMED) if guarded else ()))
    dsn = await database("booking")
    booth = replace(await open_replica({"s1": way.between(dsn)}), dsn=dsn)
    await booth.internal.PutInventory(inventory())
    await booth.hold("ann", 1, 2)
    await booth.execute("UPDATE shard SET name = 's2'")
    await booth.execute(ALL_SESSIONS)
    (before,) = await booth.execute(CONTENT)
    request, known = pb.HoldSeatsRequest(event_id=EVENT, seat_ids=[3, 4]), caller("bob", key="k")
    call = booth.public.HoldSeats(request, metadata=known, timeout=2 if guarded else 20)
    if guarded:
        assert (await refused(call))[0] in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
    else:
        await call
    (after,) = await booth.execute(CONTENT)
    assert (after == before) == guarded
    await booth.execute("UPDATE shard SET name = 's1'")
    assert await booth.public.HoldSeats(request, metadata=known, timeout=20)
    assert await booth.broken() == {}
