"""Real gRPC servers in the place of booking and waitingroom: they write down what they got, and can be told to fail."""

from typing import Any

from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc
from rowlock.waitingroom.v1 import waitingroom_pb2, waitingroom_pb2_grpc

from chassis.errors import Code, Refusal, Unavailable


class WrongShard(Refusal):
    """What booking says to an event that is not its own."""

    code = Code.FAILED_PRECONDITION
    reason = "WRONG_SHARD"


class RecordingBooking(booking_pb2_grpc.BookingInternalServiceServicer):
    """Takes inventories. `faults` are raised, one for each call, after it was noted: as if its answer was lost."""

    def __init__(self) -> None:
        self.taken: list[booking_pb2.PutInventoryRequest] = []
        self.faults: list[Exception] = []

    async def PutInventory(
        self, request: booking_pb2.PutInventoryRequest, context: Any
    ) -> booking_pb2.PutInventoryResponse:
        self.taken.append(request)
        if self.faults:
            raise self.faults.pop(0)
        return booking_pb2.PutInventoryResponse(seat_count=len(request.seats))

    async def RecordPaymentOutcome(self, request: Any, context: Any) -> Any:
        raise AssertionError("catalog knows of no payment")


class RecordingWaitingRoom(waitingroom_pb2_grpc.WaitingRoomInternalServiceServicer):
    """Takes line policies."""

    def __init__(self) -> None:
        self.taken: list[waitingroom_pb2.PutLinePolicyRequest] = []
        self.faults: list[Exception] = []

    async def PutLinePolicy(
        self, request: waitingroom_pb2.PutLinePolicyRequest, context: Any
    ) -> waitingroom_pb2.PutLinePolicyResponse:
        self.taken.append(request)
        if self.faults:
            raise self.faults.pop(0)
        return waitingroom_pb2.PutLinePolicyResponse()

    async def ReportSales(self, request: Any, context: Any) -> Any:
        raise AssertionError("catalog knows of no sale")


def lost_answer() -> Exception:
    """The call arrived; its answer did not."""
    return Unavailable("gone")
