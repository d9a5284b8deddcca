"""Plans as they are sent."""

import asyncio
from dataclasses import dataclass

import pytest

from services.catalog.plan_cache import PlanCache


@dataclass
class Built:
    """A plan of ten seats."""

    plan_id: int
    seat_count: int = 10


class Builder:
    """Counts what it builds."""

    def __init__(self) -> None:
        self.built: list[int] = []
        self.fails = False

    async def __call__(self, plan_id: int) -> Built:
        self.built.append(plan_id)
        await asyncio.sleep(0.01)
        if self.fails:
            raise ConnectionError
        return Built(plan_id)


async def test_callers_at_once_build_once() -> None:
    builder = Builder()
    cache = PlanCache(builder)
    plans = await asyncio.gather(*(cache.get(1) for _ in range(20)))
    assert builder.built == [1]
    assert all(plan is plans[0] for plan in plans)


async def test_least_recently_used_goes_first() -> None:
    builder = Builder()
    cache = PlanCache(builder, most_seats=25)
    for plan_id in (1, 2, 1, 3, 1, 2):
        await cache.get(plan_id)
    assert builder.built == [1, 2, 3, 2]
    assert sum(plan.seat_count for plan in cache.plans.values()) <= 25


async def test_plan_larger_than_the_cache_is_served() -> None:
    builder = Builder()
    cache = PlanCache(builder, most_seats=5)
    assert (await cache.get(1)).plan_id == 1
    assert list(cache.plans) == [1]


async def test_failure_is_not_kept() -> None:
    builder = Builder()
    cache = PlanCache(builder)
    builder.fails = True
    with pytest.raises(ConnectionError):
        await cache.get(1)
    builder.fails = False
    assert (await cache.get(1)).plan_id == 1


async def test_caller_that_leaves_does_not_end_it_for_the_others() -> None:
    builder = Builder()
    cache = PlanCache(builder)
    impatient, patient = asyncio.create_task(cache.get(1)), asyncio.create_task(cache.get(1))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).plan_id == 1
    assert builder.built == [1]
