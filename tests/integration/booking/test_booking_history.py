"""A crowd of everything at two bookings; then its whole history is checked. `make soak` runs it with more seeds and
36,000 calls each."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.integration.booking.booth import Booth
from tests.integration.booking.crowd import GRACE, Crowd, crowded_event
from tests.integration.booking.replicas import change
from tests.integration.booking.schedules import FREE
from tests.support.delay import DelayProxy
from tests.support.soak import seeds, size

OpenReplica = Callable[..., Awaitable[Booth]]


async def open_crowd(open_replica: OpenReplica, dsns: tuple[str, str], dsn: str, seed: int, calls: int) -> Crowd:
    """Two bookings over one database, and who is waiting before them."""
    a, b = [
        replace(await open_replica({"s1": each}, confirm_grace_seconds=GRACE.total_seconds()), dsn=dsn) for each in dsns
    ]
    await a.internal.PutInventory(crowded_event())
    return Crowd((a, b), seed, calls)


@pytest.mark.parametrize("seed", seeds(1))
async def test_a_crowds_history_breaks_no_promise(
    database: Callable[..., Awaitable[str]], open_replica: OpenReplica, seed: int
) -> None:
    dsn = await database("booking")
    crowd = await open_crowd(open_replica, (dsn, dsn), dsn, seed, size(3_000, 36_000))
    await crowd.run()
    await crowd.check()
    assert not crowd.words["UNAVAILABLE"]
    for word in ("HELD", "BEST", "SEAT_UNAVAILABLE", "TOO_MANY_TICKETS", "RELEASED", "ORDERED", "CANCELLED"):
        assert crowd.words[word] > 20, crowd.words


@pytest.mark.parametrize("seed", seeds(1))
async def test_a_crowds_history_over_slow_networks_breaks_no_promise(
    database: Callable[..., Awaitable[str]],
    lines: tuple[DelayProxy, DelayProxy],
    open_replica: OpenReplica,
    seed: int,
) -> None:
    dsn = await database("booking")
    first, second = lines
    crowd = await open_crowd(open_replica, (first.between(dsn), second.between(dsn)), dsn, seed, size(1_500, 12_000))
    first.delay_seconds, second.delay_seconds = 0.02, 0.005
    await crowd.run()
    first.delay_seconds = second.delay_seconds = 0
    await crowd.check()


@pytest.mark.parametrize("delays", [(0, 0), (0.02, 0.005)], ids=["near", "slow networks"])
async def test_a_crowds_history_shows_a_guard_that_is_gone(
    database: Callable[..., Awaitable[str]],
    lines: tuple[DelayProxy, DelayProxy],
    open_replica: OpenReplica,
    delays: tuple[float, float],
) -> None:
    dsn = await database("booking")
    first, second = lines
    crowd = await open_crowd(open_replica, (first.between(dsn), second.between(dsn)), dsn, 1, 1_000)
    await change(crowd.booths[0], "hold_seats", {FREE: "z.state IN ('AVAILABLE', 'HELD') AS free"})
    first.delay_seconds, second.delay_seconds = delays
    await crowd.run()
    first.delay_seconds = second.delay_seconds = 0
    with pytest.raises(AssertionError, match="two owners"):
        await crowd.check()
