"""A call that does nothing, as a process: on a bare grpc.aio server, or on ours with all that every call gets there.

`python -m tests.load.empty_server bare|ours` prints its port and serves until its standard input ends.
"""

import asyncio
import sys
from typing import Any

import grpc
import uvloop
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.booking.v1 import booking_pb2_grpc

from chassis.server import Server
from chassis.settings import ServiceSettings
from chassis.telemetry import start_telemetry


class Nothing(booking_pb2_grpc.BookingServiceServicer):
    """GetHold stands for any call."""

    async def GetHold(self, request: pb.GetHoldRequest, context: Any) -> pb.GetHoldResponse:
        return pb.GetHoldResponse()


async def serve(which: str) -> None:
    """Until standard input ends."""
    nothing = Nothing()  # type: ignore[abstract]
    if which == "bare":
        server = grpc.aio.server()
        booking_pb2_grpc.add_BookingServiceServicer_to_server(nothing, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(port, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    else:
        settings = ServiceSettings()
        start_telemetry("empty", settings)
        ours = Server(settings, "empty")
        service = pb.DESCRIPTOR.services_by_name["BookingService"]
        ours.add(service, booking_pb2_grpc.add_BookingServiceServicer_to_server, nothing)

        async def announce() -> None:
            print(ours.port, flush=True)
            await asyncio.Event().wait()

        await ours.run(others=[announce])  # as services do


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
