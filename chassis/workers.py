"""Work that goes on by itself. A worker is a `run_once` that tests call; `run` calls it for ever."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from chassis.telemetry import WORKER_ERRORS

LONGEST_PAUSE_SECONDS = 30.0  # between two rounds that failed

log = structlog.get_logger()


@dataclass
class Worker:
    """Calls `run_once` again at once while it answers that there was work (a number above 0, or True); else when
    woken, or after about `interval_seconds`."""

    name: str
    run_once: Callable[[], Awaitable[int | bool | None]]
    interval_seconds: float
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until cancelled. An error is logged and counted, and the next round waits longer after each."""
        failures = 0
        while True:
            self.wake.clear()
            try:
                worked, failures = await self.run_once(), 0
            except Exception:
                worked, failures = 0, failures + 1
                WORKER_ERRORS.labels(self.name).inc()
                log.exception("worker round failed", worker=self.name, failures=failures)
            if not worked:
                await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        seconds = min(self.interval_seconds * 2 ** min(failures, 10), max(self.interval_seconds, LONGEST_PAUSE_SECONDS))
        seconds *= random.uniform(0.8, 1.2)  # so that many processes do not beat as one
        if failures:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wake.wait(), seconds)
