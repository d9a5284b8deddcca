"""Putting line policies again: a waiting room whose store came back empty knows its events again without help."""

import asyncio
from typing import Protocol

import structlog
from prometheus_client import Counter

from chassis.errors import Unavailable
from services.catalog.errors import PeerRefused
from services.catalog.rows import LinePolicy
from services.catalog.store.events import EventStore

PAGE = 100  # one short statement; what a round keeps in memory
AT_ONCE = 8  # a round is in no hurry, and the waiting room has fans to serve

POLICIES = Counter("catalog_line_policies_total", "Line policies put again, by outcome", ["outcome"])

log = structlog.get_logger()


class WaitingRoom(Protocol):
    """Who must know how lines are run."""

    async def put_line_policy(self, policy: LinePolicy) -> None:
        """Changes nothing where the version is known. Refuses with UNAVAILABLE or PEER_REFUSED."""


async def put_line_policies(events: EventStore, waitingroom: WaitingRoom) -> None:
    """The policy of every published event whose sale is not over; any number of processes may.

    The round ends at the first page in which the waiting room is away. A policy that it refuses holds up no other.
    """
    gate = asyncio.Semaphore(AT_ONCE)
    last: LinePolicy | None = None
    while page := await events.list_line_policies(last, PAGE):
        here = await asyncio.gather(*(_put_line_policy(waitingroom, policy, gate) for policy in page))
        if not all(here):
            log.warning("line policies were not put again: the waiting room is away")
            return
        last = page[-1]


async def _put_line_policy(waitingroom: WaitingRoom, policy: LinePolicy, gate: asyncio.Semaphore) -> bool:
    """Whether the waiting room is there."""
    async with gate:
        try:
            await waitingroom.put_line_policy(policy)
        except Unavailable:
            POLICIES.labels("UNAVAILABLE").inc()
            return False
        except PeerRefused as refused:
            POLICIES.labels("REFUSED").inc()
            log.error("a line policy was refused", event_id=policy.event_id, why=str(refused))
        else:
            POLICIES.labels("PUT").inc()
    return True
