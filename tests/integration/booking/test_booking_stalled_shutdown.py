"""The whole service is told to end while its network to the database stands still: nothing comes through, and nothing
is refused."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.ending import CUT_SHORT
from chassis.ids import parse_id
from tests.integration.booking.booth import EVENT, Booth, caller, inventory
from tests.integration.booking.process import ACTIVE, AS_IT_IS, Service, running, until
from tests.integration.booking.schedules import guarded_or_not
from tests.support.delay import delay_proxy

SECONDS = 20
SEATS = 2000
BUYERS = 16
DRAIN_SECONDS, CLOSE_SECONDS = 1, 1
BOUND_OFF = "server.end_within = lambda *_: None"
LATE_SECONDS = 2 * (DRAIN_SECONDS + CLOSE_SECONDS)

OpenReplica = Callable[..., Awaitable[Booth]]


class Buyer:
    """Holds and orders for ever, and looks at what it has; what it was promised."""

    def __init__(self, service: Service, number: int) -> None:
        self.service, self.name, self.chance = service, f"buyer{number}", random.Random(number)
        self.holds: list[str] = []
        self.orders: list[str] = []

    async def buy(self) -> None:
        """Until the service is gone."""
        while True:
            with suppress(grpc.aio.AioRpcError):
                await self._buy_once(f"{self.name}-{self.chance.random()}")
            await asyncio.sleep(0.01)

    async def _buy_once(self, key: str) -> None:
        stub, seats = self.service.stub, self.chance.sample(range(1, SEATS + 1), 2)
        asked = pb.HoldSeatsRequest(event_id=EVENT, seat_ids=seats)
        held = await stub.HoldSeats(asked, metadata=caller(self.name, key=f"hold-{key}"))
        self.holds.append(held.hold_id)
        order = pb.CreateOrderRequest(hold_id=held.hold_id, payment_token="pm")
        ordered = await stub.CreateOrder(order, metadata=caller(self.name, key=f"order-{key}"))
        self.orders.append(ordered.order_id)
        await stub.ListOrders(pb.ListOrdersRequest(), metadata=caller(self.name))


@asynccontextmanager
async def crowd(service: Service) -> AsyncIterator[list[Buyer]]:
    """Buyers, each of whom has bought something; they leave at the end."""
    buyers = [Buyer(service, number) for number in range(BUYERS)]
    tasks = [asyncio.create_task(buyer.buy()) for buyer in buyers]
    try:
        await until_true(lambda: all(buyer.orders for buyer in buyers))
        yield buyers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_true(condition: Callable[[], bool]) -> None:
    """It must come true."""
    for _ in range(50 * SECONDS):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came true")


async def kept(booth: Booth, buyers: list[Buyer]) -> bool:
    """Whether everything that a buyer was told is so."""
    for prefix, table, column, ids in (
        ("hld", "hold", "hold_id", [hold_id for buyer in buyers for hold_id in buyer.holds]),
        ("ord", "orders", "order_id", [order_id for buyer in buyers for order_id in buyer.orders]),
    ):
        numbers = [UUID(int=found[1]) for each in ids if (found := parse_id(prefix, each))]
        (row,) = await booth.execute(f"SELECT count(*) FROM {table} WHERE {column} = ANY($1::uuid[])", numbers)
        if row["count"] != len(ids):
            return False
    return await booth.broken() == {}


@guarded_or_not
async def test_under_load_it_ends_within_its_time_while_the_network_stands_still(
    database: Callable[..., Awaitable[str]], open_replica: OpenReplica, guarded: bool
) -> None:
    """The control has no bound, and waits for the network."""
    dsn = await database("booking")
    booth = await open_replica({"s1": dsn})
    await booth.internal.PutInventory(inventory(seats=SEATS, tickets_per_account=1000))
    change = AS_IT_IS if guarded else BOUND_OFF
    async with (
        delay_proxy(dsn, 0.005) as line,
        running(line.between(dsn), change, drain_seconds=DRAIN_SECONDS, close_seconds=CLOSE_SECONDS) as service,
        crowd(service) as buyers,
    ):
        line.stall()
        await until_true(lambda: b"-buyer" in line.caught)  # a key: holds or orders
        service.process.send_signal(signal.SIGTERM)
        await service.said("draining")
        if guarded:
            said = await service.said("did not end in time")
            assert said["seconds"] == DRAIN_SECONDS + CLOSE_SECONDS
            assert await service.ended() == CUT_SHORT
            line.resume()
        else:
            await asyncio.sleep(LATE_SECONDS)
            assert service.process.returncode is None
            line.resume()
            assert await service.ended() == 0
        await until(booth, ACTIVE, 0)
        assert await kept(booth, buyers)


@pytest.mark.parametrize("in_time", [True, False], ids=["in time", "too late"])
async def test_what_was_on_its_way_is_committed_when_the_network_goes_on(
    database: Callable[..., Awaitable[str]], open_replica: OpenReplica, in_time: bool
) -> None:
    """Also after the process has ended: its connections closed, and nothing was cancelled."""
    dsn = await database("booking")
    booth = await open_replica({"s1": dsn})
    await booth.internal.PutInventory(inventory())
    async with delay_proxy(dsn) as line:
        async with running(line.between(dsn), close_seconds=60 if in_time else 1) as service:
            await hold(service, 1, "first")
            line.stall()
            asked = asyncio.ensure_future(hold(service, 2, "caught"))
            await until_true(lambda: b"caught" in line.caught)
            service.process.send_signal(signal.SIGTERM)
            await service.said("draining")
            if in_time:
                await asyncio.sleep(0.3)
                assert service.process.returncode is None
                line.resume()
            assert await service.ended() == (0 if in_time else CUT_SHORT)
        line.resume()
        await asyncio.gather(asked, return_exceptions=True)
        await until(booth, "SELECT count(*) FROM hold WHERE idempotency_key = 'caught'", 1)
    assert await booth.broken() == {}


async def hold(service: Service, seat: int, key: str) -> Any:
    """By anybody."""
    request = pb.HoldSeatsRequest(event_id=EVENT, seat_ids=[seat])
    return await service.stub.HoldSeats(request, metadata=caller("ann", key=key))
