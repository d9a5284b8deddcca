"""The promises of invariants.sql, checked."""

from pathlib import Path

import asyncpg

from chassis.invariants import Invariant, InvariantQueries
from chassis.postgres import acquire

QUERIES = InvariantQueries(Path(__file__).parents[1] / "invariants.sql")


async def check_invariants(pool: asyncpg.Pool) -> list[Invariant]:
    """In the order of the file."""
    async with acquire(pool, "catalog") as connection:
        return await QUERIES.check(connection)
