"""The work that goes on by itself: charging, and measuring what is unsettled."""

import asyncio

import structlog
from prometheus_client import Gauge

from chassis.telemetry import WORKER_ERRORS
from services.payments.charging import Charger
from services.payments.rows import Attempt
from services.payments.store.attempts import Attempts

UNSETTLED = Gauge("payments_unsettled_attempts", "Attempts without an outcome")
OLDEST = Gauge("payments_oldest_unsettled_seconds", "Age of the oldest attempt without an outcome")

MEASURE_SECONDS = 15  # as often as Prometheus scrapes

log = structlog.get_logger()


class ChargeWorker:
    """Works on at most `slots` attempts at once, so that one slow bank does not hold up the others."""

    def __init__(self, *, attempts: Attempts, charger: Charger, slots: int) -> None:
        self.attempts, self.charger, self.slots = attempts, charger, slots
        self.tasks: set[asyncio.Task[None]] = set()

    async def run_once(self) -> int:
        """Claims what there are slots for and starts on it; how many were claimed. See `settle`."""
        if len(self.tasks) >= self.slots:
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
        claimed = await self.attempts.claim(self.slots - len(self.tasks))
        for attempt in claimed:
            task = asyncio.create_task(self._charge(attempt))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return len(claimed)

    async def settle(self, seconds: float | None = None) -> None:
        """Waits for what is under way. What takes longer is left to the next worker, as after a crash."""
        if not self.tasks:
            return
        _, late = await asyncio.wait(self.tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _charge(self, attempt: Attempt) -> None:
        try:
            await self.charger.charge(attempt)
        except Exception:
            WORKER_ERRORS.labels("charge").inc()
            log.exception("charge failed; it is due again when the claim ends", order=attempt.order_id)


async def measure_once(attempts: Attempts) -> None:
    """For the alert on payments that nobody knows the outcome of."""
    unsettled = await attempts.measure_unsettled()
    UNSETTLED.set(unsettled.attempts)
    OLDEST.set(unsettled.oldest_seconds)
