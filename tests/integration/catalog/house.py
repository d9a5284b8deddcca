"""A running catalog, and short ways to ask it."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.catalog.v1 import catalog_pb2 as pb2
from rowlock.catalog.v1 import catalog_pb2_grpc
from rowlock.invariant.v1.invariant_pb2_grpc import InvariantAdminServiceStub
from rowlock.money.v1 import money_pb2

from chassis.errors import reason_of
from tests.integration.catalog.peers import RecordingBooking, RecordingWaitingRoom

SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)


@dataclass
class Catalog:
    """A catalog on a real server, over a real database, with peers that write down what they got."""

    channel: grpc.aio.Channel
    pool: asyncpg.Pool
    booking: RecordingBooking
    waitingroom: RecordingWaitingRoom
    address: str
    requests: int = field(default=0)

    def __post_init__(self) -> None:
        self.browse = catalog_pb2_grpc.CatalogServiceStub(self.channel)
        self.admin = catalog_pb2_grpc.CatalogAdminServiceStub(self.channel)
        self.promises = InvariantAdminServiceStub(self.channel)

    async def import_venue(self, name: str = "Teatro Novo", plan: bytes | None = None, **fields: Any) -> Any:
        """A venue in Lisbon, unless told otherwise; of six seats, unless told otherwise."""
        repair = fields.pop("repair", False)
        place = {"city": "Lisbon", "country_code": "PT", "time_zone": "Europe/Lisbon"} | fields
        venue = pb2.Venue(name=name, **place)
        return await self.admin.ImportVenue(
            pb2.ImportVenueRequest(venue=venue, pretix_plan=plan or small_plan(), repair=repair)
        )

    async def create_event(self, venue_id: str, **fields: Any) -> Any:
        """An event in a month with prices for the small plan."""
        self.requests += 1
        start: datetime = fields.pop("start", SOON)
        usual: dict[str, Any] = {
            "request_id": f"request-{self.requests}",
            "name": "Night Trains",
            "performer": "The Sleepers",
            "venue_id": venue_id,
            "start_time": timestamp(start),
            "sale_start_time": timestamp(start - timedelta(days=20)),
            "prices": [price("Stalls", 2500), price("Box", 9000, 500)],
        }
        request = pb2.CreateEventRequest(**usual | fields)
        return (await self.admin.CreateEvent(request)).event

    async def publish(self, venue_id: str, **fields: Any) -> Any:
        """A new event, shown."""
        event = await self.create_event(venue_id, **fields)
        return (await self.admin.PublishEvent(pb2.PublishEventRequest(event_id=event.event_id))).event

    async def names(self, **query: Any) -> list[str]:
        """Of the events found, in order."""
        found = await self.browse.ListEvents(pb2.ListEventsRequest(**query))
        return [event.name for event in found.events]


def price(category: str, amount: int, fee: int = 0, currency: str = "EUR") -> pb2.CategoryPrice:
    return pb2.CategoryPrice(
        category=category,
        price=money_pb2.Money(currency_code=currency, amount_minor=amount),
        fee=money_pb2.Money(currency_code=currency, amount_minor=fee),
    )


def area(name: str, capacity: int, amount: int, fee: int = 0, currency: str = "EUR") -> pb2.NewArea:
    return pb2.NewArea(
        name=name,
        capacity=capacity,
        price=money_pb2.Money(currency_code=currency, amount_minor=amount),
        fee=money_pb2.Money(currency_code=currency, amount_minor=fee),
    )


def small_plan(name: str = "Small", boxes: int = 2) -> bytes:
    """Four seats in the stalls and some in a box."""
    return json.dumps(
        {
            "name": name,
            "size": {"width": 300, "height": 200},
            "categories": [{"name": "Stalls", "color": "#336699"}, {"name": "Box", "color": "#963"}],
            "zones": [
                {
                    "name": "Parterre",
                    "position": {"x": 10, "y": 20},
                    "rows": [plan_row("A", 4, "Stalls", x=5, y=7)],
                    "areas": [
                        {
                            "shape": "rectangle",
                            "position": {"x": 90, "y": -20},
                            "rectangle": {"width": 100, "height": 20},
                            "text": {"text": "Stage", "position": {"x": 0, "y": 0}},
                        }
                    ],
                },
                {"name": "Boxes", "position": {"x": 0, "y": 0}, "rows": [plan_row("1", boxes, "Box", x=100, y=150)]},
            ],
        }
    ).encode()


def plan_row(label: str, seats: int, category: str, *, x: float, y: float) -> dict[str, Any]:
    return {
        "row_number": label,
        "position": {"x": x, "y": y},
        "seats": [
            {
                "seat_guid": f"{category}-{label}-{number}",
                "seat_number": str(number),
                "category": category,
                "position": {"x": 20 * number, "y": 0},
            }
            for number in range(1, seats + 1)
        ],
    }


def timestamp(time: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(time)
    return message


async def refusal(call: Any) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    """Status, reason and metadata of a call that must be refused."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return (error.code(), *reason_of(error))
    raise AssertionError(f"was not refused: {answer}")
