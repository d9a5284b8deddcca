"""The promises, checked: for operators, and for an alarm."""

from dataclasses import replace

import structlog
from prometheus_client import Gauge

from services.booking.rows import Finding
from services.booking.store import invariants as store
from services.booking.store.shards import Shards

MOST_EXAMPLES = 10

VIOLATIONS = Gauge("booking_invariant_violations", "Rows that break a promise", ["invariant"])

log = structlog.get_logger()


async def check_invariants(shards: Shards) -> list[Finding]:
    """Every query of invariants.sql, summed over the shards, in the order of the file."""
    merged: dict[str, Finding] = {}
    for shard in shards.values():
        for finding in await store.check_invariants(shard):
            before = merged.get(finding.name, replace(finding, violations=0, examples=()))
            merged[finding.name] = replace(
                before,
                violations=before.violations + finding.violations,
                examples=(before.examples + finding.examples)[:MOST_EXAMPLES],
            )
    return list(merged.values())


async def watch_invariants(shards: Shards) -> None:
    """Sets the gauges, and says which promise broke."""
    for finding in await check_invariants(shards):
        VIOLATIONS.labels(finding.name).set(finding.violations)
        if finding.violations:
            log.error("promise broken", invariant=finding.name, rows=finding.violations, examples=finding.examples)
