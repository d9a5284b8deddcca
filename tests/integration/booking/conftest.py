"""A running booking for each test."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from rowlock.booking.v1 import booking_pb2_grpc
from rowlock.invariant.v1.invariant_pb2_grpc import InvariantAdminServiceStub

from chassis.postgres import BY_INDEX_ONLY, STATEMENTS
from services.booking.areas import Areas
from services.booking.best_seats import MOST_SPREAD, BestSeats
from services.booking.holds import Holds
from services.booking.inventory import Inventories
from services.booking.orders import Orders
from services.booking.sales import Sales
from services.booking.server import add_servicers
from services.booking.settings import Settings
from services.booking.store import shards as shard_store
from services.booking.store.shards import open_shards
from services.booking.tickets import Tickets
from services.booking.workers import Workers
from tests.integration.booking.booth import Booth, Charges, inventory
from tests.integration.booking.replicas import PATIENCE, Replicas, open_replicas
from tests.support.delay import DelayProxy, delay_proxy
from tests.support.pooler import POOLED, Pooler
from tests.support.servers import Servers


@pytest.fixture
async def lines(pooled: Pooler) -> AsyncIterator[tuple[DelayProxy, DelayProxy]]:
    """Two networks to the database server, fast until a test makes them slow; they outlive what is opened over them."""
    server = f"postgresql://{pooled.address}"
    async with delay_proxy(server) as first, delay_proxy(server) as second:
        yield first, second


@pytest.fixture
async def open_replica(servers: Servers, pooled: Pooler) -> AsyncIterator[Callable[..., Awaitable[Booth]]]:
    """`await open_replica({"s1": dsn})`: one more booking, with pools of its own, over databases that are there."""
    booths: list[tuple[Booth, Holds]] = []

    async def open_one(dsns: Mapping[str, str], *, spread: int = MOST_SPREAD, **changes: Any) -> Booth:
        ways = {name: pooled.between(dsn) for name, dsn in dsns.items()}
        statements = 0 if POOLED else STATEMENTS
        shards, sales, charges = await open_shards(ways, pool_size=10, statements=statements), Sales(), Charges()
        values: dict[str, Any] = {"shards": ",".join(f"{n}={d}" for n, d in dsns.items()), "payments_target": "x:1"}
        settings = Settings(**values | changes)
        workers = Workers(shards=shards, sales=sales, payments=charges, waitingroom=None, settings=settings)  # type: ignore[arg-type]
        grace = timedelta(seconds=settings.confirm_grace_seconds)
        holds = Holds(shards=shards, sales=sales, grace=grace)
        areas = Areas(shards=shards, sales=sales, grace=grace)
        orders = Orders(
            shards=shards, sales=sales, grace=grace, created=workers.order_created, confirmed=workers.order_confirmed
        )
        channel = await servers.start_service(
            partial(
                add_servicers,
                shards=shards,
                holds=holds,
                best=BestSeats(holds=holds, spread=spread),
                areas=areas,
                orders=orders,
                tickets=Tickets(shards=shards, orders=orders),
                inventories=Inventories(shards=shards),
            )
        )
        booth = Booth(
            booking_pb2_grpc.BookingServiceStub(channel),
            booking_pb2_grpc.BookingInternalServiceStub(channel),
            booking_pb2_grpc.BookingAdminServiceStub(channel),
            InvariantAdminServiceStub(channel),
            shards,
            workers,
            charges,
            next(iter(dsns.values())),
        )
        booths.append((booth, holds))
        return booth

    yield open_one
    for booth, holds in booths:
        await holds.close()
        await booth.shards.close()


@pytest.fixture
def open_booth(
    database: Callable[..., Awaitable[str]], open_replica: Callable[..., Awaitable[Booth]]
) -> Callable[..., Awaitable[Booth]]:
    """`await open_booth("s1")`: booking over fresh databases, one for each shard, without any event."""

    async def open_one(*names: str) -> Booth:
        return await open_replica({name: await database("booking", shard=name) for name in names})

    return open_one


@pytest.fixture
async def booth(open_booth: Callable[..., Awaitable[Booth]]) -> Booth:
    """One shard, and an event of 20 seats on sale."""
    booth = await open_booth("s1")
    await booth.internal.PutInventory(inventory())
    return booth


@pytest.fixture
async def replicas(
    database: Callable[..., Awaitable[str]],
    lines: tuple[DelayProxy, DelayProxy],
    open_replica: Callable[[Mapping[str, str]], Awaitable[Booth]],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Replicas]:
    """Two bookings, slow networks, twenty seats; and sessions that wait as long as a slow machine needs."""
    monkeypatch.setattr(shard_store, "BY_INDEX_ONLY", BY_INDEX_ONLY | PATIENCE)
    opened = await open_replicas(open_replica, await database("booking"), lines)
    yield opened
    for line in lines:
        line.delay_seconds = 0
