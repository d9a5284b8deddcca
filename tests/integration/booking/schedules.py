"""Schedules of a few sessions, and what the guards of booking's functions read like, so that a control can take one
out of a function's text."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from chassis.ids import parse_id
from services.booking.store.holds import queries as hold_queries
from services.booking.store.orders import queries as order_queries
from tests.integration.booking.booth import Booth
from tests.integration.booking.replicas import PATIENCE, change

EVENT = 7
GRACE = timedelta(seconds=5)
LONG_GRACE = timedelta(minutes=1)  # of a schedule in the middle of which it must not end

# Of `hold_seats`: a seat's state; the account's lock, which a call of many only tries; the locks of seats, of a call
# that waits and of one that passes by; of the records of holds taken over; where it writes, and counts what it wrote.
FREE = "z.state = 'AVAILABLE' OR z.state = 'HELD' AND z.hold_expires_at <= clock_timestamp() AS free"
HOLD_LOCK = "PERFORM pg_advisory_xact_lock(account_lock(p_event[i], p_account[i]));"
TRY_LOCK = "NOT pg_try_advisory_xact_lock(account_lock(p_event[i], p_account[i]))"
WAITING_LOCK = "ORDER BY s.event_id, s.seat_id FOR NO KEY UPDATE OF s) z) q;"
PASSING_LOCK = "ORDER BY s.event_id, s.seat_id FOR NO KEY UPDATE OF s SKIP LOCKED) z) q;"
RECORD_LOCK = " FOR NO KEY UPDATE SKIP LOCKED) q;"
WRITE = "UPDATE seat s SET state = 'HELD'"
WROTE_ALL = (
    "IF v_written <> v_wanted THEN RAISE EXCEPTION 'hold_seats wrote % of % seats', v_written, v_wanted; END IF;"
)

# Of `create_order` and `create_orders`: the account's lock, the hold's id on each seat, the hold's state.
ORDER_LOCK = "PERFORM pg_advisory_xact_lock(account_lock(h.event_id, p_account));"
TRY_ORDER_LOCK = "CONTINUE WHEN NOT pg_try_advisory_xact_lock(account_lock(r.event_id, p_account[r.place]));"
FENCE = "AND s.state = 'HELD' AND s.hold_id = p_hold"
ACTIVE = "AND state = 'ACTIVE'"

guarded_or_not = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])


async def take_out(booth: Booth, function: str, *guards: str, instead: str = "") -> None:
    """Replaces a function by itself without its guards, each of which must be there."""
    await change(booth, function, dict.fromkeys(guards, instead))


@asynccontextmanager
async def connections(booth: Booth, count: int) -> AsyncIterator[list[asyncpg.Connection]]:
    """Sessions of one's own, for schedules; on a slow machine a step takes its time."""
    async with AsyncExitStack() as stack:
        opened = [await asyncpg.connect(booth.dsn, server_settings=PATIENCE) for _ in range(count)]
        for connection in opened:
            stack.push_async_callback(connection.close)
        yield opened


def hold(
    connection: asyncpg.Connection, account: str, key: str, *seats: int, grace: timedelta = GRACE
) -> Coroutine[Any, Any, Any]:
    """`hold_seats` for one request, in whatever transaction the connection is in."""
    return hold_queries.hold_seats(
        connection,
        wait=True,
        grace=grace,
        accounts=[account],
        events=[EVENT],
        keys=[key],
        fingerprints=[repr(seats).encode()],
        ends=[len(seats)],
        seat_requests=[1] * len(seats),
        seat_events=[EVENT] * len(seats),
        seats=list(seats),
        plans=[0],
    )


def order(
    connection: asyncpg.Connection, account: str, hold_number: UUID, *, grace: timedelta = GRACE
) -> Coroutine[Any, Any, Any]:
    """`create_order`, in whatever transaction the connection is in."""
    return order_queries.create_order(
        connection,
        account=account,
        hold=hold_number,
        key=str(hold_number),
        fingerprint=b"",
        email="",
        payment_token="pm",
        grace=grace,
    )


def number_of(hold_id: str) -> UUID:
    """As the database knows it."""
    found = parse_id("hld", hold_id)
    assert found
    return UUID(int=found[1])


async def until_it_waits(task: "asyncio.Task[Any]", connection: asyncpg.Connection, booth: Booth) -> None:
    """Until the task has ended, or its session waits for a lock."""
    sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'"
    for _ in range(1000):
        if task.done() or await booth.execute(sql, connection.get_server_pid()):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it neither ended nor waits")
