"""Public ids of what catalog owns. A venue's is a plain count: there is one catalog, and venues are no secret."""

import re

from chassis.ids import format_id, parse_id
from services.catalog.errors import EventNotFound, VenueNotFound

VENUE_FORM = re.compile(r"ven_([1-9][0-9]{0,17})")


def event_text(shard: str, number: int) -> str:
    """`evt_s1_7`."""
    return format_id("evt", shard, number)


def event_key(event_id: str) -> tuple[str, int]:
    """Shard and number; what is no event's id is refused as an event that is not there."""
    key = parse_id("evt", event_id)
    if key is None or key[1] >= 2**63:
        raise EventNotFound
    return key


def venue_text(number: int) -> str:
    """`ven_7`."""
    return f"ven_{number}"


def venue_key(venue_id: str) -> int:
    """The number; what is no venue's id is refused as a venue that is not there."""
    match = VENUE_FORM.fullmatch(venue_id)
    if match is None:
        raise VenueNotFound
    return int(match[1])
