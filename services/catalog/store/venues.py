"""Venues and the versions of their seat plans."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg

from chassis.postgres import acquire, finish, with_retries
from chassis.queries import load_queries
from services.catalog.errors import SeatIdsExhausted
from services.catalog.rows import Drawing, Plan, PlanCategories, SeatRow, Venue, VenueSummary

QUERIES = load_queries(Path(__file__).with_name("venues.sql"))

SEAT_ROW_COLUMNS = (
    *("section", "row_name", "first_seat_id", "numbers", "xs", "ys", "categories", "accessible", "companion"),
)


class VenueStore:
    """Statements of venues.sql."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool

    async def is_time_zone(self, time_zone: str) -> bool:
        """Whether the database knows it: it computes days with it later."""
        async with acquire(self.pool, "catalog") as connection:
            return bool(await QUERIES.is_time_zone(connection, time_zone=time_zone))

    async def get_venue_by_name(self, name: str) -> Venue | None:
        """The venue of that name, however it is spelled."""
        async with acquire(self.pool, "catalog") as connection:
            record = await QUERIES.get_venue_by_name(connection, name=name)
        return Venue(**record) if record else None

    async def import_plan(self, venue: Venue, drawing: Drawing, digest: bytes) -> tuple[Venue, int]:
        """Adds the venue unless one of its name is there, and the plan unless it has been there before.

        Returns the venue as it is stored, which may differ from the one given, and the version.
        """

        async def run() -> tuple[Venue, int]:
            async with acquire(self.pool, "catalog") as connection, connection.transaction():
                stored = await _get_or_add_venue(connection, venue)
                version = await QUERIES.get_plan_version(connection, venue_id=stored.venue_id, digest=digest)
                if version is None:
                    version = await _add_plan(connection, stored.venue_id, drawing, digest)
                return stored, version

        return await finish(with_retries(run))

    async def list_venues(self) -> list[VenueSummary]:
        """By name."""
        async with acquire(self.pool, "catalog") as connection:
            return [_summary(record) async for record in QUERIES.list_venues(connection)]

    async def get_newest_plan(self, venue_id: int) -> PlanCategories | None:
        """None when there is no such venue."""
        async with acquire(self.pool, "catalog") as connection:
            record = await QUERIES.get_newest_plan(connection, venue_id=venue_id)
        if record is None:
            return None
        return PlanCategories(record["plan_id"], tuple(record["categories"]), tuple(record["colors"]))

    async def get_plan(self, plan_id: int) -> Plan:
        """A version with all its seats. It exists: an event points at it."""
        async with acquire(self.pool, "catalog") as connection:
            plan = await QUERIES.get_plan(connection, plan_id=plan_id)
            rows = [SeatRow(**row) async for row in QUERIES.list_plan_rows(connection, plan_id=plan_id)]
        return Plan(**plan, rows=tuple(rows))


def _summary(record: Mapping[str, Any]) -> VenueSummary:
    venue = Venue(**{name: record[name] for name in ("venue_id", "name", "city", "country_code", "time_zone")})
    return VenueSummary(venue, record["version"], record["seat_count"], tuple(record["categories"]))


async def _get_or_add_venue(connection: asyncpg.Connection, venue: Venue) -> Venue:
    await QUERIES.add_venue(
        connection,
        name=venue.name,
        city=venue.city,
        country_code=venue.country_code,
        time_zone=venue.time_zone,
    )
    return Venue(**await QUERIES.lock_venue_by_name(connection, name=venue.name))


async def _add_plan(connection: asyncpg.Connection, venue_id: int, drawing: Drawing, digest: bytes) -> int:
    seats = drawing.seat_count
    try:
        first_seat_id: int = await QUERIES.take_seat_ids(connection, seats=seats)
    except (asyncpg.NumericValueOutOfRangeError, asyncpg.SequenceGeneratorLimitExceededError) as error:
        raise SeatIdsExhausted from error
    plan = await QUERIES.add_plan(
        connection,
        venue_id=venue_id,
        digest=digest,
        width=drawing.width,
        height=drawing.height,
        focal_x=drawing.focal_x,
        focal_y=drawing.focal_y,
        categories=drawing.categories,
        colors=drawing.colors,
        first_seat_id=first_seat_id,
        seats=seats,
    )
    records = []
    for ordinal, row in enumerate(drawing.rows, 1):
        lists = (row.numbers, row.xs, row.ys, row.categories, row.accessible, row.companion)
        records.append((plan["plan_id"], ordinal, row.section, row.row_name, first_seat_id, *lists))
        first_seat_id += len(row.numbers)
    await connection.copy_records_to_table(
        "plan_row", records=records, columns=("plan_id", "ordinal", *SEAT_ROW_COLUMNS)
    )
    version: int = plan["version"]
    return version
