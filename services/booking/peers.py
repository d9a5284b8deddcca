"""The services that booking calls."""

from collections.abc import Sequence
from uuid import UUID

import grpc
import structlog
from prometheus_client import Counter
from rowlock.money.v1 import money_pb2
from rowlock.payments.v1 import payments_pb2, payments_pb2_grpc
from rowlock.waitingroom.v1 import waitingroom_pb2, waitingroom_pb2_grpc

from chassis.client import is_away
from chassis.errors import Unavailable, reason_of
from chassis.outbox import Message, SinkUnavailable
from services.booking.rows import AbandonAnswer, EventSales, id_text

CHARGE_SECONDS = 10.0  # payments answers once its attempt is written; well inside the relay's claim
ABANDON_SECONDS = 10.0  # as long: it is one transaction there, and no call of the processor
REPORT_SECONDS = 1.0  # the next report is due by then

FINAL_STATES = {
    payments_pb2.ATTEMPT_STATE_SUCCEEDED: "SUCCEEDED",
    payments_pb2.ATTEMPT_STATE_FAILED: "FAILED",
}

LATE_CHARGES = Counter("booking_late_charges_total", "Charges that payments refused because their order was given up")
LOST_REPORTS = Counter("booking_sales_reports_lost_total", "Reports that waitingroom did not take")

log = structlog.get_logger()


class ChargeRefused(Exception):
    """Payments will not take this charge on."""


class Payments:
    """Takes charges on, and gives them up."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = payments_pb2_grpc.PaymentsInternalServiceStub(channel)

    async def charge_order(self, shard: str, message: Message) -> None:
        """Delivers an outbox message. Raises SinkUnavailable when payments is away, ChargeRefused when it refuses.

        A charge that was given up is settled: payments says so only after we asked it to, and will not take the money.
        The order was compensated by that answer, or is about to be. Nobody has to look at it.
        """
        amount = money_pb2.Money(
            currency_code=message.payload["currency_code"], amount_minor=message.payload["amount_minor"]
        )
        request = payments_pb2.ChargeOrderRequest(
            order_id=id_text("ord", shard, UUID(message.aggregate_id)),
            amount=amount,
            payment_token=message.payload["payment_token"],
        )
        try:
            await self.stub.ChargeOrder(request, timeout=CHARGE_SECONDS)
        except grpc.aio.AioRpcError as error:
            if is_away(error):
                raise SinkUnavailable("payments") from error
            reason = reason_of(error)[0] or error.code().name
            if reason != "CHARGE_ABANDONED":
                raise ChargeRefused(reason) from error
            LATE_CHARGES.inc()
            log.info("late charge refused", order=request.order_id)

    async def abandon_order(self, order_id: str) -> AbandonAnswer:
        """What is known of an order's charge, after which payments begins nothing new for it. Raises Unavailable when
        payments is away."""
        request = payments_pb2.AbandonOrderRequest(order_id=order_id)
        try:
            answer = await self.stub.AbandonOrder(request, timeout=ABANDON_SECONDS)
        except grpc.aio.AioRpcError as error:
            if is_away(error):
                raise Unavailable("Payments is away.") from error
            raise
        return AbandonAnswer(FINAL_STATES.get(answer.state, "UNKNOWN"), answer.failure_reason)


class WaitingRoom:
    """Hears what is sold."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = waitingroom_pb2_grpc.WaitingRoomInternalServiceStub(channel)

    async def report_sales(self, sales: Sequence[EventSales]) -> None:
        """Best effort: a lost report costs a second of pace."""
        events = [
            waitingroom_pb2.EventSales(
                event_id=s.event_id, commits=s.commits, conflicts=s.conflicts, finished_accounts=s.finished_accounts
            )
            for s in sales
        ]
        try:
            await self.stub.ReportSales(waitingroom_pb2.ReportSalesRequest(events=events), timeout=REPORT_SECONDS)
        except grpc.aio.AioRpcError as error:
            LOST_REPORTS.inc()
            log.warning("report lost", events=len(events), status=error.code().name)
