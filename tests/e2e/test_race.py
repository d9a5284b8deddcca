"""Two hundred buyers, twenty seats, two booking processes: who gets them is decided once, by the rows."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc

from tests.support.buyers import Account, Gateway, publish_event
from tests.support.stacks import Stack

BUYERS, SEATS = 200, 20
LIVE = (booking_pb2.ORDER_STATE_PENDING_PAYMENT, booking_pb2.ORDER_STATE_CONFIRMED)
GUARD = "z.state = 'AVAILABLE' OR z.state = 'HELD' AND z.hold_expires_at <= clock_timestamp() AS free"


@dataclass
class Race:
    """What the buyers were told."""

    event_id: str
    statuses: Counter[int]
    reasons: Counter[str]
    orders: list[str]


async def race(stack: Stack, gateway: Gateway) -> Race:
    """Each buyer tries each seat, in an order of its own, until it has one; who has one buys it."""
    event_id, seats = await publish_event(stack.endpoints["catalog"], SEATS)
    accounts = await gateway.accounts(BUYERS)
    await asyncio.gather(*(account.enter(event_id) for account in accounts))
    result = Race(event_id, Counter(), Counter(), [])

    async def buy(number: int, account: Account) -> None:
        tries = random.Random(number).sample(seats, 4)
        for seat in tries:
            answer = await account.hold(event_id, [seat])
            result.statuses[answer.status] += 1
            result.reasons[answer.reason] += 1
            if answer.status == 201:
                ordered = await account.order(answer.body["holdId"])
                result.statuses[ordered.status] += 1
                if ordered.status == 202:
                    result.orders.append(ordered.body["orderId"])
                return
            assert answer.reason != "SEAT_UNAVAILABLE" or answer.metadata["lostSeatIds"] == str(seat)

    await asyncio.gather(*(buy(number, account) for number, account in enumerate(accounts)))
    return result


async def orders_of(booking: str, event_id: str) -> list[booking_pb2.EventOrder]:
    """Once none is pending."""
    async with grpc.aio.insecure_channel(booking) as channel:
        admin = booking_pb2_grpc.BookingAdminServiceStub(channel)
        for _ in range(150):
            page = await admin.ListEventOrders(booking_pb2.ListEventOrdersRequest(event_id=event_id))
            if all(order.state != booking_pb2.ORDER_STATE_PENDING_PAYMENT for order in page.orders):
                return list(page.orders)
            await asyncio.sleep(0.2)
    raise AssertionError("an order is pending after 30 s")


async def check(stack: Stack, gateway: Gateway, result: Race) -> None:
    """Twenty sold; the others 409; nothing else; each order one capture."""
    assert result.statuses[201] == SEATS
    assert set(result.statuses) == {201, 202, 409}
    assert set(result.reasons) == {"", "SEAT_UNAVAILABLE"}
    orders = await orders_of(stack.endpoints["booking"][0], result.event_id)
    assert sorted(order.order_id for order in orders) == sorted(result.orders)
    owners = Counter(seat for order in orders if order.state in LIVE for seat in order.seat_ids)
    assert len(owners) == SEATS
    assert max(owners.values()) == 1
    captures = await gateway.captures()
    assert [captures.get(order.order_id) for order in orders] == [[52_000]] * SEATS


@pytest.mark.parametrize("time", ["first", "second"])
async def test_a_seat_is_sold_once_to_two_hundred_buyers(stack: Stack, gateway: Gateway, time: str) -> None:
    assert len(stack.pids("booking")) == 2
    await check(stack, gateway, await race(stack, gateway))


async def test_without_the_guard_the_same_race_breaks(stack: Stack, gateway: Gateway) -> None:
    connection = await asyncpg.connect(stack.database("booking_s1"))
    whole = await connection.fetchval("SELECT pg_get_functiondef('hold_seats'::regproc)")
    assert GUARD in whole
    try:
        await connection.execute(whole.replace(GUARD, "true AS free"))
        result = await race(stack, gateway)
        with pytest.raises(AssertionError):
            await check(stack, gateway, result)
        assert result.statuses[201] > SEATS
    finally:
        await connection.execute(whole)
        await connection.close()
