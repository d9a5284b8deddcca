"""Inventory: what catalog hands over when it publishes an event."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

from chassis.errors import InvalidArgument
from chassis.telemetry import span
from services.booking.errors import EventNotFound, WrongShard
from services.booking.requests import fingerprint
from services.booking.rows import Inventory, SeatCounts
from services.booking.store import inventory as store
from services.booking.store.shards import Shards

MOST_SEATS = 200_000  # more than the largest stadium: one transaction of some seconds
MOST_AREAS = 1000
MOST_TIERS = MOST_AREAS + 100  # one for each area, beside those of the seats
LARGEST_AREA = 1_000_000
LONGEST_TEXT = 200  # letters of a name, a section, a row, a number: as catalog bounds what people type
LARGEST_AMOUNT = 10**12  # minor units, of a price or a fee: an order of fifty still fits its column
LONGEST_HOLD = timedelta(days=1)
CURRENCY = re.compile("[A-Z]{3}")
SEAT_COLUMNS = (
    *("seats", "seat_tiers", "sections", "row_names", "numbers"),
    *("section_indexes", "row_indexes", "places", "x", "y", "accessible", "companion"),
)


class Inventories:
    """The seats of events."""

    def __init__(self, *, shards: Shards) -> None:
        self.shards = shards

    async def put_inventory(self, event_id: str, inventory: Inventory) -> int:
        """Takes a version over, once; how many seats the event has. May be repeated."""
        located = self.shards.locate_event(event_id)
        if located is None:
            raise WrongShard()
        _check(inventory)
        ordered = _ascending(inventory)
        with span("booking.put_inventory"):
            return await store.put_inventory(*located, ordered, fingerprint(ordered))

    async def count_seats(self, event_id: str) -> SeatCounts:
        """Seats by state, at one moment."""
        located = self.shards.locate_event(event_id)
        if located is None:
            raise EventNotFound()
        return await store.count_seats(*located)


def _ascending(inventory: Inventory) -> Inventory:
    """By id: the order of tiers and areas is no content, and the plan's order of seats stands in their places."""
    order = sorted(range(len(inventory.seats)), key=inventory.seats.__getitem__)
    columns: dict[str, Any] = {
        column: tuple(getattr(inventory, column)[place] for place in order) for column in SEAT_COLUMNS
    }
    return replace(
        inventory,
        tiers=tuple(sorted(inventory.tiers, key=lambda tier: tier.tier)),
        areas=tuple(sorted(inventory.areas, key=lambda area: area.area)),
        **columns,
    )


def _check(inventory: Inventory) -> None:
    tiers = {tier.tier for tier in inventory.tiers}
    areas = {area.area for area in inventory.areas}
    faults = {
        "A version is 1 or more.": inventory.version < 1,
        "A sale ends after it starts.": inventory.sale.start >= inventory.sale.end,
        "An account may have at least one ticket.": inventory.sale.tickets_per_account < 1,
        "A hold lasts a second to a day.": not all(
            timedelta(seconds=1) <= duration <= LONGEST_HOLD
            for duration in (inventory.hold_duration, inventory.onsale_hold_duration)
        ),
        "The on-sale window has no negative length.": inventory.onsale_window < timedelta(0),
        "Buyers may pick seats, or get the best available.": not inventory.selection_mode,
        "A budget of holds is not negative.": (inventory.holds_per_account or 1) < 1,
        f"An event has 1 to {MOST_TIERS} tiers, each once.": not 1 <= len(tiers) == len(inventory.tiers) <= MOST_TIERS,
        "All prices are of one ISO 4217 currency.": any(t.currency != inventory.currency for t in inventory.tiers)
        or not CURRENCY.fullmatch(inventory.currency),
        f"A price or fee is 0 to {LARGEST_AMOUNT}.": not all(
            0 <= amount <= LARGEST_AMOUNT for tier in inventory.tiers for amount in (tier.price, tier.fee)
        ),
        f"Names have at most {LONGEST_TEXT} letters.": not all(map(_is_text, _texts(inventory))),
        f"An event has seats or areas, and at most {MOST_SEATS} seats.": len(inventory.seats) > MOST_SEATS
        or not inventory.seats + inventory.areas,
        "Each seat has an id of its own, over 0.": len(set(inventory.seats)) < len(inventory.seats)
        or min(inventory.seats, default=1) < 1,
        "Each seat has one of the tiers.": not tiers.issuperset(inventory.seat_tiers),
        "Rows of a section count from 0.": min(inventory.row_indexes, default=0) < 0,
        f"An event has at most {MOST_AREAS} areas, each once, with an id over 0.": len(inventory.areas) > MOST_AREAS
        or len(areas) < len(inventory.areas)
        or min(areas, default=1) < 1,
        f"An area has 1 to {LARGEST_AREA} units.": any(not 1 <= a.capacity <= LARGEST_AREA for a in inventory.areas),
        "Each area has one of the tiers.": not tiers.issuperset(area.tier for area in inventory.areas),
    }
    for fault, found in faults.items():
        if found:
            raise InvalidArgument(fault)


def _texts(inventory: Inventory) -> set[str]:
    names = {inventory.name, *(tier.name for tier in inventory.tiers)}
    return names.union(inventory.sections, inventory.row_names, inventory.numbers)


def _is_text(text: str) -> bool:
    return len(text) <= LONGEST_TEXT and "\0" not in text
