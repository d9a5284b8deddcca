"""A session keeps the plan that it made while a table was small. However the tables grow under it, and whatever the
statistics say, a call reads as little as before."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import asyncpg
import pytest

from services.booking.store import shards
from services.booking.store.shards import open_shards
from tests.integration.booking.booth import Booth
from tests.integration.booking.replicas import change
from tests.integration.booking.season import ALONE, FORGET, GROW, HOLDS, PLANNINGS, SEATS, Day, Meter, little
from tests.support.databases import at

MOST = 2_000  # rows and entries of indexes that a call reads, of all tables together
# Some are for all seats of an event, or for its orders: so much of its own, and nothing of other events'.
MORE = {"get_states": 2 * SEATS, "get_placed_seats": 5 * SEATS, "get_offer": 3 * SEATS, "list_event_orders": 4 * HOLDS}
MORE |= {"count_areas": 4 * HOLDS}

# The planner's settings as they are without us, for the role and in each function.
UNSET = """
DO $$
DECLARE
  f regprocedure;
  v_setting text;
BEGIN
  FOREACH v_setting IN ARRAY ARRAY['seqscan', 'hashjoin', 'mergejoin', 'material', 'bitmapscan'] LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET enable_%s', current_user, current_database(), v_setting);
  END LOOP;
  FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proconfig IS NOT NULL LOOP
    EXECUTE format('ALTER FUNCTION %s RESET ALL', f);
  END LOOP;
END $$
"""

# What create_orders once was: the planner hashed every order there was for each call, with no sequential scan.
KNOWN = {
    """     CROSS JOIN LATERAL (
       SELECT FROM orders o WHERE o.hold_id = q.hold_id
        UNION ALL
       SELECT FROM orders o
        WHERE o.event_id = q.event_id AND o.account = q.account AND o.idempotency_key = q.key) known
""": """     WHERE EXISTS (SELECT FROM orders o WHERE o.hold_id = q.hold_id)
        OR EXISTS (SELECT FROM orders o
                    WHERE o.event_id = q.event_id AND o.account = q.account AND o.idempotency_key = q.key)
"""
}


@pytest.fixture
async def booth(database: Callable[..., Awaitable[str]], open_replica: Callable[..., Awaitable[Booth]]) -> Booth:
    """An event of forty seats and two areas; of tables that nobody else looks at."""
    booth = await open_replica({"s1": await database("booking")})
    await booth.internal.PutInventory(little())
    await booth.execute(ALONE)
    return booth


@asynccontextmanager
async def sessions(booth: Booth) -> AsyncIterator[Day]:
    """New ones, as a booking that starts has them."""
    opened = await open_shards({"s1": booth.dsn}, pool_size=2)
    observer = await asyncpg.connect(at(booth.dsn, user="postgres"))
    await set_patience(observer, "60s")
    await opened["s1"].pool.expire_connections()
    try:
        yield Day(opened["s1"], Meter(observer, opened["s1"]))
    finally:
        await set_patience(observer, "5s")
        await observer.close()
        await opened.close()


async def set_patience(observer: asyncpg.Connection, longest: str) -> None:
    """Of sessions to come: what reads too much is to end all the same, on any machine."""
    database = await observer.fetchval("SELECT current_database()")
    await observer.execute(f"ALTER ROLE app IN DATABASE \"{database}\" SET statement_timeout = '{longest}'")


async def plan_while_small(day: Day) -> None:
    """The statistics are of one day; every plan that can be kept is made after them."""
    await day.run()
    await day.observer_executes("ANALYZE")
    for _ in range(PLANNINGS):
        await day.observer_executes(FORGET)
        await day.run()
    await day.observer_executes(FORGET)


def excess(read: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    """Calls that read too much, and where."""
    return {name: +counts for name, counts in read.items() if counts.total() > MORE.get(name, MOST)}


async def read_after_growth(day: Day) -> dict[str, Counter[str]]:
    """By call, on the very sessions that planned before."""
    await plan_while_small(day)
    planned = await day.meter.flush()
    await day.observer_executes(GROW)
    await day.run()
    assert await day.meter.flush() == planned
    return day.meter.read


async def test_calls_read_no_more_when_the_tables_have_grown(booth: Booth) -> None:
    async with sessions(booth) as kept:
        assert excess(await read_after_growth(kept)) == {}
        await kept.observer_executes(FORGET)
    async with sessions(booth) as new:  # the statistics are still of next to nothing
        await new.run()
        assert excess(new.meter.read) == {}


async def test_without_the_planners_settings_most_calls_read_too_much(
    booth: Booth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control; and booking does not start without them."""
    await booth.execute(UNSET)
    with pytest.raises(RuntimeError, match="enable_seqscan is 'on'"):
        await open_shards({"s1": booth.dsn}, pool_size=2)
    monkeypatch.setattr(shards, "BY_INDEX_ONLY", {})
    async with sessions(booth) as kept:
        read = await read_after_growth(kept)
        assert len(excess(read)) > len(read) // 2  # which, depends on when the statistics were last renewed


async def test_a_call_off_its_index_reads_too_much(booth: Booth) -> None:
    """The control; also of a table that is read through an index, but all of it."""
    for index in ("hold_is_unique_by_key", "orders_pending"):
        await booth.execute(f"DROP INDEX {index}")
    await change(booth, "create_orders", KNOWN)
    await booth.execute("ALTER FUNCTION create_orders SET enable_indexonlyscan = on")
    async with sessions(booth) as kept:
        found = excess(await read_after_growth(kept))
        assert found.keys() >= {"hold_seats", "claim_overdue_orders", "create_orders"}
        assert not found["create_orders"]["orders"]
