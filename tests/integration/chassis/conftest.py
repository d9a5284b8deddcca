"""A database with an outbox."""

from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from chassis.postgres import STATEMENTS
from tests.support.pooler import POOLED, Pooler


@pytest.fixture
async def pool(database: Callable[..., Awaitable[str]], pooled: Pooler) -> AsyncIterator[asyncpg.Pool]:
    dsn = pooled.between(await database("payments"))
    made = await asyncpg.create_pool(dsn, min_size=1, max_size=8, statement_cache_size=0 if POOLED else STATEMENTS)
    yield made
    await made.close()
