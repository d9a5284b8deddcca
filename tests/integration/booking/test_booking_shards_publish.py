"""Catalog hands an event over to a booking of three databases, and loses the answer."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.booking.v1 import booking_pb2_grpc
from rowlock.catalog.v1 import catalog_pb2, catalog_pb2_grpc
from rowlock.waitingroom.v1 import waitingroom_pb2, waitingroom_pb2_grpc

from chassis.client import open_channel
from chassis.ids import parse_id
from chassis.postgres import open_pool
from services.booking.inventory import Inventories
from services.booking.server import BookingInternalServicer
from services.catalog.peers import GrpcPeers
from services.catalog.server import CatalogAdminServicer, CatalogServicer
from services.catalog.store.events import EventStore
from services.catalog.store.venues import VenueStore
from tests.integration.booking.booth import Booth
from tests.integration.booking.schedules import guarded_or_not
from tests.integration.catalog.house import Catalog, refusal
from tests.integration.catalog.peers import RecordingBooking, RecordingWaitingRoom
from tests.support.delay import DelayProxy
from tests.support.servers import Servers

SHARDS = ("s1", "s2", "s3")
VERSIONS = "SELECT event_id, version FROM event ORDER BY event_id"
COUNTS = "SELECT event_id, count(*) AS seats FROM seat GROUP BY event_id"


class LosingBooking(BookingInternalServicer):
    """The real one. While it is to lose answers, it commits, and then the line to its caller is cut."""

    line: DelayProxy
    losing = False
    lost = 0

    async def PutInventory(self, request: pb.PutInventoryRequest, context: Any) -> pb.PutInventoryResponse:
        answer = await super().PutInventory(request, context)
        if self.losing:
            self.lost += self.line.cut()
        return answer


@dataclass
class House:
    """A real catalog and a real booking."""

    booth: Booth
    booking: LosingBooking
    catalog: Catalog

    async def publish(self, event_id: str) -> Any:
        """Catalog's call."""
        request = catalog_pb2.PublishEventRequest(event_id=event_id)
        return (await self.catalog.admin.PublishEvent(request)).event

    async def inventories(self) -> dict[tuple[str, int], tuple[int, int]]:
        """All that booking has, over all its databases: shard and event, version and seats."""
        found = {}
        for name, shard in self.booth.shards.items():
            seats = {row["event_id"]: row["seats"] for row in await shard.pool.fetch(COUNTS)}
            for row in await shard.pool.fetch(VERSIONS):
                found[name, row["event_id"]] = (row["version"], seats.pop(row["event_id"]))
            assert seats == {}
        return found


@pytest.fixture
async def house(
    open_booth: Callable[..., Awaitable[Booth]], database: Callable[..., Awaitable[str]], servers: Servers
) -> AsyncIterator[House]:
    """Between the two there is a line."""
    booth = await open_booth(*SHARDS)
    booking = LosingBooking(inventories=Inventories(shards=booth.shards), orders=None)  # type: ignore[arg-type]
    waitingroom = RecordingWaitingRoom()
    channel = await servers.start(
        (
            pb.DESCRIPTOR.services_by_name["BookingInternalService"],
            booking_pb2_grpc.add_BookingInternalServiceServicer_to_server,
            booking,
        ),
        (
            waitingroom_pb2.DESCRIPTOR.services_by_name["WaitingRoomInternalService"],
            waitingroom_pb2_grpc.add_WaitingRoomInternalServiceServicer_to_server,
            waitingroom,
        ),
    )
    host, _, port = servers.address_of(channel).rpartition(":")
    booking.line = DelayProxy(host, int(port))
    await booking.line.start()
    over_line = open_channel(f"127.0.0.1:{booking.line.listening}")
    pool = await open_pool(await database("catalog"), name="catalog")
    front = await _start_catalog(servers, pool, GrpcPeers(booking=over_line, waitingroom=channel))
    yield House(booth, booking, Catalog(front, pool, RecordingBooking(), waitingroom, servers.address_of(front)))
    await over_line.close(None)
    await booking.line.stop()
    await pool.close()


async def _start_catalog(servers: Servers, pool: Any, peers: GrpcPeers) -> grpc.aio.Channel:
    services = catalog_pb2.DESCRIPTOR.services_by_name
    events, venues = EventStore(pool), VenueStore(pool)
    admin = CatalogAdminServicer(events=events, venues=venues, peers=peers, shards=SHARDS)
    return await servers.start(
        (
            services["CatalogService"],
            catalog_pb2_grpc.add_CatalogServiceServicer_to_server,
            CatalogServicer(events=events, venues=venues),
        ),
        (services["CatalogAdminService"], catalog_pb2_grpc.add_CatalogAdminServiceServicer_to_server, admin),
    )


@guarded_or_not
async def test_publishing_again_after_a_lost_answer_lands_on_the_same_shard(house: House, guarded: bool) -> None:
    """The control: without the shard that is written down with the event, the next one would be chosen by what is
    there, and that has changed."""
    venue = await house.catalog.import_venue()
    wanted = {}
    for number, shard in enumerate(SHARDS, 1):
        event_id = (await house.catalog.create_event(venue.venue_id, name=f"Night {number}")).event_id
        parsed = parse_id("evt", event_id)
        assert parsed
        assert parsed[0] == shard
        wanted[parsed] = (1, 6)
        house.booking.losing = True
        code, _, metadata = await refusal(house.publish(event_id))
        assert (code, metadata["peer"], house.booking.lost) == (grpc.StatusCode.UNAVAILABLE, "booking", number)
        house.booking.losing = False
        assert await house.inventories() == wanted  # it had been committed
        assert f"Night {number}" not in await house.catalog.names()
        if not guarded:
            moved = SHARDS[number % 3]
            await house.catalog.pool.execute("UPDATE event SET shard = $1 WHERE event_id = $2", moved, parsed[1])
            event_id = event_id.replace(f"_{shard}_", f"_{moved}_")
        assert (await house.publish(event_id)).event_id == event_id
        if not guarded:
            assert await house.inventories() == wanted | {(moved, parsed[1]): (1, 6)}  # sold twice
            return
        assert await house.inventories() == wanted
    assert len(await house.catalog.names()) == 3
    assert await house.booth.broken() == {}
