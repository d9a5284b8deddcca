"""Runs waitingroom: `python -m services.waitingroom`."""

from rowlock.waitingroom.v1 import waitingroom_pb2 as pb2
from rowlock.waitingroom.v1 import waitingroom_pb2_grpc as pb2_grpc

from chassis.server import Server, run_main
from chassis.settings import load_settings
from chassis.telemetry import start_telemetry
from chassis.tokens import KeyRing
from chassis.workers import Worker
from services.waitingroom.admitter import Admitter
from services.waitingroom.server import WaitingRoomAdminServicer, WaitingRoomInternalServicer, WaitingRoomServicer
from services.waitingroom.settings import WaitingRoomSettings
from services.waitingroom.store.leases import LeaseStore
from services.waitingroom.store.lines import LineStore
from services.waitingroom.store.scripts import Scripts, connect, read_scripts
from services.waitingroom.watch import Watch

WATCH_SECONDS = 2.0

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
    internal, admin = WaitingRoomInternalServicer(lines), WaitingRoomAdminServicer(lines)
    server = Server(settings, "waitingroom")
    server.add(SERVICES["WaitingRoomService"], pb2_grpc.add_WaitingRoomServiceServicer_to_server, public)
    server.add(
        SERVICES["WaitingRoomInternalService"], pb2_grpc.add_WaitingRoomInternalServiceServicer_to_server, internal
    )
    server.add(SERVICES["WaitingRoomAdminService"], pb2_grpc.add_WaitingRoomAdminServiceServicer_to_server, admin)
    ticks = Worker("admitter", Admitter(lines).run_once, settings.tick_seconds)
    try:
        await server.run([ticks, Worker("watch", Watch(lines).run_once, WATCH_SECONDS)])
    finally:
        await client.aclose()


if __name__ == "__main__":
    run_main(main)
