"""Events of a test's own, each with a name that a search finds alone."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.catalog.v1 import catalog_pb2 as pb
from rowlock.catalog.v1 import catalog_pb2_grpc
from rowlock.money.v1.money_pb2 import Money

from tests.support.plans import plan_of

SEATS = 60
ADMIN_SECONDS = 30


@dataclass(frozen=True)
class Sale:
    """An event on sale: one section of rows of twenty seats, 520 NOK each with the fee."""

    event_id: str
    name: str

    def step(self, show: str) -> str:
        return f"/events/{self.event_id}?show={show}"


async def publish(catalog: str, *, standing: int = 0, **rules: Any) -> Sale:
    """`standing` units beside the seats; the rules are SaleRules', with holds of two minutes."""
    name = f"Evening {uuid.uuid4().hex[:8]}"
    async with grpc.aio.insecure_channel(catalog) as channel:
        admin = catalog_pb2_grpc.CatalogAdminServiceStub(channel)
        venue = pb.Venue(name=f"Browser hall of {SEATS}", city="Oslo", country_code="NO", time_zone="Europe/Oslo")
        imported = await admin.ImportVenue(
            pb.ImportVenueRequest(venue=venue, pretix_plan=plan_of(SEATS)), timeout=ADMIN_SECONDS
        )
        price, fee = (Money(currency_code="NOK", amount_minor=minor) for minor in (50_000, 2_000))
        created = await admin.CreateEvent(
            pb.CreateEventRequest(
                request_id=uuid.uuid4().hex,
                name=name,
                performer="The Lamps",
                venue_id=imported.venue_id,
                start_time=_from_now(timedelta(days=20)),
                sale_start_time=_from_now(timedelta(minutes=-5)),
                prices=[pb.CategoryPrice(category=each, price=price, fee=fee) for each in imported.categories],
                areas=[pb.NewArea(name="Standing", capacity=standing, price=price, fee=fee)] if standing else [],
                rules=pb.SaleRules(**{"hold_seconds": 120, "line_capacity": 50} | rules),
            ),
            timeout=ADMIN_SECONDS,
        )
        request = pb.PublishEventRequest(event_id=created.event.event_id)
        await admin.PublishEvent(request, timeout=ADMIN_SECONDS)
    return Sale(created.event.event_id, name)


def _from_now(delta: timedelta) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(datetime.now(UTC) + delta)
    return stamp
