"""A running booking for each test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.booking.v1 import booking_pb2_grpc

from services.booking.holds import Holds
from services.booking.inventory import Inventories
from services.booking.orders import Orders
from services.booking.sales import Sales
from services.booking.server import BookingAdminServicer, BookingInternalServicer, BookingServicer
from services.booking.settings import Settings
from services.booking.store.shards import open_shards
from services.booking.tickets import Tickets
from services.booking.workers import Workers
from tests.integration.booking.booth import Booth, Charges, inventory
from tests.support.servers import Servers


@pytest.fixture
async def open_booth(
    database: Callable[..., Awaitable[str]], servers: Servers
) -> AsyncIterator[Callable[..., Awaitable[Booth]]]:
    """`await open_booth("s1")`: booking over fresh databases, one for each shard, without any event."""
    booths: list[Booth] = []

    async def open_one(*names: str) -> Booth:
        dsns = {name: await database("booking", shard=name) for name in names}
        shards, sales, charges = await open_shards(dsns, pool_size=10), Sales(), Charges()
        values: dict[str, Any] = {"shards": ",".join(f"{n}={d}" for n, d in dsns.items()), "payments_target": "x:1"}
        settings = Settings(**values)
        workers = Workers(shards=shards, sales=sales, payments=charges, waitingroom=None, settings=settings)  # type: ignore[arg-type]
        grace = timedelta(seconds=settings.confirm_grace_seconds)
        holds = Holds(shards=shards, sales=sales, grace=grace)
        orders = Orders(
            shards=shards, sales=sales, grace=grace, created=workers.order_created, confirmed=workers.order_confirmed
        )
        inventories = Inventories(shards=shards)
        channel = await servers.start(
            *_additions(
                BookingServicer(holds=holds, orders=orders, tickets=Tickets(shards=shards, orders=orders)),
                BookingInternalServicer(inventories=inventories, orders=orders),
                BookingAdminServicer(shards=shards, inventories=inventories, orders=orders),
            )
        )
        booth = Booth(
            booking_pb2_grpc.BookingServiceStub(channel),
            booking_pb2_grpc.BookingInternalServiceStub(channel),
            booking_pb2_grpc.BookingAdminServiceStub(channel),
            shards,
            workers,
            charges,
            dsns[names[0]],
        )
        booths.append(booth)
        return booth

    yield open_one
    for booth in booths:
        await booth.shards.close()


@pytest.fixture
async def booth(open_booth: Callable[..., Awaitable[Booth]]) -> Booth:
    """One shard, and an event of 20 seats on sale."""
    booth = await open_booth("s1")
    await booth.internal.PutInventory(inventory())
    return booth


def _additions(*servicers: Any) -> list[tuple[Any, Any, Any]]:
    services = pb.DESCRIPTOR.services_by_name
    names = ("BookingService", "BookingInternalService", "BookingAdminService")
    return [
        (services[name], getattr(booking_pb2_grpc, f"add_{name}Servicer_to_server"), servicer)
        for name, servicer in zip(names, servicers, strict=True)
    ]
