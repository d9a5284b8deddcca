"""Payments in this process: real database, real SDK, a line to a real sandbox; and a booking that writes down."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc

from chassis.outbox import Relay
from services.payments.charges import charge_order
from services.payments.charging import Charger, Processor
from services.payments.rows import Attempt, Charge, State
from services.payments.store.attempts import Attempts
from services.payments.workers import ChargeWorker
from tests.integration.processor.sandbox_process import API_KEY

ORDER = "ord_s1_42"
BOOKING = booking_pb2.DESCRIPTOR.services_by_name["BookingInternalService"]


def charge_of(order_id: str = ORDER, token: str = "pm_card_visa", amount: int = 4200) -> Charge:
    return Charge(order_id, "EUR", amount, token)


class Booking(booking_pb2_grpc.BookingInternalServiceServicer):
    """Writes down what it hears; `before` may do something first, once."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []
        self.changed = asyncio.Event()
        self.before: Callable[[], Awaitable[None]] | None = None

    async def RecordPaymentOutcome(
        self, request: booking_pb2.RecordPaymentOutcomeRequest, context: Any
    ) -> booking_pb2.RecordPaymentOutcomeResponse:
        if self.before:
            before, self.before = self.before, None
            await before()
        outcome = booking_pb2.PaymentOutcome.Name(request.outcome).removeprefix("PAYMENT_OUTCOME_")
        self.heard.append((request.order_id, outcome, request.failure_reason))
        self.changed.set()
        return booking_pb2.RecordPaymentOutcomeResponse()

    def PutInventory(self, request: Any, context: Any) -> Any:
        raise NotImplementedError


@dataclass
class Desk:
    """What a test of payments needs at hand."""

    pool: asyncpg.Pool
    attempts: Attempts
    processor: Processor

    async def charge(self, charge: Charge) -> Attempt:
        await charge_order(self.attempts, charge)
        return await self.work(charge.order_id)

    async def work(self, order_id: str = ORDER, *, rounds: int = 1) -> Attempt:
        """Makes what waits due, and works on it; the attempt then."""
        for _ in range(rounds):
            await self.make_due(order_id)
            worker = self.worker()
            await worker.run_once()
            await worker.settle()
        attempt = await self.attempts.get(order_id)
        assert attempt is not None
        return attempt

    def worker(self) -> ChargeWorker:
        charger = Charger(attempts=self.attempts, processor=self.processor, told=lambda: None)
        return ChargeWorker(attempts=self.attempts, charger=charger, slots=8)

    async def make_due(self, order_id: str = ORDER) -> None:
        await self.pool.execute("UPDATE attempt SET due_time = clock_timestamp() WHERE order_id = $1", order_id)

    async def age(self, seconds: float, order_id: str = ORDER) -> None:
        """As if the first send was that long ago."""
        statement = "UPDATE attempt SET first_send_time = clock_timestamp() - $2 * interval '1 s' WHERE order_id = $1"
        await self.pool.execute(statement, order_id, seconds)

    async def outcomes(self, order_id: str = ORDER) -> list[str]:
        """What booking is to hear, in order."""
        statement = "SELECT payload ->> 'outcome' FROM outbox WHERE aggregate_id = $1 ORDER BY message_id"
        return [row[0] for row in await self.pool.fetch(statement, order_id)]

    def relay(self, booking: Any) -> Relay:
        return Relay(self.pool, "booking", booking.record_payment_outcome)


def environment(dsn: str, processor: str, booking: str, port: int) -> dict[str, str]:
    """Of a payments process."""
    return {
        **os.environ,
        "ROWLOCK_PAYMENTS_LISTEN": f"127.0.0.1:{port}",
        "ROWLOCK_PAYMENTS_DATABASE_URL": dsn,
        "ROWLOCK_PAYMENTS_BOOKING_TARGET": booking,
        "ROWLOCK_PAYMENTS_PROCESSOR_URL": processor,
        "ROWLOCK_PAYMENTS_PROCESSOR_API_KEY": API_KEY,
        "ROWLOCK_PAYMENTS_POLL_SECONDS": "0.1",
    }


UNDECIDED = (State.CREATED, State.SENT, State.UNKNOWN)
