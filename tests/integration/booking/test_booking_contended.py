"""Somebody else's session is in the way for longer than all tries: the answer is CONTENDED, nothing is written, and the
same key succeeds afterwards. And deadlocks, which Postgres ends and which are run again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis import postgres
from chassis.errors import reason_of
from chassis.postgres import BY_INDEX_ONLY
from services.booking.store import shards as shard_store
from tests.integration.booking.booth import Booth, inventory, refused
from tests.integration.booking.schedules import guarded_or_not
from tests.support.databases import OWNER, at

WRITTEN = ("event", "seat", "hold", "orders", "order_seat", "outbox", "area_counter")
PATIENCE_SECONDS, LOOK_SECONDS = 15, 0.02
CONTENDED: tuple[grpc.StatusCode, str, dict[str, str]] = (
    grpc.StatusCode.ABORTED,
    "CONTENDED",
    {},
)  # the gateway makes 409 of ABORTED

SEAT = "SELECT FROM seat WHERE seat_id = 2 FOR UPDATE"
ACCOUNT = "SELECT pg_advisory_xact_lock(account_lock(7, 'ann'))"
RECORD = "SELECT FROM hold WHERE seats = '{2,3}' FOR UPDATE"
COUNTERS = "SELECT FROM area_counter FOR UPDATE"


OpenLimited = Callable[..., Awaitable[Booth]]


async def set_limits(dsn: str, **limits: str) -> None:
    """Of all sessions that are opened from now on."""
    connection = await asyncpg.connect(at(dsn, user="postgres"))  # deadlock_timeout is the superuser's
    for limit, value in limits.items():
        name = dsn.rpartition("/")[2]
        await connection.execute(f"ALTER ROLE {OWNER} IN DATABASE \"{name}\" SET {limit} = '{value}'")
    await connection.close()


@pytest.fixture
def open_limited(
    database: Callable[..., Awaitable[str]],
    open_replica: Callable[..., Awaitable[Booth]],
    monkeypatch: pytest.MonkeyPatch,
) -> OpenLimited:
    """`await open_limited(lock_timeout="50ms")`: booking with twenty seats and an area, and limits to its sessions.

    They are set before there are any: a pooler keeps its sessions, whatever booking does to its connections."""

    async def open_one(**limits: str) -> Booth:
        dsn = await database("booking")
        await set_limits(dsn, **limits)
        monkeypatch.setattr(shard_store, "BY_INDEX_ONLY", BY_INDEX_ONLY | limits)  # what booking looks for
        booth = await open_replica({"s1": dsn})
        floor = pb.InventoryArea(area_id=1, name="Floor", capacity=9, tier=1)
        await booth.internal.PutInventory(inventory(areas=[floor]))
        return booth

    return open_one


@pytest.fixture
async def booth(open_limited: OpenLimited) -> Booth:
    """Its sessions wait for a lock a twentieth of a second, not two."""
    return await open_limited(lock_timeout="50ms")


@asynccontextmanager
async def session(booth: Booth) -> AsyncIterator[asyncpg.Connection]:
    """Another's, which no deadlock and no idleness ends."""
    connection = await asyncpg.connect(at(booth.dsn, user="postgres"))
    await connection.execute("SET deadlock_timeout = '10min'; SET idle_in_transaction_session_timeout = 0")
    try:
        yield connection
    finally:
        await connection.close()


async def written(booth: Booth) -> dict[str, list[str]]:
    """All rows that a hold or an order could write."""
    return {
        table: [row[0] for row in await booth.execute(f"SELECT t::text FROM {table} t ORDER BY 1")] for table in WRITTEN
    }


async def is_contended(booth: Booth, lock: str, call: Callable[[], Awaitable[Any]]) -> Any:
    """Makes a call while another has a lock, and again after it; the second answer."""
    before = await written(booth)
    async with session(booth) as other, other.transaction():
        await other.execute(lock)
        for _ in range(2):  # the first leaves nothing behind that the second would meet
            assert await refused(call()) == CONTENDED
        assert await written(booth) == before
    answer = await call()
    assert await call() == answer
    assert await written(booth) != before
    assert await booth.broken() == {}
    return answer


@pytest.mark.parametrize("lock", [SEAT, ACCOUNT], ids=["seat", "account"])
async def test_hold_seats_is_contended(booth: Booth, lock: str) -> None:
    held = await is_contended(booth, lock, lambda: booth.hold("ann", 1, 2, key="k"))
    assert [seat.seat_id for seat in held.seats] == [1, 2]
    assert await booth.seats() == {"available": 18, "held": 2}


