"""Runs the queries of invariants.sql."""

import inspect
from pathlib import Path
from typing import Any

import asyncpg

from chassis.postgres import acquire
from chassis.queries import load_queries, query_names
from services.payments.rows import Finding

FILE = Path(__file__).parents[1] / "invariants.sql"
NAMES = query_names(FILE)

queries = load_queries(FILE)


class Invariants:
    """Each query answers `violations` and `examples`; its comment is the description."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool

    async def check(self) -> list[Finding]:
        """In the order of the file."""
        async with acquire(self.pool, "payments") as connection:
            return [await check_one(connection, name) for name in NAMES]


async def check_one(connection: asyncpg.Connection, name: str) -> Finding:
    query: Any = getattr(queries, name)
    row = await query(connection)
    return Finding(name, inspect.cleandoc(query.__doc__ or ""), row["violations"], row["examples"] or [])
