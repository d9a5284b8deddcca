import asyncio
from typing import Any

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc

from chassis.client import open_channel
from chassis.errors import Code, Refusal, reason_of
from chassis.server import Server
from chassis.settings import ServiceSettings
from gateway.limits import LARGEST_HEADERS_KB
from tests.support.servers import Servers

SERVICE = booking_pb2.DESCRIPTOR.services_by_name["BookingService"]


class SeatLost(Refusal):
    code = Code.ABORTED
    reason = "SEAT_UNAVAILABLE"


class Booking(booking_pb2_grpc.BookingServiceServicer):
    """Does what the hold's id says."""

    async def GetHold(self, request: Any, context: Any) -> booking_pb2.GetHoldResponse:
        if request.hold_id == "lost":
            raise SeatLost("Somebody was faster.", lostSeatIds="1,2")
        if request.hold_id == "broken":
            raise ValueError("SELECT secret FROM vault")
        if request.hold_id == "slow":
            await asyncio.sleep(5)
        return booking_pb2.GetHoldResponse(hold=booking_pb2.Hold(hold_id=request.hold_id))


@pytest.fixture
async def booking(servers: Servers) -> Any:
    servicer = Booking()  # type: ignore[abstract]
    channel = await servers.start((SERVICE, booking_pb2_grpc.add_BookingServiceServicer_to_server, servicer))
    return booking_pb2_grpc.BookingServiceStub(channel)


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


async def test_a_refusal_arrives_with_reason_and_metadata(booking: Any) -> None:
    error = await refused(booking.GetHold(booking_pb2.GetHoldRequest(hold_id="lost")))
    assert error.code() is grpc.StatusCode.ABORTED
    assert error.details() == "Somebody was faster."
    assert reason_of(error) == ("SEAT_UNAVAILABLE", {"lostSeatIds": "1,2"})


async def test_what_is_not_a_refusal_is_withheld(booking: Any, capsys: pytest.CaptureFixture[str]) -> None:
    error = await refused(booking.GetHold(booking_pb2.GetHoldRequest(hold_id="broken")))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "SELECT" not in str(error.details())
    assert reason_of(error)[0] == "INTERNAL"


async def test_an_answer_arrives_and_a_method_that_is_not_built_is_unimplemented(booking: Any) -> None:
    assert (await booking.GetHold(booking_pb2.GetHoldRequest(hold_id="h"))).hold.hold_id == "h"


async def test_all_headers_that_the_edge_lets_in_are_taken(booking: Any) -> None:
    headers = [("x-large", "x" * LARGEST_HEADERS_KB * 1024)]
    assert (await booking.GetHold(booking_pb2.GetHoldRequest(hold_id="h"), metadata=headers)).hold.hold_id == "h"


async def test_a_burst_is_answered_whole(booking: Any) -> None:
    """Left alone, gRPC answers a part of it CANCELLED, before any handler hears of it."""
    calls = (booking.GetHold(booking_pb2.GetHoldRequest(hold_id="h"), timeout=60) for _ in range(3000))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [each for each in answers if isinstance(each, BaseException)] == []


async def test_a_callers_deadline_ends_the_call(booking: Any) -> None:
    error = await refused(booking.GetHold(booking_pb2.GetHoldRequest(hold_id="slow"), timeout=0.1))
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_call_without_a_deadline_gets_ours() -> None:
    server = Server(ServiceSettings(default_deadline_seconds=0.1, drain_seconds=0), "tried")
    server.add(SERVICE, booking_pb2_grpc.add_BookingServiceServicer_to_server, Booking())  # type: ignore[abstract]
    async with open_channel(f"127.0.0.1:{await server.start()}") as channel:
        stub = booking_pb2_grpc.BookingServiceStub(channel)
        error = await refused(stub.GetHold(booking_pb2.GetHoldRequest(hold_id="slow")))
    await server.stop()
    assert (error.code(), reason_of(error)[0]) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")
