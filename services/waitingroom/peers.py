"""Calls to the seat feed, the only ones that waitingroom makes."""

import grpc
from rowlock.seatfeed.v1 import seatfeed_pb2, seatfeed_pb2_grpc

from chassis.errors import Unavailable
from services.waitingroom.rows import Counts

ANSWER_SECONDS = 1.0  # the answer is ready-made; the next asking is due by then


class GrpcSeatFeed:
    """The seat feed's public service, without sections' seats."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.stub = seatfeed_pb2_grpc.SeatFeedServiceStub(channel)

    async def get_counts(self, event_id: str) -> Counts | None:
        """Of all sections together; None when there is no picture of the event. Refuses with UNAVAILABLE."""
        try:
            seats = await self.stub.GetSeats(seatfeed_pb2.GetSeatsRequest(event_id=event_id), timeout=ANSWER_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise Unavailable("seatfeed did not answer", peer="seatfeed") from error
        if not seats.sections:
            return None  # a picture that does not know the event's seats yet says nothing of what is left
        opened, held = sum(each.open for each in seats.sections), sum(each.held for each in seats.sections)
        return Counts(opened, held, seats.as_of.ToMilliseconds())
