"""Orders that wait too long for their payment."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from chassis.queries import load_queries
from services.booking.store.shards import Shard

queries = load_queries(Path(__file__).with_suffix(".sql"))


async def claim_overdue_orders(shard: Shard, *, bound: timedelta, rest: timedelta, most: int) -> list[UUID]:
    """Pending orders older than `bound`, those that have waited longest since they were last asked about, at most
    `most`; nobody else gets them until `rest` is over."""

    async def claim(connection: Any) -> list[UUID]:
        rows = queries.claim_overdue_orders(connection, bound=bound, rest=rest, most=most)
        return [row["order_id"] async for row in rows]

    return await shard.write(claim)
