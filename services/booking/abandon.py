"""Giving up orders that have waited too long for their payment. Payments says what is known; nothing is guessed."""

import asyncio
from datetime import timedelta
from typing import Protocol
from uuid import UUID

import structlog
from opentelemetry import trace
from prometheus_client import Counter

from chassis.errors import Contended, Unavailable
from chassis.telemetry import WORKER_ERRORS
from services.booking.errors import OutcomeConflict
from services.booking.orders import Orders
from services.booking.rows import AbandonAnswer
from services.booking.store import abandon as store
from services.booking.store.shards import Shard

ORDERS_PER_ROUND = 16  # asked about at once; some hundreds a second, on the few connections that workers have
# The pause after a round that settled nothing: while the processor is away a process asks about 160 orders a second at
# most, however many wait. From some 5,000 on an order is then asked about less often than its rest would allow.
UNDECIDED_SECONDS = 0.1
# A claim, and the pause until an order is asked about again: longer than a call of payments (10 s) and all the bounded
# waits of the transaction that follows it.
REST = timedelta(seconds=30)

SETTLED = {"SUCCEEDED", "FAILED"}
UNANSWERED = {"AWAY", "ERROR"}

ABANDONED = Counter("booking_abandon_order_total", "Orders past their bound, by what payments knew", ["verdict"])

log = structlog.get_logger()
tracer = trace.get_tracer("rowlock")


class Payments(Protocol):
    """Who is asked."""

    async def abandon_order(self, order_id: str) -> AbandonAnswer:
        """Raises Unavailable when payments is away."""


class Abandoner:
    """For one shard; any number may run. An order that was asked about twice is none the worse for it."""

    def __init__(self, *, shard: Shard, orders: Orders, payments: Payments, bound: timedelta) -> None:
        self.shard, self.orders, self.payments, self.bound = shard, orders, payments, bound

    async def run_once(self) -> int:
        """Asks about the orders past their bound that have waited longest, and records what is final; how many were
        answered, final or not.

        While payments answers, the next round follows: an outage of the processor leaves many undecided, and behind
        them are orders that can be settled. At once if anything was settled, else after a short pause, for more than
        can be asked about within their rest would be asked about without end. It ends when all that are due were asked.
        No transaction is open meanwhile. Whoever gets no answer waits: no tries are counted, so none is spent.
        """
        claimed = await store.claim_overdue_orders(self.shard, bound=self.bound, rest=REST, most=ORDERS_PER_ROUND)
        verdicts = await asyncio.gather(*map(self._abandon, claimed))
        answered = [verdict for verdict in verdicts if verdict not in UNANSWERED]
        if answered and not SETTLED.intersection(answered):
            await asyncio.sleep(UNDECIDED_SECONDS)
        return len(answered)

    async def _abandon(self, order: UUID) -> str:
        order_id = self.shard.id_of("ord", order)
        with tracer.start_as_current_span("booking.abandon_order", record_exception=False):
            try:
                verdict = await self._ask_and_record(order_id)
            except Exception:
                WORKER_ERRORS.labels("abandon_order").inc()
                log.exception("order could not be given up; it is asked about again", order=order_id)
                verdict = "ERROR"
        ABANDONED.labels(verdict).inc()
        log.info("order past its bound", order=order_id, verdict=verdict)
        return verdict

    async def _ask_and_record(self, order_id: str) -> str:
        """The outcome goes the way of payments' own messages, and is guarded as they are: one of the two is first."""
        try:
            answer = await self.payments.abandon_order(order_id)
            if answer.outcome in SETTLED:
                await self.orders.record_payment_outcome(
                    order_id=order_id, outcome=answer.outcome, reason=answer.reason
                )
        except Unavailable:
            return "AWAY"
        except Contended:
            return "CONTENDED"
        except OutcomeConflict:
            return "CONFLICT"
        return answer.outcome
