"""Watches the lines from beside the ticks: shows their figures, and alarms when one stands still."""

import time

from services.waitingroom import metrics
from services.waitingroom.line import for_each_line, state_of
from services.waitingroom.rows import Line, LineState, Stop
from services.waitingroom.store.lines import LineStore

STALLED_SECONDS = 30.0
KEPT_MS = 24 * 3600 * 1000  # as long after its sale as the store keeps a line's keys
RATE_SECONDS = 30


class Watch:
    """Reads every line each few seconds.

    The alarm is computed when it is scraped, by this process' own stopwatch: so it rises also when the ticks stopped,
    or the store is away and nothing can be read any more.
    """

    def __init__(self, store: LineStore) -> None:
        self.store = store
        self.stopwatches: dict[str, Stopwatch] = {}

    async def run_once(self) -> int:
        """Never work left."""
        await for_each_line(await self.store.list_lines(), self._watch)
        return 0

    async def _watch(self, event_id: str) -> None:
        line = await self.store.get_line(event_id)
        if line.sale_end and line.as_of >= line.sale_end + KEPT_MS:
            await self._forget(event_id)
            return
        _show(event_id, line)
        if event_id not in self.stopwatches:
            stopwatch = self.stopwatches[event_id] = Stopwatch()
            metrics.STALLED.labels(event_id).set_function(lambda: float(stopwatch.stalled()))
        self.stopwatches[event_id].note(line)

    async def _forget(self, event_id: str) -> None:
        await self.store.forget_line(event_id)
        self.stopwatches.pop(event_id, None)
        for gauge in metrics.OF_A_LINE:
            gauge.remove_by_labels({"event": event_id})


class Stopwatch:
    """How long a line that should move has not moved, as far as this process has seen."""

    def __init__(self) -> None:
        self.moved_at = time.monotonic()
        self.line: Line | None = None

    def note(self, line: Line) -> None:
        """Starts again when the line has moved, or stood for a reason that a tick has found since."""
        waits = line.length > 0 and state_of(line) in (LineState.MOVING, LineState.PAUSED) and line.stop is Stop.NONE
        if not waits or self.line is None or _moved_or_full(self.line, line):
            self.moved_at = time.monotonic()
        self.line = line

    def stalled(self) -> bool:
        """Nobody admitted for STALLED_SECONDS while somebody waits, and no tick that says why."""
        return time.monotonic() - self.moved_at >= STALLED_SECONDS


def _moved_or_full(before: Line, line: Line) -> bool:
    full = line.ticked > before.ticked and line.room == 0
    return full or line.admitted_through != before.admitted_through


def _show(event_id: str, line: Line) -> None:
    shown = {
        metrics.LINE_LENGTH: line.length,
        metrics.ADMITTED_THROUGH: line.admitted_through,
        metrics.ADMITTED_30S: line.rate_per_second * RATE_SECONDS,
        metrics.IN_FLIGHT: line.in_flight,
        metrics.CAPACITY: line.capacity,
        metrics.CLAIM_RATE: line.claim_rate,
        metrics.COMMITS: line.commits_per_second,
        metrics.CONFLICTS: line.conflicts_per_second,
    }
    for gauge, value in shown.items():
        gauge.labels(event_id).set(value)
