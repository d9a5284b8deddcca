"""Callers that go away: nothing is cut in the middle, and nothing is left behind."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.booking.v1 import booking_pb2_grpc

from services.booking.expiry import sweep_holds
from services.booking.gather import Gatherer
from services.booking.store import shards
from tests.integration.booking.booth import EVENT, Booth, caller, inventory, refused, timestamp
from tests.integration.booking.crowd import GRACE
from tests.integration.booking.departed import (
    KINDS,
    SEATS,
    UNITS,
    Leavers,
    Writes,
    give_everything_back,
    leaky_acquire,
    until_idle,
    until_sessions_are_idle,
)
from tests.integration.booking.replicas import Replicas
from tests.integration.booking.rounds import broken_promises, closed_gate, gated, put_gate, until_they_wait
from tests.integration.booking.schedules import guarded_or_not
from tests.support.delay import DelayProxy
from tests.support.pooler import POOLED
from tests.support.servers import Servers

CALLS, AT_ONCE = (3_000 if POOLED else 10_000), 40
CHANNELS = 500  # of the calls go away with the channel they came by
FEW = 1_500  # calls are enough for a control
PATIENCE_SECONDS = 2  # of a caller who leaves when its call is well under way

OpenReplica = Callable[..., Awaitable[Booth]]


async def open_for_leavers(database: Callable[..., Awaitable[str]], open_replica: OpenReplica) -> Booth:
    """Seats and an area; holds end soon."""
    booth = await open_replica({"s1": await database("booking")}, confirm_grace_seconds=GRACE.total_seconds())
    areas = [pb.InventoryArea(area_id=1, name="Floor", capacity=UNITS, tier=1)]
    until = timestamp(datetime.now(UTC) + timedelta(days=1))
    request = inventory(seats=SEATS, areas=areas, resale=True, cancel_end_time=until)
    await booth.internal.PutInventory(request)
    await booth.execute("UPDATE event SET hold_duration = interval '1 s'")
    return booth


async def call_and_leave(booth: Booth, servers: Servers, calls: int, by_channel: int) -> Leavers:
    """So many calls; the last of them leave ten at a time, with their channel."""
    leavers = Leavers(booth, random.Random(3))
    address = servers.address_of(servers.running[-1][1])
    numbers = iter(range(calls - by_channel))

    async def leave_again_and_again() -> None:
        for number in numbers:
            await leavers.call_and_leave(booth.public, number)

    async def drop_a_channel(first: int) -> None:
        channel = grpc.aio.insecure_channel(address)
        stub = booking_pb2_grpc.BookingServiceStub(channel)
        calls = [asyncio.create_task(leavers.call_and_leave(stub, first + number)) for number in range(10)]
        await asyncio.sleep(leavers.dice.random() * 0.01)
        await channel.close(None)
        await asyncio.gather(*calls, return_exceptions=True)

    await asyncio.gather(*(leave_again_and_again() for _ in range(AT_ONCE)))
    for first in range(calls - by_channel, calls, 10):
        await drop_a_channel(first)
    return leavers


async def test_after_10000_callers_have_left_nothing_is_left(
    database: Callable[..., Awaitable[str]],
    open_replica: OpenReplica,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes = Writes(shielded=True)
    monkeypatch.setattr(shards, "finish", writes.finish)
    booth = await open_for_leavers(database, open_replica)
    leavers = await call_and_leave(booth, servers, CALLS, CHANNELS)
    assert set(leavers.answered) == set(KINDS)  # they had not all left before anything was done
    await until_idle(booth)
    await until_sessions_are_idle(booth)
    assert writes.begun > CALLS // 10
    assert writes.cut == 0
    assert await booth.broken() == {}
    assert await give_everything_back(booth) > 10
    await asyncio.sleep(1.5)
    assert await booth.seats() == {"available": SEATS}  # by the clock
    while await sweep_holds(booth.shards["s1"], grace=GRACE):
        pass
    assert not await booth.execute("SELECT FROM seat WHERE state <> 'AVAILABLE'")
    assert await booth.areas() == {1: {"available": UNITS}}
    assert await booth.broken() == {}
    assert (await asyncio.wait_for(booth.hold("late", 1, 2), 10)).hold_id


async def test_control_a_leak_is_seen(
    database: Callable[..., Awaitable[str]],
    open_replica: OpenReplica,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control of the above, for connections: those of cancelled calls do not come back."""
    monkeypatch.setattr(shards, "acquire", leaky_acquire)
    booth = await open_for_leavers(database, open_replica)
    await call_and_leave(booth, servers, FEW, 0)
    with pytest.raises(AssertionError, match="connections, 0 tasks left"):
        await until_idle(booth, seconds=2)


