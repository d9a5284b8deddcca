"""Events and their prices."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg

from chassis.postgres import acquire, finish, with_retries
from chassis.queries import load_queries
from services.catalog.rows import Area, Event, EventFilter, LinePolicy, NewEvent, Position, SaleRules, Tier, Venue

QUERIES = load_queries(Path(__file__).with_name("events.sql"))

BEFORE_ALL = (datetime(1, 1, 2, tzinfo=UTC), 0)  # the first day that is one in every time zone

PLAIN_FIELDS = (
    *("event_id", "shard", "version", "name", "performer", "description", "plan_id", "plan_version", "seat_count"),
    *("start_time", "sale_start_time", "sale_end_time", "currency_code", "published_time"),
)
RULES = tuple(field.name for field in fields(SaleRules))
TIER_ARRAYS = ("tiers", "tier_names", "prices_minor", "fees_minor", "colors")
AREA_ARRAYS = ("area_ids", "area_names", "area_capacities", "area_tiers")


class EventStore:
    """Statements of events.sql."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool

    async def count_events_by_shard(self) -> dict[str, int]:
        """Shards without an event are absent."""
        async with acquire(self.pool, "catalog") as connection:
            return {row["shard"]: row["events"] async for row in QUERIES.count_events_by_shard(connection)}

    async def add_event(self, event: NewEvent) -> Event:
        """Writes the event, or finds the one that the same request made before."""

        async def run() -> Event:
            async with acquire(self.pool, "catalog") as connection, connection.transaction():
                values = asdict(event)
                tiers, areas, rules = values.pop("tiers"), values.pop("areas"), values.pop("rules")
                if await QUERIES.add_event(connection, **values, **rules) is not None:
                    await QUERIES.add_tiers(connection, event_id=event.event_id, **_tier_columns(tiers))
                    await QUERIES.add_areas(connection, event_id=event.event_id, **_area_columns(areas))
                return _event(await QUERIES.get_event_by_request(connection, request_id=event.request_id))

        return await finish(with_retries(run))

    async def get_event(self, shard: str, event_id: int) -> Event | None:
        """Published or not."""
        async with acquire(self.pool, "catalog") as connection:
            record = await QUERIES.get_event(connection, event_id=event_id, shard=shard)
        return _event(record) if record else None

    async def get_event_by_request(self, request_id: str) -> Event | None:
        """The event that this request made, if it was heard before."""
        async with acquire(self.pool, "catalog") as connection:
            record = await QUERIES.get_event_by_request(connection, request_id=request_id)
        return _event(record) if record else None

    async def list_events(self, conditions: EventFilter, after: Position, page_size: int) -> list[Event]:
        """Published events from just after a position, soonest first."""
        async with acquire(self.pool, "catalog") as connection:
            records = QUERIES.list_events(
                connection,
                **asdict(conditions),
                after_time=after.start_time,
                after_id=after.event_id,
                page_size=page_size,
            )
            return [_event(record) async for record in records]

    async def list_line_policies(self, after: LinePolicy | None, page_size: int) -> list[LinePolicy]:
        """Of published events whose sale is not over, after this one in the order of the sales' ends."""
        position = (after.sale_end_time, after.event_id) if after else BEFORE_ALL
        async with acquire(self.pool, "catalog") as connection:
            records = QUERIES.list_line_policies(
                connection, after_time=position[0], after_id=position[1], page_size=page_size
            )
            return [LinePolicy(**record) async for record in records]

    async def publish_event(self, event_id: int) -> None:
        """Shows it from now on."""

        async def run() -> None:
            async with acquire(self.pool, "catalog") as connection:
                await QUERIES.publish_event(connection, event_id=event_id)

        await finish(with_retries(run))


def _tier_columns(tiers: tuple[dict[str, Any], ...]) -> dict[str, list[Any]]:
    return {
        "tiers": [tier["tier"] for tier in tiers],
        "names": [tier["name"] for tier in tiers],
        "prices_minor": [tier["price_minor"] for tier in tiers],
        "fees_minor": [tier["fee_minor"] for tier in tiers],
        "colors": [tier["color"] for tier in tiers],
    }


def _area_columns(areas: tuple[dict[str, Any], ...]) -> dict[str, list[Any]]:
    return {
        "area_ids": [area["area_id"] for area in areas],
        "names": [area["name"] for area in areas],
        "capacities": [area["capacity"] for area in areas],
        "tiers": [area["tier"] for area in areas],
    }


def _event(record: Mapping[str, Any]) -> Event:
    return Event(
        **{name: record[name] for name in PLAIN_FIELDS},
        venue=Venue(
            record["venue_id"], record["venue_name"], record["city"], record["country_code"], record["time_zone"]
        ),
        tiers=tuple(Tier(*values) for values in zip(*(record[name] for name in TIER_ARRAYS), strict=True)),
        areas=tuple(Area(*values) for values in zip(*(record[name] for name in AREA_ARRAYS), strict=True)),
        rules=SaleRules(**{name: record[name] for name in RULES}),
    )
