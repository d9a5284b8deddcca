"""How a claimed attempt gets its answer: create, commit the id, confirm; after trouble, ask first.

No transaction is open while the processor is called, and whatever is about to happen there is written down before.
So the process may end between any two lines: the claim runs out, and the next worker goes on from the row.
"""

from collections.abc import Callable
from typing import Protocol

import structlog
from opentelemetry import trace
from prometheus_client import Counter

from services.payments.errors import ClaimLost
from services.payments.judging import ENDED_BEFORE, judge
from services.payments.rows import Answer, Attempt, State, Verdict
from services.payments.store.attempts import Attempts

OUTCOMES = Counter("payments_outcomes_total", "Outcomes written down", ["state"])
ALARMS = Counter("payments_processor_alarms_total", "Answers that should not come", ["alarm", "http_status"])

tracer = trace.get_tracer("rowlock")
log = structlog.get_logger()


class Processor(Protocol):
    """The processor. No method raises for what it answers, or for its silence."""

    async def create(self, attempt: Attempt) -> Answer:
        """Makes an intent that moves no money. Repeated with the same key it answers the same."""

    async def confirm(self, attempt: Attempt) -> Answer:
        """Asks for the money. Repeated with the same key it answers the same."""

    async def retrieve(self, attempt: Attempt) -> Answer:
        """What became of the intent."""

    async def cancel(self, attempt: Attempt) -> Answer:
        """Ends the intent if no money moved."""


class Charger:
    """Takes claimed attempts to an outcome. `told` is called after one was written, for the relay to deliver it."""

    def __init__(self, *, attempts: Attempts, processor: Processor, told: Callable[[], None]) -> None:
        self.attempts, self.processor, self.told = attempts, processor, told

    async def charge(self, attempt: Attempt) -> None:
        """As far as it goes now. What stays undecided is due again later."""
        with tracer.start_as_current_span("payments.charge", record_exception=False):
            try:
                verdict = await self._find_out(attempt)
                await self._record(attempt, verdict)
            except ClaimLost:
                log.warning("claim lost", order=attempt.order_id)

    async def _find_out(self, attempt: Attempt) -> Verdict:
        if attempt.processor_reference is None:
            return await self._begin(attempt)
        # Something may have been answered that nobody heard: so ask before sending again.
        answer = await self.processor.retrieve(attempt)
        verdict = self._judge(attempt, answer)
        if verdict.decided or verdict.alarm or answer.intent is None:
            return verdict
        return await self._go_on(attempt) if attempt.may_send else Verdict(State.UNRESOLVED)

    async def _begin(self, attempt: Attempt) -> Verdict:
        if not attempt.may_send:
            return Verdict(State.UNRESOLVED)
        attempt = await self.attempts.record_send(attempt)
        answer = await self.processor.create(attempt)
        verdict = self._judge(attempt, answer)
        if verdict.alarm or answer.intent is None:
            return verdict
        return await self._go_on(await self.attempts.record_reference(attempt, answer.intent.reference))

    async def _go_on(self, attempt: Attempt) -> Verdict:
        attempt = await self.attempts.record_send(attempt)
        answer = await (self._end(attempt) if attempt.closing_reason else self.processor.confirm(attempt))
        return self._judge(attempt, answer)

    async def _end(self, attempt: Attempt) -> Answer:
        answer = await self.processor.cancel(attempt)
        if answer.code == ENDED_BEFORE:
            return await self.processor.retrieve(attempt)  # the money may have moved at the last moment
        return answer

    def _judge(self, attempt: Attempt, answer: Answer) -> Verdict:
        verdict = judge(attempt, answer)
        if verdict.alarm:
            ALARMS.labels(verdict.alarm, answer.http_status).inc()
            log.error(
                "processor answered what it should not",
                order=attempt.order_id,
                alarm=verdict.alarm,
                http_status=answer.http_status,
                code=answer.code,
                request=answer.request_id,
            )
        return verdict

    async def _record(self, attempt: Attempt, verdict: Verdict) -> None:
        if await self.attempts.record_verdict(attempt, verdict):
            OUTCOMES.labels(verdict.state).inc()
            log.info("outcome", order=attempt.order_id, state=verdict.state, reason=verdict.failure_reason)
            self.told()
