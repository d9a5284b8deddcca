"""Why a lone order locks its seats, though the record of its hold would decide alone."""

import asyncio
from typing import Any

import asyncpg
import pytest

from tests.integration.booking.booth import Booth
from tests.integration.booking.schedules import (
    LONG_GRACE,
    connections,
    guarded_or_not,
    hold,
    number_of,
    order,
    take_out,
    until_it_waits,
)

SEAT_LOCK = " FOR NO KEY UPDATE"


@guarded_or_not
async def test_create_order_and_a_takeover_never_wait_for_each_other(booth: Booth, guarded: bool) -> None:
    """Both come while a third has the record of a hold that is in its grace, the order first. The control counts the
    seats without locking them: so the takeover has the seats and wants the record, and the order the reverse."""
    held = await booth.hold("ann", 1, 2)
    await booth.age(held.hold_id, 1)
    if not guarded:
        await take_out(booth, "create_order", SEAT_LOCK)
    async with connections(booth, 3) as (third, ours, theirs):
        transaction = third.transaction()
        await transaction.start()
        await third.execute("SELECT FROM hold FOR UPDATE")
        ordering = asyncio.create_task(order(ours, "ann", number_of(held.hold_id), grace=LONG_GRACE))
        await until_it_waits(ordering, ours, booth)
        taking = asyncio.create_task(hold(theirs, "bob", "k", 1))
        await until_it_waits(taking, theirs, booth)
        await transaction.commit()
        outcomes: tuple[Any, Any] = await asyncio.gather(ordering, taking, return_exceptions=True)
    if guarded:
        assert [outcome["verdict"] for outcome in outcomes] == ["CREATED", ["LOST"]]
    else:
        assert [isinstance(outcome, asyncpg.DeadlockDetectedError) for outcome in outcomes].count(True) == 1
    assert await booth.broken() == {}


@pytest.mark.parametrize("locked", [True, False], ids=["seats locked", "seats only counted"])
async def test_create_order_of_seats_that_are_taken_over_meanwhile_takes_nothing(booth: Booth, locked: bool) -> None:
    """The takeover is not yet committed when the order looks at the seats. With its lock or without, the order finds
    that the hold has ended."""
    held = await booth.hold("ann", 1, 2)
    await booth.age(held.hold_id, 1)
    if not locked:
        await take_out(booth, "create_order", SEAT_LOCK)
    async with connections(booth, 2) as (ours, theirs):
        transaction = theirs.transaction()
        await transaction.start()
        assert (await hold(theirs, "bob", "k", 1))["verdict"] == ["HELD"]
        ordering = asyncio.create_task(order(ours, "ann", number_of(held.hold_id), grace=LONG_GRACE))
        await until_it_waits(ordering, ours, booth)
        assert not ordering.done()
        await transaction.commit()
        assert (await ordering)["verdict"] == "EXPIRED"
    assert await booth.execute("SELECT FROM orders") == []
    assert await booth.broken() == {}
