"""A failover that leads to another shard's database: nothing is asked of it under the wrong name."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from structlog.testing import capture_logs

from services.booking.store import shards
from tests.integration.booking.booth import EVENT, Booth, caller, inventory, refused
from tests.integration.booking.schedules import guarded_or_not
from tests.support.delay import DelayProxy

CONTENT = (
    "SELECT (SELECT count(*) FROM hold) + (SELECT count(*) FROM orders) AS records,"
    " (SELECT count(*) FROM seat WHERE state <> 'AVAILABLE') AS seats"
)
ALL_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)

OpenReplica = Callable[..., Awaitable[Booth]]


async def fail_over(dsn: str, line: DelayProxy, name: str) -> None:
    """The same address leads to a database of this name; whoever was connected is not any more."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE shard SET name = $1", name)
    await connection.execute(ALL_SESSIONS)
    await connection.close()
    line.cut()


def calls(booth: Booth, hold_id: str) -> list[Any]:
    """On every kind of connection: those kept for holds and for orders, and the pool."""
    order = pb.CreateOrderRequest(hold_id=hold_id, payment_token="pm")
    release = pb.ReleaseHoldRequest(hold_id=hold_id)
    return [
        booth.hold("bob", 3),
        booth.hold("bob", 4),
        booth.public.CreateOrder(order, metadata=caller("ann", key="o")),
        booth.public.ListOrders(pb.ListOrdersRequest(), metadata=caller("ann")),
        booth.public.ReleaseHold(release, metadata=caller("ann")),
        booth.best("cid", 2),
        booth.internal.PutInventory(inventory(version=2, seats=30)),
    ]


@guarded_or_not
async def test_a_failover_to_another_shard_is_refused_and_writes_nothing(
    database: Callable[..., Awaitable[str]],
    open_replica: OpenReplica,
    lines: tuple[DelayProxy, DelayProxy],
    monkeypatch: pytest.MonkeyPatch,
    guarded: bool,
) -> None:
    """The control compares names only when it starts."""
    dsn = await database("booking")
    if not guarded:
        monkeypatch.setattr(shards, "_check_name", unchecked)
    booth = await open_replica({"s1": lines[0].between(dsn)})
    await booth.internal.PutInventory(inventory())
    held = await booth.hold("ann", 1, 2)
    await booth.order("dan", (await booth.hold("dan", 9)).hold_id)  # every connection has been open
    await fail_over(dsn, lines[0], "s2")
    look = await asyncpg.connect(dsn)
    before = await look.fetchrow(CONTENT)
    if not guarded:
        assert (await booth.hold("bob", 3)).hold_id
        assert await look.fetchrow(CONTENT) != before
        await look.close()
        return
    with capture_logs() as logs:
        for call in calls(booth, held.hold_id):
            assert (await refused(call))[0] == grpc.StatusCode.UNAVAILABLE
    told = [entry for entry in logs if entry["log_level"] == "critical"]
    assert told
    assert "configured as shard s1 is shard s2" in told[-1]["error"]
    assert await look.fetchrow(CONTENT) == before
    await look.close()
    await fail_over(dsn, lines[0], "s1")  # and back: no process has to be started again
    assert (await booth.hold("bob", 3, event=EVENT)).hold_id
    assert (await booth.release("ann", held.hold_id)).state == pb.HOLD_STATE_RELEASED
    assert await booth.broken() == {}


async def unchecked(_name: str, _connection: asyncpg.Connection) -> None:
    """Takes any database."""