async def test_control_a_write_that_is_cut_is_seen(
    database: Callable[..., Awaitable[str]],
    open_replica: OpenReplica,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control for writes: without the shield they end with their callers."""
    writes = Writes(shielded=False)
    monkeypatch.setattr(shards, "finish", writes.finish)
    booth = await open_for_leavers(database, open_replica)
    await call_and_leave(booth, servers, FEW, 0)
    assert writes.cut > 0


async def ask_by_itself(gatherer: Any, request: Any) -> Any:
    """What `Gatherer.ask` must not be: the call is made in its caller's task, and cancelled with it."""
    (verdict,) = await gatherer.together([request])
    return verdict


@guarded_or_not
@pytest.mark.parametrize("wanted", ["hold", "order"])
async def test_a_commit_goes_on_without_its_caller(
    replicas: Replicas, wanted: str, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit waits, as when the standby is slow, until its caller has gone. In the control the call is the
    caller's own, and not the gatherer's: asyncpg then cancels the commit."""
    booth = replicas.a
    held = await booth.hold("ann", 1)
    if not guarded:
        monkeypatch.setattr(Gatherer, "ask", ask_by_itself)
    table = {"hold": "hold", "order": "orders"}[wanted]
    await booth.execute(
        f"CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {gated('RETURN NULL;')} END$$"
    )
    await booth.execute(
        f"CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION wait()"
    )

    def call(**options: Any) -> Any:
        if wanted == "hold":
            request = pb.HoldSeatsRequest(event_id=EVENT, seat_ids=[2, 3])
            return booth.public.HoldSeats(request, metadata=caller("bob", key="k"), **options)
        order = pb.CreateOrderRequest(hold_id=held.hold_id, payment_token="pm")
        return booth.public.CreateOrder(order, metadata=caller("ann", key="k"), **options)

    async with closed_gate(booth):
        left = asyncio.create_task(refused(call(timeout=PATIENCE_SECONDS)))
        await until_they_wait(booth)
        assert (await left)[0] == grpc.StatusCode.DEADLINE_EXCEEDED
        await (until_they_wait if guarded else until_sessions_are_idle)(booth)
        assert not await booth.execute(f"SELECT FROM {table} WHERE idempotency_key = 'k'")
    if not guarded:
        await until_sessions_are_idle(booth)
        assert not await booth.execute(f"SELECT FROM {table} WHERE idempotency_key = 'k'")
        return
    for _ in range(500):
        rows = await booth.execute(f"SELECT * FROM {table} WHERE idempotency_key = 'k'")
        if rows:
            break
        await asyncio.sleep(0.02)
    assert len(rows) == 1
    again = await call()
    assert await call() == again
    (row,) = await booth.execute(f"SELECT count(*) FROM {table} WHERE idempotency_key = 'k'")
    assert row["count"] == 1
    assert await broken_promises(replicas) == []


@guarded_or_not
async def test_a_release_goes_on_without_its_caller(
    replicas: Replicas, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control is without the shield: asyncpg then cancels what its caller no longer waits for."""
    booth = replicas.a
    if not guarded:
        monkeypatch.setattr(shards, "finish", Writes(shielded=False).finish)
    held = await booth.hold("ann", 1)
    await put_gate(replicas, "release_hold", "RETURN v_state;")
    request = pb.ReleaseHoldRequest(hold_id=held.hold_id)
    async with closed_gate(booth):
        left = asyncio.create_task(
            refused(booth.public.ReleaseHold(request, metadata=caller("ann"), timeout=PATIENCE_SECONDS))
        )
        await until_they_wait(booth)
        assert (await left)[0] == grpc.StatusCode.DEADLINE_EXCEEDED
        await (until_they_wait if guarded else until_sessions_are_idle)(booth)
    await until_sessions_are_idle(booth)
    state = (await booth.get_hold("ann", held.hold_id)).state
    assert state == (pb.HOLD_STATE_RELEASED if guarded else pb.HOLD_STATE_ACTIVE)


async def test_the_wait_for_a_connection_is_bounded(lines: tuple[DelayProxy, DelayProxy], replicas: Replicas) -> None:
    """The network stalls: whoever has a connection waits as long as it can, and those behind it are told before."""
    held = await replicas.a.hold("ann", 1)
    lines[0].stall()

    async def ask(number: int) -> grpc.StatusCode:
        if number % 2:
            wanted = pb.HoldSeatsRequest(event_id=EVENT, seat_ids=[2])
            known = caller(f"fan-{number}", key="k")
            code, *_ = await refused(replicas.a.public.HoldSeats(wanted, metadata=known, timeout=6))
        else:
            request = pb.GetHoldRequest(hold_id=held.hold_id)
            code, *_ = await refused(replicas.a.public.GetHold(request, metadata=caller("ann"), timeout=6))
        return code

    codes = Counter(await asyncio.gather(*map(ask, range(40))))
    assert codes[grpc.StatusCode.UNAVAILABLE] >= 10
    assert (await replicas.b.hold("bob", 5)).hold_id  # the other booking's network is well
    lines[0].resume()
    await until_idle(replicas.a)
    assert (await asyncio.wait_for(replicas.a.hold("cid", 7), 10)).hold_id
    assert await broken_promises(replicas) == []


async def test_a_network_that_breaks_means_unknown_and_is_found_out_by_the_key(
    lines: tuple[DelayProxy, DelayProxy], replicas: Replicas
) -> None:
    """Cut while the answers are under way: what was done stands, once, and the key finds it."""
    lines[0].delay_seconds = 0.2
    calls = [asyncio.create_task(replicas.a.hold(f"fan-{seat}", seat, key="k")) for seat in range(1, 11)]
    await asyncio.sleep(0.3)
    assert lines[0].cut()
    lines[0].delay_seconds = 0
    found = await asyncio.gather(*calls, return_exceptions=True)
    for answer in found:
        assert not isinstance(answer, grpc.aio.AioRpcError) or answer.code() == grpc.StatusCode.UNAVAILABLE
    again = [await replicas.a.hold(f"fan-{seat}", seat, key="k") for seat in range(1, 11)]
    assert len({answer.hold_id for answer in again}) == 10
    (row,) = await replicas.a.execute("SELECT count(*) FROM hold")
    assert row["count"] == 10
    assert await broken_promises(replicas) == []