async def test_hold_seats_is_contended_by_who_has_the_record_of_an_expired_hold(booth: Booth) -> None:
    await booth.age((await booth.hold("old", 2, 3)).hold_id, 1)
    held = await is_contended(booth, RECORD, lambda: booth.hold("ann", 1, 2, key="k"))
    assert [seat.seat_id for seat in held.seats] == [1, 2]


@pytest.mark.parametrize("lock", [COUNTERS, ACCOUNT], ids=["counters", "account"])
async def test_hold_area_is_contended(booth: Booth, lock: str) -> None:
    held = await is_contended(booth, lock, lambda: booth.units("ann", 3, key="k"))
    assert held.area.quantity == 3
    assert await booth.areas() == {1: {"available": 6, "held": 3}}


@pytest.mark.parametrize("lock", [SEAT, ACCOUNT, RECORD], ids=["seat", "account", "record"])
async def test_create_order_is_contended(booth: Booth, lock: str) -> None:
    held = await booth.hold("ann", 2, 3)
    order_id = await is_contended(booth, lock, lambda: booth.order("ann", held.hold_id, key="k"))
    assert (await booth.get_order("ann", order_id)).state == pb.ORDER_STATE_PENDING_PAYMENT
    assert await booth.seats() == {"available": 18, "pending_payment": 2}
    await booth.workers.relays["s1"].run_once()
    assert len(booth.charges.asked) == 1


async def test_others_are_served_while_one_is_contended(booth: Booth) -> None:
    async with session(booth) as other, other.transaction():
        await other.execute(SEAT)
        calls = (booth.hold(f"fan-{seat}", seat, key="k") for seat in range(1, 9))
        answers = await asyncio.gather(*calls, return_exceptions=True)
    lost = {n: reason_of(answer) for n, answer in enumerate(answers, 1) if isinstance(answer, grpc.RpcError)}
    assert lost == {2: ("CONTENDED", {})}
    assert await booth.seats() == {"available": 13, "held": 7}


async def until(looker: asyncpg.Connection, wanted: str, *arguments: Any) -> None:
    """Until a query gives rows."""
    for _ in range(int(PATIENCE_SECONDS / LOOK_SECONDS)):
        if await looker.fetch(wanted, *arguments):
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"never: {wanted}")


async def deadlock(booth: Booth, call: Callable[[], Awaitable[Any]]) -> Any:
    """Makes a call for seats 1 and 2 of ann's meet another who takes seat 2 and then ann's lock; the call's outcome.

    The call is kept at seat 1 until the other waits for it, so that it is the one who closes the circle, and whom
    Postgres ends. Nothing else ends it: its own limits are far longer than the test waits."""
    waits = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with session(booth) as looker, session(booth) as first, session(booth) as second:
        keeper, crossing = first.transaction(), second.transaction()
        await keeper.start()
        await first.execute("SELECT FROM seat WHERE seat_id = 1 FOR UPDATE")
        await crossing.start()
        await second.execute(SEAT)
        ours = asyncio.ensure_future(call())
        await until(looker, waits)
        theirs = asyncio.create_task(second.execute(ACCOUNT))
        await until(looker, f"{waits} AND pid = $1", second.get_server_pid())
        await keeper.commit()
        await asyncio.wait_for(theirs, PATIENCE_SECONDS)  # the circle is broken, at our end
        await crossing.commit()
        return (await asyncio.gather(ours, return_exceptions=True))[0]


@guarded_or_not
@pytest.mark.parametrize("name", ["hold_seats", "create_order"])
async def test_the_loser_of_a_deadlock_is_run_again(
    open_limited: OpenLimited, name: str, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    booth = await open_limited(lock_timeout="50s", statement_timeout="50s", deadlock_timeout="50ms")
    if name == "create_order":
        hold_id = (await booth.hold("ann", 1, 2, key="h")).hold_id
        call: Callable[[], Awaitable[Any]] = lambda: booth.order("ann", hold_id, key="k")  # noqa: E731
    else:
        call = lambda: booth.hold("ann", 1, 2, key="k")  # noqa: E731
    if not guarded:
        monkeypatch.setattr(postgres, "MAX_TRIES", 1)
    before = await written(booth)

    outcome = await deadlock(booth, call)
    if guarded:
        assert not isinstance(outcome, BaseException)
        assert await call() == outcome
    else:
        assert await refused(raised(outcome)) == CONTENDED
        assert await written(booth) == before
    assert await booth.broken() == {}


async def raised(outcome: Any) -> Any:
    """An outcome as a call."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
