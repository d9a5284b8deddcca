"""Expiry. That a hold is over is a fact of the clock; this only tidies up, so that maps and counts show it."""

from datetime import timedelta

from prometheus_client import Counter, Gauge

from services.booking.store import areas, holds
from services.booking.store.shards import Shard

HOLDS_PER_ROUND = 200  # at most 1,600 seats at the usual cap are locked at once, for some ten milliseconds

SWEPT = Counter("booking_holds_swept_total", "Holds whose seats or units were freed after their time")
OVERDUE = Gauge("booking_holds_overdue", "Holds whose time and grace are over and that were not swept", ["shard"])
OVERDUE_SECONDS = Gauge("booking_holds_overdue_seconds", "For how long the oldest of them", ["shard"])


async def sweep_holds(shard: Shard, *, grace: timedelta) -> int:
    """Frees what holds have whose time and grace are over, at most HOLDS_PER_ROUND of seats and as many of one area;
    how many holds. Any number of sweepers may run at once."""
    swept = await holds.sweep_holds(shard, most=HOLDS_PER_ROUND, grace=grace)
    swept += await areas.sweep_area_holds(shard, most=HOLDS_PER_ROUND, grace=grace)
    SWEPT.inc(swept)
    return swept


async def watch_overdue(shard: Shard, *, grace: timedelta) -> None:
    """Sets the gauges of what the sweepers have before them."""
    overdue = await holds.count_overdue(shard, grace=grace)
    OVERDUE.labels(shard.name).set(overdue.holds)
    OVERDUE_SECONDS.labels(shard.name).set(overdue.seconds)
