"""The promises of invariants.sql, checked."""

from pathlib import Path

import asyncpg

from chassis.postgres import acquire
from chassis.queries import load_queries
from services.catalog.rows import Invariant

QUERIES = load_queries(Path(__file__).parents[1] / "invariants.sql")


class InvariantStore:
    """Each statement of invariants.sql answers `violations` and at most ten `examples`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool

    async def check_invariants(self) -> list[Invariant]:
        """In the order of the file."""
        found = []
        for name in QUERIES.available_queries:
            query = getattr(QUERIES, name)
            async with acquire(self.pool, "catalog") as connection:
                row = await query(connection)
            found.append(Invariant(name, query.__doc__.strip(), row["violations"], tuple(row["examples"] or ())))
        return found
