"""Runs catalog: `python -m services.catalog`."""

from functools import partial

from rowlock.catalog.v1 import catalog_pb2, catalog_pb2_grpc

from chassis.client import open_channel
from chassis.invariants import invariant_service
from chassis.postgres import EXPECTED_SETTINGS, close_pool, open_pool
from chassis.server import Server, run_main
from chassis.settings import load_settings
from chassis.telemetry import start_telemetry
from services.catalog.peers import GrpcPeers
from services.catalog.server import CatalogAdminServicer, CatalogServicer
from services.catalog.settings import CatalogSettings
from services.catalog.store.events import EventStore
from services.catalog.store.invariants import check_invariants
from services.catalog.store.venues import VenueStore
from services.catalog.workers import all_workers


async def main() -> None:
    """Until SIGTERM."""
    settings = load_settings(CatalogSettings)
    start_telemetry("catalog", settings)
    pool = await open_pool(
        settings.database_url, name="catalog", max_size=settings.database_connections, expect=EXPECTED_SETTINGS
    )
    booking, waitingroom = open_channel(settings.booking_target), open_channel(settings.waitingroom_target)
    peers = GrpcPeers(booking=booking, waitingroom=waitingroom)
    events, venues = EventStore(pool), VenueStore(pool)
    admin = CatalogAdminServicer(
        events=events,
        venues=venues,
        peers=peers,
        shards=settings.shards,
    )
    services = catalog_pb2.DESCRIPTOR.services_by_name
    server = Server(settings, "catalog")
    browsing = CatalogServicer(events=events, venues=venues)
    server.add(services["CatalogService"], catalog_pb2_grpc.add_CatalogServiceServicer_to_server, browsing)
    server.add(services["CatalogAdminService"], catalog_pb2_grpc.add_CatalogAdminServiceServicer_to_server, admin)
    server.add(*invariant_service(partial(check_invariants, pool)))
    await server.run(all_workers(events, peers))
    await booking.close(None)
    await waitingroom.close(None)
    await close_pool(pool)


if __name__ == "__main__":
    run_main(main)
