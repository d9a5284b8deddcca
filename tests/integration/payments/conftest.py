"""Payments with everything around it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
from rowlock.booking.v1 import booking_pb2_grpc

from chassis.postgres import BY_INDEX_ONLY, STATEMENTS, open_pool
from services.payments.processor import StripeProcessor
from services.payments.store.attempts import Attempts
from tests.integration.payments.desk import BOOKING, Booking, Desk
from tests.integration.payments.process import Payments
from tests.integration.processor.sandbox_process import API_KEY, Line
from tests.support.pooler import POOLED, Pooler
from tests.support.servers import Servers


@pytest.fixture
async def pool(database: Callable[..., Awaitable[str]], pooled: Pooler) -> AsyncIterator[asyncpg.Pool]:
    dsn = pooled.between(await database("payments"))
    opened = await open_pool(dsn, name="payments", statements=0 if POOLED else STATEMENTS, expect=BY_INDEX_ONLY)
    yield opened
    await opened.close()


@pytest.fixture
async def desk(pool: asyncpg.Pool, line: Line) -> AsyncIterator[Desk]:
    processor = StripeProcessor(url=line.url, api_key=API_KEY, timeout_seconds=4)
    yield Desk(pool, Attempts(pool, ambiguity_seconds=600, claim_seconds=30), processor)
    await processor.close()


@pytest.fixture
async def booking() -> Booking:
    return Booking()


@pytest.fixture
async def payments(
    database: Callable[..., Awaitable[str]],
    pooled: Pooler,
    line: Line,
    servers: Servers,
    booking: Booking,
    tmp_path: Path,
) -> AsyncIterator[Payments]:
    """A process of its own."""
    channel = await servers.start((BOOKING, booking_pb2_grpc.add_BookingInternalServiceServicer_to_server, booking))
    running = Payments(await database("payments"), line.url, servers.address_of(channel), tmp_path / "payments.log")
    running.environment["ROWLOCK_PAYMENTS_DATABASE_URL"] = pooled.between(running.dsn)
    if POOLED:
        running.environment["ROWLOCK_PAYMENTS_STATEMENT_CACHE_SIZE"] = "0"
    running.start()
    yield running
    await running.kill()
