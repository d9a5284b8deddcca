"""Outcomes that meet something else on its way. Each guard of `record_payment_outcome` has its control."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.ids import parse_id
from services.booking.store.orders import queries
from tests.integration.booking.booth import Booth
from tests.integration.booking.schedules import (
    GRACE,
    connections,
    guarded_or_not,
    hold,
    take_out,
    until_it_waits,
)

ACCOUNT_LOCK = "PERFORM pg_advisory_xact_lock(account_lock(o.event_id, o.account));"
SEAT_LOCK = (
    "PERFORM FROM seat s WHERE s.event_id = o.event_id AND s.seat_id = ANY (v_seats)"
    " ORDER BY s.seat_id FOR NO KEY UPDATE;"
)
READ_AGAIN = f"{ACCOUNT_LOCK}\n  SELECT * INTO o FROM orders WHERE order_id = p_order;"
ORDER_LOCK = "SELECT * INTO o FROM orders WHERE order_id = p_order FOR NO KEY UPDATE;"


async def tell(connection: asyncpg.Connection, order_id: str, outcome: str) -> Any:
    """`record_payment_outcome`, in whatever transaction the connection is in."""
    found = parse_id("ord", order_id)
    assert found
    number = UUID(int=found[1])
    return await queries.record_payment_outcome(connection, order=number, outcome=outcome, reason="X", grace=GRACE)


async def order_of_ann(booth: Booth, *, failed: bool) -> str:
    """For seats 1 and 2."""
    order_id = await booth.order("ann", (await booth.hold("ann", 1, 2)).hold_id)
    if failed:
        await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "TIMED_OUT")
    return order_id


@guarded_or_not
async def test_late_money_counts_a_hold_that_is_not_yet_committed(booth: Booth, guarded: bool) -> None:
    order_id = await order_of_ann(booth, failed=True)
    if not guarded:
        await take_out(booth, "record_payment_outcome", ACCOUNT_LOCK)
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        assert (await hold(first, "ann", "k", *range(3, 11)))["verdict"] == ["HELD"]
        task = asyncio.create_task(tell(second, order_id, "SUCCEEDED"))
        await until_it_waits(task, second, booth)
        await transaction.commit()
        answer = await task
    assert answer["verdict"] == ("CONFLICT" if guarded else "RETAKEN")
    assert await booth.broken() == ({} if guarded else {"account_over_its_cap": 1})


@guarded_or_not
async def test_late_money_waits_for_a_hold_of_its_seats(booth: Booth, guarded: bool) -> None:
    """The control counts both seats as free, then waits, and gets one of them."""
    order_id = await order_of_ann(booth, failed=True)
    if not guarded:
        await take_out(booth, "lock_order_things", SEAT_LOCK)
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        assert (await hold(first, "bob", "k", 2))["verdict"] == ["HELD"]
        task = asyncio.create_task(tell(second, order_id, "SUCCEEDED"))
        await until_it_waits(task, second, booth)
        await transaction.commit()
        if guarded:
            assert (await task)["verdict"] == "CONFLICT"
        else:
            with pytest.raises(asyncpg.RaiseError, match="has 1 of its 2 seats"):
                await task
    assert await booth.seats() == {"available": 19, "held": 1}
    assert await booth.broken() == {}


@guarded_or_not
async def test_two_outcomes_of_one_order_are_judged_one_after_the_other(booth: Booth, guarded: bool) -> None:
    """The control decides on the order as it was before the wait: nothing is undone, and no conflict is told."""
    order_id = await order_of_ann(booth, failed=False)
    if not guarded:
        await take_out(booth, "record_payment_outcome", READ_AGAIN, ORDER_LOCK)
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        assert (await tell(first, order_id, "SUCCEEDED"))["order_state"] == "CONFIRMED"
        task = asyncio.create_task(tell(second, order_id, "FAILED"))
        await until_it_waits(task, second, booth)
        await transaction.commit()
        answer = await task
        assert (answer["verdict"], answer["order_state"]) == ("CONFLICT" if guarded else "RECORDED", "CONFIRMED")
    assert await booth.seats() == {"available": 18, "sold": 2}
    assert await booth.broken() == {}
