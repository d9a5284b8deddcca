"""Proto in, rule, proto out."""

from collections.abc import Callable
from typing import Any

from rowlock.money.v1 import money_pb2
from rowlock.payments.v1 import payments_pb2, payments_pb2_grpc

from chassis.invariants import Check, invariant_service
from chassis.outbox import Outboxes
from chassis.outbox.server import outbox_service
from chassis.server import Server
from services.payments import charges
from services.payments.rows import Attempt, Charge, State
from services.payments.store.attempts import Attempts

DATABASE = "payments"  # as ids of messages and metrics name it


def add_servicers(server: Server, *, attempts: Attempts, invariants: Check, taken: Callable[[], None]) -> None:
    """What booking asks, and what operators do."""
    services = payments_pb2.DESCRIPTOR.services_by_name
    internal = PaymentsInternalServicer(attempts=attempts, taken=taken)
    admin = PaymentsAdminServicer(attempts)
    register = payments_pb2_grpc
    server.add(services["PaymentsInternalService"], register.add_PaymentsInternalServiceServicer_to_server, internal)
    server.add(services["PaymentsAdminService"], register.add_PaymentsAdminServiceServicer_to_server, admin)
    server.add(*invariant_service(invariants))
    server.add(*outbox_service(Outboxes({DATABASE: attempts.pool})))


class PaymentsInternalServicer(payments_pb2_grpc.PaymentsInternalServiceServicer):
    """What booking asks. `taken` is called when there is something to charge."""

    def __init__(self, *, attempts: Attempts, taken: Callable[[], None]) -> None:
        self.attempts, self.taken = attempts, taken

    async def ChargeOrder(
        self, request: payments_pb2.ChargeOrderRequest, context: Any
    ) -> payments_pb2.ChargeOrderResponse:
        amount = request.amount
        charge = Charge(request.order_id, amount.currency_code, amount.amount_minor, request.payment_token)
        attempt = await charges.charge_order(self.attempts, charge)
        if attempt.state == State.CREATED:
            self.taken()
        return payments_pb2.ChargeOrderResponse(state=state_of(attempt))

    async def AbandonOrder(
        self, request: payments_pb2.AbandonOrderRequest, context: Any
    ) -> payments_pb2.AbandonOrderResponse:
        attempt = await charges.abandon_order(self.attempts, request.order_id)
        return payments_pb2.AbandonOrderResponse(state=state_of(attempt), failure_reason=attempt.failure_reason or "")


class PaymentsAdminServicer(payments_pb2_grpc.PaymentsAdminServiceServicer):
    """For operators and the simulator."""

    def __init__(self, attempts: Attempts) -> None:
        self.attempts = attempts

    async def GetAttempt(
        self, request: payments_pb2.GetAttemptRequest, context: Any
    ) -> payments_pb2.GetAttemptResponse:
        return attempt_message(await charges.get_attempt(self.attempts, request.order_id))


def attempt_message(attempt: Attempt) -> payments_pb2.GetAttemptResponse:
    asked = money_pb2.Money(currency_code=attempt.currency_code, amount_minor=attempt.amount_minor)
    message = payments_pb2.GetAttemptResponse(
        order_id=attempt.order_id,
        state=state_of(attempt),
        amount=asked if attempt.currency_code else None,
        processor_reference=attempt.processor_reference or "",
        failure_reason=attempt.failure_reason or "",
        send_count=attempt.send_count,
    )
    message.create_time.FromDatetime(attempt.create_time)
    return message


def state_of(attempt: Attempt) -> "payments_pb2.AttemptState.ValueType":
    return payments_pb2.AttemptState.Value(f"ATTEMPT_STATE_{attempt.state}")
