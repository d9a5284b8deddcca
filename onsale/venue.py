"""What is sold: a venue, an event with a line, and its plan as fans see it."""

import json
import math
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from google.protobuf import timestamp_pb2
from rowlock.catalog.v1 import catalog_pb2, catalog_pb2_grpc
from rowlock.money.v1 import money_pb2

from chassis.client import open_channel
from chassis.errors import reason_of
from onsale.settings import Options, UsageError

ROW_SEATS = 20
SECTION_ROWS = 10
HOLD_SECONDS = 20  # short, so that abandoned holds come back while the sale still runs
ZONE_HEIGHT = 300.0


@dataclass(frozen=True)
class Sale:
    """The event, and its rows: section name → rows of seat ids, in order of standing."""

    event_id: str
    name: str
    rows: dict[str, list[list[int]]]
    section_of: dict[int, str]
    line_capacity: int
    areas: dict[int, int] = field(default_factory=dict)  # area id → units

    @property
    def seat_count(self) -> int:
        return len(self.section_of)

    @property
    def unit_count(self) -> int:
        return sum(self.areas.values())


def plan_of(seats: int) -> dict[str, Any]:
    """A plain hall with exactly that many seats, in pretix's seating-plan form."""
    per_section = ROW_SEATS * SECTION_ROWS
    sections = [min(per_section, seats - first) for first in range(0, seats, per_section)]
    zones = [_zone(number, count) for number, count in enumerate(sections)]
    return {
        "name": f"Hall of {seats}",
        "categories": [{"name": "Stalls", "color": "#2f6f8f"}, {"name": "Circle", "color": "#b5651d"}],
        "zones": zones,
        "size": {"width": ROW_SEATS * 25 + 100, "height": ZONE_HEIGHT * len(zones) + 100},
    }


def _zone(number: int, count: int) -> dict[str, Any]:
    rows = []
    for row in range(math.ceil(count / ROW_SEATS)):
        in_row = range(min(ROW_SEATS, count - row * ROW_SEATS))
        rows.append(
            {
                "row_number": str(row + 1),
                "row_number_position": "both",
                "position": {"x": 0, "y": row * 25},
                "seats": [
                    {
                        "seat_guid": f"{number}-{row}-{seat}",
                        "seat_number": str(seat + 1),
                        "position": {"x": seat * 25, "y": 0},
                        "category": "Stalls" if number % 2 == 0 else "Circle",
                    }
                    for seat in in_row
                ],
            }
        )
    return {
        "name": f"Block {number + 1}",
        "zone_id": f"block-{number + 1}",
        "position": {"x": 50, "y": 50 + number * ZONE_HEIGHT},
        "rows": rows,
        "areas": [],
    }


async def prepare_sale(catalog: str, options: Options, sale_starts_in: float) -> Sale:
    """Imports the plan, makes an event of it, publishes it."""
    async with open_channel(catalog) as channel:
        admin = catalog_pb2_grpc.CatalogAdminServiceStub(channel)
        public = catalog_pb2_grpc.CatalogServiceStub(channel)
        try:
            event, capacity = await _make_event(admin, options, sale_starts_in)
            event_id = event.event_id
            await admin.PublishEvent(catalog_pb2.PublishEventRequest(event_id=event_id), timeout=60)
            plan = (await public.GetEventPlan(catalog_pb2.GetEventPlanRequest(event_id=event_id), timeout=60)).plan
        except grpc.aio.AioRpcError as error:
            _, metadata = reason_of(error)
            raise UsageError(f"The event could not be made: {error.details()} {metadata.get('faults', '')}") from error
    rows = {
        section.section: [[seat.seat_id for seat in row.seats] for row in section.rows] for section in plan.sections
    }
    section_of = {seat: section for section, each in rows.items() for row in each for seat in row}
    areas = {area.area_id: area.capacity for area in event.areas}
    return Sale(event_id, event.name, rows, section_of, capacity, areas)


async def _make_event(admin: Any, options: Options, sale_starts_in: float) -> tuple[catalog_pb2.Event, int]:
    run = uuid.uuid4().hex[:8]
    plan = options.plan.read_bytes() if options.plan else json.dumps(plan_of(options.seats)).encode()
    label = options.plan.stem if options.plan else f"{options.seats} seats"
    venue = catalog_pb2.Venue(
        name=f"On-sale hall, {label}", city="Lisbon", country_code="PT", time_zone="Europe/Lisbon"
    )
    imported = await admin.ImportVenue(
        catalog_pb2.ImportVenueRequest(venue=venue, pretix_plan=plan, repair=options.plan is not None), timeout=60
    )
    prices = [
        catalog_pb2.CategoryPrice(
            category=category,
            price=money_pb2.Money(currency_code="EUR", amount_minor=4000 + 1500 * number),
            fee=money_pb2.Money(currency_code="EUR", amount_minor=250),
        )
        for number, category in enumerate(imported.categories)
    ]
    now = datetime.now(UTC)
    capacity = max(20, options.fans // 5)
    event = await admin.CreateEvent(
        catalog_pb2.CreateEventRequest(
            request_id=f"onsale-{run}",
            name=f"On-sale {time.strftime('%H:%M:%S')}",
            performer="The Simulated",
            venue_id=imported.venue_id,
            start_time=_timestamp(now + timedelta(days=30)),
            sale_start_time=_timestamp(now + timedelta(seconds=sale_starts_in)),
            sale_end_time=_timestamp(now + timedelta(days=29)),
            prices=prices,
            areas=_areas(options.units),
            rules=catalog_pb2.SaleRules(
                tickets_per_account=8, hold_seconds=HOLD_SECONDS, line=True, line_capacity=capacity
            ),
        ),
        timeout=60,
    )
    return event.event, capacity


def _areas(units: int) -> list[catalog_pb2.NewArea]:
    price = money_pb2.Money(currency_code="EUR", amount_minor=3000)
    return [catalog_pb2.NewArea(name="Standing", capacity=units, price=price)] if units else []


def _timestamp(moment: datetime) -> timestamp_pb2.Timestamp:
    stamp = timestamp_pb2.Timestamp()
    stamp.FromDatetime(moment)
    return stamp
