"""A catalog for each test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc
from rowlock.catalog.v1 import catalog_pb2, catalog_pb2_grpc
from rowlock.waitingroom.v1 import waitingroom_pb2, waitingroom_pb2_grpc

from chassis.client import open_channel
from chassis.invariants import invariant_service
from chassis.postgres import EXPECTED_SETTINGS, open_pool
from services.catalog.peers import GrpcPeers
from services.catalog.server import CatalogAdminServicer, CatalogServicer
from services.catalog.store.events import EventStore
from services.catalog.store.invariants import check_invariants
from services.catalog.store.venues import VenueStore
from tests.integration.catalog.house import Catalog
from tests.integration.catalog.peers import RecordingBooking, RecordingWaitingRoom
from tests.support.servers import Servers


@pytest.fixture
async def catalog(database: Callable[..., Awaitable[str]], servers: Servers) -> AsyncIterator[Catalog]:
    """Two shards, no venue."""
    pool = await open_pool(await database("catalog"), name="catalog", expect=EXPECTED_SETTINGS)
    booking, waitingroom = RecordingBooking(), RecordingWaitingRoom()
    peer_channel = await servers.start(
        (
            booking_pb2.DESCRIPTOR.services_by_name["BookingInternalService"],
            booking_pb2_grpc.add_BookingInternalServiceServicer_to_server,
            booking,
        ),
        (
            waitingroom_pb2.DESCRIPTOR.services_by_name["WaitingRoomInternalService"],
            waitingroom_pb2_grpc.add_WaitingRoomInternalServiceServicer_to_server,
            waitingroom,
        ),
    )
    peers = open_channel(servers.address_of(peer_channel))
    events, venues = EventStore(pool), VenueStore(pool)
    services = catalog_pb2.DESCRIPTOR.services_by_name
    channel = await servers.start(
        (
            services["CatalogService"],
            catalog_pb2_grpc.add_CatalogServiceServicer_to_server,
            CatalogServicer(events=events, venues=venues),
        ),
        (
            services["CatalogAdminService"],
            catalog_pb2_grpc.add_CatalogAdminServiceServicer_to_server,
            CatalogAdminServicer(
                events=events,
                venues=venues,
                peers=GrpcPeers(booking=peers, waitingroom=peers),
                shards=("s1", "s2"),
            ),
        ),
        invariant_service(partial(check_invariants, pool)),
    )
    yield Catalog(channel, pool, booking, waitingroom, servers.address_of(channel))
    await peers.close(None)
    await pool.close()
