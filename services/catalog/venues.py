"""Venues: a plan file becomes a version that never changes."""

import asyncio
import hashlib
import json
import re
from dataclasses import astuple, dataclass, replace

from chassis.errors import InvalidArgument
from chassis.telemetry import span
from services.catalog.errors import VenueDiffers
from services.catalog.pretix.reader import read_plan
from services.catalog.rows import Drawing, Venue, VenueSummary
from services.catalog.store.venues import VenueStore
from services.catalog.texts import required

COUNTRY_CODE = re.compile("[A-Z]{2}")


@dataclass(frozen=True, slots=True)
class ImportedVenue:
    """What an import led to. `repairs` is empty when nothing was wrong with the file."""

    venue_id: int
    version: int
    seat_count: int
    categories: list[str]
    repairs: list[str]


async def import_venue(store: VenueStore, venue: Venue, plan: bytes, *, repair: bool) -> ImportedVenue:
    """Adds a venue, or a version of the plan of the one that has its name. The same plan is the same version.

    City, country and time zone may be empty for a venue that is there already. Refuses with PLAN_INVALID,
    VENUE_DIFFERS, INVALID_ARGUMENT.
    """
    with span("catalog.import_venue"):
        venue = await _complete(store, venue)
        drawing, repairs = await asyncio.to_thread(read_plan, plan, repair=repair)
        stored, version = await store.import_plan(venue, drawing, digest_of(drawing))
        _require_same(venue, stored)  # somebody may have added the name in between
        return ImportedVenue(stored.venue_id, version, drawing.seat_count, drawing.categories, repairs)


async def list_venues(store: VenueStore) -> list[VenueSummary]:
    """By name."""
    return await store.list_venues()


def digest_of(drawing: Drawing) -> bytes:
    """Equal for equal drawings, whatever the files they came from looked like."""
    return hashlib.sha256(json.dumps(astuple(drawing)).encode()).digest()


async def _complete(store: VenueStore, venue: Venue) -> Venue:
    venue = replace(venue, name=required("venue.name", venue.name))
    known = await store.get_venue_by_name(venue.name)
    if known:
        venue = replace(
            venue,
            city=venue.city or known.city,
            country_code=venue.country_code or known.country_code,
            time_zone=venue.time_zone or known.time_zone,
        )
        _require_same(venue, known)
        return venue
    if not COUNTRY_CODE.fullmatch(venue.country_code):
        raise InvalidArgument("venue.country_code is two capital letters, like PT.", field="venue.country_code")
    if not await store.is_time_zone(required("venue.time_zone", venue.time_zone)):
        raise InvalidArgument("venue.time_zone is an IANA name, like Europe/Lisbon.", field="venue.time_zone")
    return replace(venue, city=required("venue.city", venue.city))


def _require_same(given: Venue, known: Venue) -> None:
    if (given.city, given.country_code, given.time_zone) != (known.city, known.country_code, known.time_zone):
        raise VenueDiffers(f"{known.name} is in {known.city} ({known.country_code}, {known.time_zone}) already.")
