"""The statements on the table `outbox`, and the one that callers need: `put`."""

import json
from pathlib import Path
from typing import Any

import asyncpg

from chassis.queries import load_queries

queries = load_queries(Path(__file__).parent / "outbox.sql")


async def put(
    connection: asyncpg.Connection, *, sink: str, aggregate_id: str, kind: str, payload: dict[str, Any]
) -> None:
    """Writes a message in the caller's transaction; a relay delivers it once that has committed.

    The order of an aggregate's messages is that of their ids: whoever writes them holds the aggregate's lock.
    """
    await queries.put(connection, sink=sink, aggregate_id=aggregate_id, kind=kind, payload=json.dumps(payload))
