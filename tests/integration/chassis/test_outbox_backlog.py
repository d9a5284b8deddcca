"""However much waits, was published or is parked, and whatever a session's plans were made for, each of an outbox's
statements reads as little as before."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from chassis.outbox import Relay, operators
from chassis.outbox.keeper import MOST_DELETED
from tests.integration.chassis.backlog import Office, fill
from tests.integration.chassis.outboxes import SINK, Sink
from tests.support.databases import WITH_OUTBOX
from tests.support.reads import PLANNINGS, observed, session, unset_planner

MANY = 20_000  # published, and as many that wait
SMALL = (10, 40)  # of each while plans are made
# Rows and entries of indexes: some for each of a claim's 64 rows, and for each of their older versions. Those stay
# while anybody on the server is in a transaction, in another database too: up to 3,500 were seen.
MOST = 8_000
MORE = {
    "republish": 3 * operators.REPUBLISH_BATCH,
    "republish, the last": 3 * operators.REPUBLISH_BATCH,
    "measure": 3 * MANY,  # it counts what waits
    "delete_unread": 3 * MOST_DELETED,
}

both = pytest.mark.parametrize("service", sorted(WITH_OUTBOX))

# As the indexes were: they have in them what is parked, or not the order of a batch, or there are none.
INDEXES = """
CREATE INDEX outbox_unpublished ON outbox (sink, message_id) WHERE published_time IS NULL;
CREATE INDEX outbox_published ON outbox (published_time) WHERE published_time IS NOT NULL;
DROP INDEX outbox_waiting, outbox_parked, outbox_published_in_order;
"""


@pytest.fixture
async def dsn(database: Callable[..., Awaitable[str]], service: str) -> str:
    """The outbox of a service, with its role's settings."""
    return await database(service)


# What the statistics are of when plans are made.
STATISTICS = {
    "nothing": "SELECT",
    "a backlog": "ANALYZE outbox",
    "a quiet time": "UPDATE outbox SET published_time = now(); ANALYZE outbox",
}


@asynccontextmanager
async def grown(
    dsn: str, observer: asyncpg.Connection, small: int, *, statistics: str = "a backlog"
) -> AsyncIterator[Office]:
    """A session that planned while there was next to nothing, in front of a long backlog."""
    async with session(dsn) as pool:
        office = Office(pool, observer)
        await fill(observer, small)
        await observer.execute(STATISTICS[statistics])
        for _ in range(PLANNINGS):
            await observer.execute("DELETE FROM outbox")
            await fill(observer, small)
            await office.run()
        await fill(observer, MANY)
        office.meter.read.clear()
        yield office


@both
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("statistics", STATISTICS)
async def test_statements_read_no_more_when_the_outbox_has_grown(dsn: str, small: int, statistics: str) -> None:
    async with observed(dsn, "outbox") as observer:
        async with grown(dsn, observer, small, statistics=statistics) as kept:
            await kept.run()
            assert kept.meter.excess(MOST, MORE) == {}
        async with session(dsn) as pool:  # the statistics are still of next to nothing
            new = Office(pool, observer)
            await new.run()
            assert new.meter.excess(MOST, MORE) == {}


@pytest.mark.parametrize("service", ["payments"])
async def test_control_without_the_planners_settings_a_claim_reads_the_outbox(dsn: str) -> None:
    await unset_planner(dsn)
    async with observed(dsn, "outbox") as observer, grown(dsn, observer, 10) as kept:
        await kept.meter("claim", kept.relay._claim(1))
        assert kept.meter.excess(MOST, MORE)["claim"]["outbox"] > MANY


@both
async def test_control_with_other_indexes_most_statements_read_the_outbox(dsn: str) -> None:
    async with observed(dsn, "outbox") as observer:
        await observer.execute(INDEXES)
        async with grown(dsn, observer, 40) as kept:
            await kept.run()
            assert kept.meter.excess(MOST, MORE).keys() >= {"list", "list, parked"}


async def park_first(observer: asyncpg.Connection) -> None:
    """All that was published was refused instead, and is of other aggregates than what waits."""
    await observer.execute(
        "UPDATE outbox SET published_time = NULL, parked_time = clock_timestamp(), aggregate_id = 'x' || message_id"
        " WHERE published_time IS NOT NULL"
    )


async def claim_behind_parked(dsn: str, observer: asyncpg.Connection) -> int:
    """What it reads to claim what waits behind many that are parked."""
    await fill(observer, MANY)
    await park_first(observer)
    await observer.execute("ANALYZE outbox")
    async with session(dsn) as pool:
        office = Office(pool, observer)
        assert await office.meter("claim", Relay(pool, SINK, Sink())._claim(64))
        return office.meter.read["claim"].total()


@both
async def test_what_is_parked_does_not_lie_in_the_way_of_a_claim(dsn: str) -> None:
    async with observed(dsn, "outbox") as observer:
        assert await claim_behind_parked(dsn, observer) <= MOST


@both
async def test_control_an_index_with_what_is_parked_is_read_through(dsn: str) -> None:
    async with observed(dsn, "outbox") as observer:
        await observer.execute(INDEXES)
        assert await claim_behind_parked(dsn, observer) > MANY // 2
