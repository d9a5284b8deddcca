"""Plans as they are sent: built once for each version, for a version never changes."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from prometheus_client import Counter

MOST_SEATS = 2_000_000  # over all cached plans: at some 100 bytes a seat, 200 MB; a hundred arenas

CACHED = Counter("catalog_plan_cache_total", "Plans asked of the cache", ["result"])


class Sized(Protocol):
    """Something that knows how many seats it keeps in memory."""

    @property
    def seat_count(self) -> int: ...


PlanT = TypeVar("PlanT", bound=Sized)


class PlanCache(Generic[PlanT]):
    """The least recently used go first. Callers that ask for the same plan at once wait for one to build it."""

    def __init__(self, build: Callable[[int], Awaitable[PlanT]], most_seats: int = MOST_SEATS) -> None:
        self.build, self.most_seats = build, most_seats
        self.plans: OrderedDict[int, PlanT] = OrderedDict()
        self.building: dict[int, asyncio.Task[PlanT]] = {}

    async def get(self, plan_id: int) -> PlanT:
        """The plan, from memory if it is there."""
        if plan_id in self.plans:
            CACHED.labels("hit").inc()
            self.plans.move_to_end(plan_id)
            return self.plans[plan_id]
        if plan_id not in self.building:
            CACHED.labels("miss").inc()
            self.building[plan_id] = asyncio.create_task(self._build(plan_id))
        return await asyncio.shield(self.building[plan_id])  # one caller that leaves does not end it for the others

    async def _build(self, plan_id: int) -> PlanT:
        try:
            plan = self.plans[plan_id] = await self.build(plan_id)
        finally:
            del self.building[plan_id]
        while len(self.plans) > 1 and sum(kept.seat_count for kept in self.plans.values()) > self.most_seats:
            self.plans.popitem(last=False)
        return plan
