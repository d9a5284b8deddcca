"""What booking says to payments and to waitingroom, on real channels."""

import pytest
from rowlock.payments.v1 import payments_pb2, payments_pb2_grpc
from rowlock.waitingroom.v1 import waitingroom_pb2, waitingroom_pb2_grpc

from chassis.client import open_channel
from chassis.errors import Code, Contended, Refusal
from chassis.outbox import Message, SinkUnavailable
from services.booking.peers import ChargeRefused, Payments, WaitingRoom
from services.booking.rows import EventSales
from tests.support.engines import free_port
from tests.support.servers import Servers

MESSAGE = Message(
    1,
    "01890000-0000-7000-8000-000000000001",
    "charge",
    {"currency_code": "EUR", "amount_minor": 5250, "payment_token": "pm_card_visa"},
)


class Refused(Refusal):
    """What payments says to another amount."""

    code = Code.FAILED_PRECONDITION
    reason = "CHARGE_CONFLICT"


class PaymentsServicer(payments_pb2_grpc.PaymentsInternalServiceServicer):
    """Remembers, or refuses."""

    def __init__(self) -> None:
        self.asked: list[payments_pb2.ChargeOrderRequest] = []
        self.refusal: Refusal | None = None

    async def ChargeOrder(self, request, context):
        if self.refusal:
            raise self.refusal
        self.asked.append(request)
        return payments_pb2.ChargeOrderResponse()


class WaitingRoomServicer(waitingroom_pb2_grpc.WaitingRoomInternalServiceServicer):
    """Remembers."""

    def __init__(self) -> None:
        self.told: list[waitingroom_pb2.ReportSalesRequest] = []

    async def PutLinePolicy(self, request, context):
        raise AssertionError("booking hands over no policy")

    async def ReportSales(self, request, context):
        self.told.append(request)
        return waitingroom_pb2.ReportSalesResponse()


async def test_charge_order_carries_the_order_and_tells_refusals_from_absence(servers: Servers) -> None:
    servicer = PaymentsServicer()  # type: ignore[abstract]
    service = payments_pb2.DESCRIPTOR.services_by_name["PaymentsInternalService"]
    channel = await servers.start((service, payments_pb2_grpc.add_PaymentsInternalServiceServicer_to_server, servicer))
    payments = Payments(channel)
    await payments.charge_order("s1", MESSAGE)
    (request,) = servicer.asked
    assert request.order_id.startswith("ord_s1_")
    assert (request.amount.currency_code, request.amount.amount_minor) == ("EUR", 5250)
    assert request.payment_token == "pm_card_visa"
    servicer.refusal = Refused("Another amount.")
    with pytest.raises(ChargeRefused, match="CHARGE_CONFLICT"):
        await payments.charge_order("s1", MESSAGE)
    servicer.refusal = Contended("Others were in the way.")  # nothing was refused, so no try is spent
    with pytest.raises(SinkUnavailable):
        await payments.charge_order("s1", MESSAGE)


async def test_charge_order_of_an_absent_payments_spends_no_try() -> None:
    channel = open_channel(f"127.0.0.1:{free_port()}")
    with pytest.raises(SinkUnavailable):
        await Payments(channel).charge_order("s1", MESSAGE)
    await channel.close(None)


async def test_report_sales_is_best_effort(servers: Servers) -> None:
    servicer = WaitingRoomServicer()
    service = waitingroom_pb2.DESCRIPTOR.services_by_name["WaitingRoomInternalService"]
    channel = await servers.start(
        (service, waitingroom_pb2_grpc.add_WaitingRoomInternalServiceServicer_to_server, servicer)
    )
    sales = [EventSales("evt_s1_7", 3, 2, ("ann",))]
    await WaitingRoom(channel).report_sales(sales)
    (event,) = servicer.told[0].events
    assert (event.event_id, event.commits, event.conflicts) == ("evt_s1_7", 3, 2)
    assert list(event.finished_accounts) == ["ann"]
    absent = open_channel(f"127.0.0.1:{free_port()}")
    await WaitingRoom(absent).report_sales(sales)
    await absent.close(None)
