"""A database with an outbox."""

from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest


@pytest.fixture
async def pool(database: Callable[..., Awaitable[str]]) -> AsyncIterator[asyncpg.Pool]:
    made = await asyncpg.create_pool(await database("payments"), min_size=1, max_size=8)
    yield made
    await made.close()
