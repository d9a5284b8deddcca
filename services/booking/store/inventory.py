"""Events with their seats and prices, as catalog hands them over."""

from pathlib import Path
from typing import Any

from chassis.queries import load_queries
from services.booking.errors import InventoryConflict
from services.booking.rows import Inventory, SeatCounts
from services.booking.store.areas import put_areas
from services.booking.store.shards import Shard

queries = load_queries(Path(__file__).parent / "inventory.sql")


async def put_inventory(shard: Shard, event: int, inventory: Inventory, fingerprint: bytes) -> int:
    """Takes a version that is not yet known, whole or not at all; how many seats the event has.

    Raises InventoryConflict for a version known with other content, or one that would take seats away.
    """

    async def put(connection: Any) -> tuple[bool, int]:
        async with connection.transaction():
            await queries.allow_long_statements(connection)
            taken = await _put_event(connection, event, inventory, fingerprint)
            if taken:
                await _put_seats(connection, event, inventory)
                await put_areas(connection, event, inventory.areas)
            count: int = await queries.count_all_seats(connection, event=event)
            if taken and count != len(inventory.seats):
                raise InventoryConflict("A seat that was handed over cannot be taken back.")
            return taken, count

    taken, count = await shard.write(put)
    if taken:
        await shard.write(queries.analyze_seats)
    return count


async def count_seats(shard: Shard, event: int) -> SeatCounts:
    """Seats by state, at one moment."""
    return SeatCounts(**dict(await shard.read(lambda connection: queries.count_seats(connection, event=event))))


async def _put_event(connection: Any, event: int, inventory: Inventory, fingerprint: bytes) -> bool:
    taken = await queries.put_event(
        connection,
        event=event,
        version=inventory.version,
        fingerprint=fingerprint,
        name=inventory.name,
        start=inventory.sale.start,
        end=inventory.sale.end,
        cap=inventory.sale.tickets_per_account,
        hold_duration=inventory.hold_duration,
        onsale_hold_duration=inventory.onsale_hold_duration,
        onsale_window=inventory.onsale_window,
        selection_mode=inventory.selection_mode,
        holds_per_account=inventory.holds_per_account,
        resale=inventory.resale,
        cancel_end=inventory.cancel_end,
        focal_x=inventory.focal and inventory.focal[0],
        focal_y=inventory.focal and inventory.focal[1],
        currency=inventory.currency,
    )
    if taken is None:
        known = await queries.get_version(connection, event=event)
        if known["version"] == inventory.version and known["fingerprint"] != fingerprint:
            raise InventoryConflict(f"Version {inventory.version} of the event was handed over with other content.")
    return taken is not None


async def _put_seats(connection: Any, event: int, inventory: Inventory) -> None:
    await queries.put_tiers(
        connection,
        event=event,
        tiers=[tier.tier for tier in inventory.tiers],
        names=[tier.name for tier in inventory.tiers],
        prices=[tier.price for tier in inventory.tiers],
        fees=[tier.fee for tier in inventory.tiers],
    )
    columns = {
        "event": event,
        "seats": inventory.seats,
        "tiers": inventory.seat_tiers,
        "sections": inventory.sections,
        "row_names": inventory.row_names,
        "numbers": inventory.numbers,
    }
    await queries.lock_changed_seats(connection, **columns)
    await queries.change_seats(connection, **columns)
    await queries.add_seats(connection, **columns)
    await queries.put_places(
        connection,
        event=event,
        seats=inventory.seats,
        section_indexes=inventory.section_indexes,
        row_indexes=inventory.row_indexes,
        places=inventory.places,
        x=inventory.x,
        y=inventory.y,
        accessible=inventory.accessible,
        companion=inventory.companion,
    )
