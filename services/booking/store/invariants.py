"""The promises' checks."""

from pathlib import Path
from typing import Any

import asyncpg

from chassis.errors import Unavailable
from chassis.ids import format_id
from chassis.invariants import MOST_EXAMPLES, WHOLE_TABLES, describe_failure
from chassis.queries import load_queries, query_names
from services.booking.rows import Finding
from services.booking.store.shards import Shard

PREFIXES = {"hold_id": "hld", "message_id": "msg", "order_id": "ord", "ticket_id": "tkt"}

FILE = Path(__file__).parents[1] / "invariants.sql"
NAMES = query_names(FILE)

# All rows are counted where they are; a few come here.
COUNTED = "SELECT count(*) OVER () AS violations, broken.* FROM ({}) broken LIMIT $1"

queries = load_queries(FILE)


async def check_invariants(shard: Shard) -> list[Finding]:
    """Every query of invariants.sql on one shard, in the order of the file; also those that fail, and why."""
    findings: list[Finding] = []
    try:
        for name in NAMES:
            findings.append(await check_invariant(shard, name))
    except (Unavailable, asyncpg.PostgresError) as error:
        # There is no connection. The others would wait for one too, each by itself.
        findings += [_failed(shard, name, error) for name in NAMES[len(findings) :]]
    return findings


async def check_invariant(shard: Shard, name: str) -> Finding:
    """One query, whose failure is a finding too. Raises what `shard.read` does when there is no connection."""

    async def check(connection: Any) -> Finding:
        try:
            return await _check(connection, shard, name)
        except asyncpg.PostgresError as error:
            if connection.is_closed():
                raise
            return _failed(shard, name, error)

    return await shard.read(check)


async def _check(connection: Any, shard: Shard, name: str) -> Finding:
    query = getattr(queries, name)
    async with connection.transaction(readonly=True):
        await connection.execute(WHOLE_TABLES)
        rows = await connection.fetch(COUNTED.format(query.sql.rstrip("; \n")), MOST_EXAMPLES)
    examples = tuple(_describe(shard, row) for row in rows)
    return Finding(shard.name, name, description(name), rows[0]["violations"] if rows else 0, examples)


def _failed(shard: Shard, name: str, error: Exception) -> Finding:
    failure = describe_failure(error)
    return Finding(shard.name, name, description(name), failure=failure)


def description(name: str) -> str:
    """What a row of the query means."""
    return " ".join(getattr(queries, name).__doc__.split())


def _describe(shard: Shard, row: Any) -> str:
    return " ".join(_name(shard, column, value) for column, value in row.items() if column != "violations")


def _name(shard: Shard, column: str, value: Any) -> str:
    if column == "event_id":
        return format_id("evt", shard.name, value)
    if column in PREFIXES:
        return shard.id_of(PREFIXES[column], value)
    return f"{column.removesuffix('_id')} {value}"
