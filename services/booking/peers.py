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
from chassis.errors import reason_of
from chassis.outbox import Message, SinkUnavailable
from services.booking.rows import EventSales, id_text

CHARGE_SECONDS = 10.0  # payments answers once its attempt is written; well inside the relay's claim
REPORT_SECONDS = 1.0  # the next report is due by then

LOST_REPORTS = Counter("booking_sales_reports_lost_total", "Reports that waitingroom did not take")

log = structlog.get_logger()


class ChargeRefused(Exception):
    """Payments will not take this charge on."""


class Payments:
    """Takes charges on."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = payments_pb2_grpc.PaymentsInternalServiceStub(channel)

    async def charge_order(self, shard: str, message: Message) -> None:
        """Delivers an outbox message. Raises SinkUnavailable when payments is away, ChargeRefused when it refuses."""
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
            raise ChargeRefused(reason_of(error)[0] or error.code().name) from error


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
