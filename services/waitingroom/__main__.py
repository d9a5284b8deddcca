"""Runs waitingroom: `python -m services.waitingroom`."""

from functools import partial

from rowlock.waitingroom.v1 import waitingroom_pb2 as pb2
from rowlock.waitingroom.v1 import waitingroom_pb2_grpc as pb2_grpc

from chassis.client import open_channel
from chassis.invariants import invariant_service
from chassis.server import Server, run_main
from chassis.settings import load_settings
from chassis.telemetry import start_telemetry
from chassis.tokens import KeyRing
from services.waitingroom.invariants import check_invariants
from services.waitingroom.peers import GrpcSeatFeed
from services.waitingroom.server import WaitingRoomInternalServicer, WaitingRoomServicer
from services.waitingroom.settings import WaitingRoomSettings
from services.waitingroom.store.leases import LeaseStore
from services.waitingroom.store.lines import LineStore
from services.waitingroom.store.scripts import Scripts, connect, read_scripts
from services.waitingroom.workers import all_workers

SERVICES = pb2.DESCRIPTOR.services_by_name


async def main() -> None:
    """Until SIGTERM."""
    settings = load_settings(WaitingRoomSettings)
    start_telemetry("waitingroom", settings)
    terms, ring = settings.terms(), KeyRing.parse(settings.signing_keys)
    client = connect(settings.redis_url, settings.redis_connections)
    scripts = Scripts(client, read_scripts())
    lines, leases = LineStore(scripts, terms), LeaseStore(scripts, terms)

    public = WaitingRoomServicer(lines=lines, leases=leases, ring=ring, terms=terms)
    internal = WaitingRoomInternalServicer(lines)
    server = Server(settings, "waitingroom")
    server.add(SERVICES["WaitingRoomService"], pb2_grpc.add_WaitingRoomServiceServicer_to_server, public)
    server.add(
        SERVICES["WaitingRoomInternalService"], pb2_grpc.add_WaitingRoomInternalServiceServicer_to_server, internal
    )
    server.add(*invariant_service(partial(check_invariants, lines)))
    seatfeed = GrpcSeatFeed(open_channel(settings.seatfeed_target)) if settings.seatfeed_target else None
    try:
        await server.run(all_workers(lines, seatfeed=seatfeed, tick_seconds=settings.tick_seconds))
    finally:
        if seatfeed:
            await seatfeed.channel.close(None)
        await client.aclose()


if __name__ == "__main__":
    run_main(main)
