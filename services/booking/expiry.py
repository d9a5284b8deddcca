"""Expiry. That a hold is over is a fact of the clock; this only tidies up, so that maps and counts show it."""

from datetime import timedelta

from prometheus_client import Counter

from services.booking.store import holds as store
from services.booking.store.shards import Shard

HOLDS_PER_ROUND = 200  # at most 1,600 seats at the usual cap are locked at once, for some ten milliseconds

SWEPT = Counter("booking_holds_swept_total", "Holds whose seats were freed after their time")


async def sweep_holds(shard: Shard, *, grace: timedelta) -> int:
    """Frees the seats of holds whose time and grace are over, at most HOLDS_PER_ROUND; how many holds."""
    holds = await store.sweep_holds(shard, most=HOLDS_PER_ROUND, grace=grace)
    SWEPT.inc(holds)
    return holds
