"""The promises, checked: for operators, and for an alarm. What could not be checked is not kept: it is not known."""

import asyncio
import math
from collections.abc import Sequence

import structlog
from prometheus_client import Counter, Gauge

from chassis.invariants import Invariant
from services.booking.rows import Finding
from services.booking.store import invariants as store
from services.booking.store.shards import Shards

VIOLATIONS = Gauge(
    "booking_invariant_violations", "Rows that break a promise; NaN when that is not known", ["shard", "invariant"]
)
FAILURES = Counter("booking_invariant_failures_total", "Checks of a promise that failed", ["shard", "invariant"])

log = structlog.get_logger()


async def check_invariants(shards: Shards) -> list[Invariant]:
    """Every query of invariants.sql over the shards, in the order of the file."""
    findings = await _find(shards)
    return [_sum_up([finding for finding in findings if finding.name == name]) for name in store.NAMES]


async def watch_invariants(shards: Shards) -> None:
    """Sets the gauges, and says which promise broke, or is not known."""
    for finding in await _find(shards):
        labels = {"shard": finding.shard, "invariant": finding.name}
        VIOLATIONS.labels(**labels).set(math.nan if finding.failure else finding.violations)
        if finding.failure:
            FAILURES.labels(**labels).inc()
            log.error("promise not checked", **labels, failure=finding.failure)
        elif finding.violations:
            log.error("promise broken", **labels, rows=finding.violations, examples=finding.examples)


async def _find(shards: Shards) -> list[Finding]:
    """Shards side by side: none waits for one that is away."""
    found = await asyncio.gather(*(store.check_invariants(shard) for shard in shards.values()))
    return [finding for each in found for finding in each]


def _sum_up(findings: Sequence[Finding]) -> Invariant:
    return Invariant(
        name=findings[0].name,
        description=findings[0].description,
        violations=sum(finding.violations for finding in findings),
        examples=[example for finding in findings for example in finding.examples],
        unchecked=[f"{finding.shard}: {finding.failure}" for finding in findings if finding.failure],
    )
