"""The promises' checks."""

from pathlib import Path
from typing import Any

from chassis.ids import format_id
from chassis.queries import load_queries, query_names
from services.booking.rows import Finding
from services.booking.store.shards import Shard

MOST_EXAMPLES = 10
PREFIXES = {"hold_id": "hld", "message_id": "msg", "order_id": "ord", "ticket_id": "tkt"}

FILE = Path(__file__).parents[1] / "invariants.sql"
NAMES = query_names(FILE)

queries = load_queries(FILE)


async def check_invariants(shard: Shard) -> list[Finding]:
    """Every query of invariants.sql on one shard, in the order of the file."""

    async def check(connection: Any) -> list[Finding]:
        return [await _check(connection, shard, name) for name in NAMES]

    return await shard.read(check)


async def _check(connection: Any, shard: Shard, name: str) -> Finding:
    query = getattr(queries, name)
    async with connection.transaction(readonly=True):
        await connection.execute("SET LOCAL statement_timeout = '60s'")  # these read whole tables
        rows = await connection.fetch(query.sql)
    examples = tuple(_describe(shard, row) for row in rows[:MOST_EXAMPLES])
    return Finding(name, " ".join(query.__doc__.split()), len(rows), examples)


def _describe(shard: Shard, row: Any) -> str:
    return " ".join(_name(shard, column, value) for column, value in row.items())


def _name(shard: Shard, column: str, value: Any) -> str:
    if column == "event_id":
        return format_id("evt", shard.name, value)
    if column in PREFIXES:
        return shard.id_of(PREFIXES[column], value)
    return f"{column.removesuffix('_id')} {value}"
