"""Payments with everything around it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from services.payments.processor import StripeProcessor
from services.payments.store.attempts import Attempts
from tests.integration.payments.desk import Desk
from tests.integration.processor.sandbox_process import API_KEY, Line, Sandbox


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    running = Sandbox(tmp_path)
    await running.start()
    yield running
    running.stop()


@pytest.fixture
async def line(sandbox: Sandbox) -> AsyncIterator[Line]:
    opened = Line(sandbox.url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def pool(database: Callable[..., Awaitable[str]]) -> AsyncIterator[asyncpg.Pool]:
    opened = await asyncpg.create_pool(await database("payments"), min_size=1, max_size=10)
    yield opened
    await opened.close()


@pytest.fixture
async def desk(pool: asyncpg.Pool, line: Line) -> AsyncIterator[Desk]:
    processor = StripeProcessor(url=line.url, api_key=API_KEY, timeout_seconds=4)
    yield Desk(pool, Attempts(pool, ambiguity_seconds=600, claim_seconds=30), processor)
    await processor.close()
