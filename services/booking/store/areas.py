"""General admission: units of areas without seats."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from chassis.queries import load_queries
from services.booking.errors import InventoryConflict
from services.booking.rows import Area, AreaCounts, AreaVerdict, Sale
from services.booking.store.shards import Shard

MOST_COUNTERS = 16  # of an area: buyers that take from it at the same moment
UNITS_PER_COUNTER = 50  # at least, when new: as many as one hold may take

queries = load_queries(Path(__file__).parent / "areas.sql")


async def hold_area(
    shard: Shard,
    *,
    event: int,
    account: str,
    key: str,
    fingerprint: bytes,
    area: int,
    quantity: int,
    grace: timedelta,
) -> AreaVerdict:
    """Holds units of an area; see functions/areas.sql for the words. AGAIN is not among the answers."""

    async def hold(everything: bool) -> Any:
        return await shard.write(
            lambda connection: queries.hold_area(
                connection,
                event=event,
                account=account,
                key=key,
                fingerprint=fingerprint,
                area=area,
                quantity=quantity,
                grace=grace,
                all=everything,
            )
        )

    row = await hold(False)
    if row["verdict"] == "AGAIN":
        row = await hold(True)
    return AreaVerdict(row["verdict"], row["hold_id"], row["used"] or 0, row["few"] or 0, row["retry_time"])


async def get_sale(shard: Shard, event: int) -> Sale | None:
    """When an event is on sale, and how much of it an account may have."""
    row = await shard.read(lambda connection: queries.get_sale(connection, event=event))
    return row and Sale(row["sale_start_time"], row["sale_end_time"], row["tickets_per_account"])


async def sweep_area_holds(shard: Shard, *, most: int, grace: timedelta) -> int:
    """Gives the units of overdue holds of one area back; how many holds."""
    swept: int = await shard.write(lambda connection: queries.sweep_area_holds(connection, most=most, grace=grace))
    return swept


async def count_areas(shard: Shard, event: int) -> tuple[AreaCounts, ...]:
    """Units of the event's areas by what has them, by area."""

    async def fetch(connection: Any) -> tuple[AreaCounts, ...]:
        rows = [row async for row in queries.count_areas(connection, event=event)]
        return tuple(
            AreaCounts(
                row["area_id"], row["available"], row["held"], row["pending_payment"], row["sold"], row["blocked"]
            )
            for row in rows
        )

    return await shard.read(fetch)


async def put_areas(connection: Any, event: int, areas: Sequence[Area]) -> None:
    """Takes the event's areas over, in the caller's transaction, which has locked the event's row and its seats.

    An area may grow, and shrink by what nobody has taken. Raises InventoryConflict for one that would shrink further,
    or that is missing.
    """
    await queries.lock_areas(connection, event=event)
    known = {row["area_id"]: row async for row in queries.get_areas(connection, event=event)}
    if not known.keys() <= {area.area for area in areas}:
        raise InventoryConflict("An area that was handed over cannot be taken back.")
    await queries.put_areas(
        connection,
        event=event,
        areas=[area.area for area in areas],
        names=[area.name for area in areas],
        capacities=[area.capacity for area in areas],
        tiers=[area.tier for area in areas],
    )
    counters = [counter for area in areas for counter in _counters(area, known.get(area.area))]
    await queries.put_counters(
        connection,
        event=event,
        areas=[area for area, _, _ in counters],
        counters=[counter for _, counter, _ in counters],
        availables=[available for _, _, available in counters],
    )


def _counters(area: Area, known: Any) -> Iterator[tuple[int, int, int]]:
    """Area, counter and units of each, spread evenly; none when the capacity stays as it was."""
    if known and known["capacity"] == area.capacity:
        return
    available = area.capacity - (known["capacity"] - known["available"] if known else 0)
    if available < 0:
        raise InventoryConflict(f"Area {area.area} has more units taken than its new capacity.")
    count = max(known["counters"] if known else 1, min(MOST_COUNTERS, area.capacity // UNITS_PER_COUNTER))
    for counter in range(count):
        yield area.area, counter, available // count + (counter < available % count)
