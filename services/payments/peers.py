"""Booking, as payments calls it."""

import grpc
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc

from chassis.client import is_away
from chassis.outbox import Message, SinkUnavailable

DEADLINE_SECONDS = 10.0  # shorter than a relay's claim


class Booking:
    """Hears of outcomes."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = booking_pb2_grpc.BookingInternalServiceStub(channel)

    async def record_payment_outcome(self, message: Message) -> None:
        """Delivers one message. Raises SinkUnavailable when booking is away or busy; a refusal as it came."""
        request = booking_pb2.RecordPaymentOutcomeRequest(
            order_id=message.payload["orderId"],
            outcome=booking_pb2.PaymentOutcome.Value(f"PAYMENT_OUTCOME_{message.payload['outcome']}"),
            failure_reason=message.payload["failureReason"],
        )
        try:
            await self.stub.RecordPaymentOutcome(request, timeout=DEADLINE_SECONDS)
        except grpc.aio.AioRpcError as error:
            if is_away(error):
                raise SinkUnavailable from error
            raise
