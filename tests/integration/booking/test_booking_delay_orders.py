"""Orders at two bookings that are 20 ms away from their database: who orders, who lets go, and what outcomes meet."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from rowlock.booking.v1 import booking_pb2 as pb

from services.booking.abandon import Abandoner
from services.booking.expiry import sweep_holds
from services.booking.orders import Orders
from services.booking.rows import AbandonAnswer
from services.booking.sales import Sales
from tests.integration.booking.booth import Booth, inventory, timestamp, told, won
from tests.integration.booking.replicas import Replicas
from tests.integration.booking.rounds import answered, contest, failures, lost, put_gate, run_rounds, seeded_and_control
from tests.integration.booking.schedules import ACTIVE, FENCE, GRACE, ORDER_LOCK, TRY_ORDER_LOCK, WRITE
from tests.integration.booking.test_booking_outcome_races import ORDER_LOCK as ROW_LOCK
from tests.integration.booking.test_booking_outcome_races import READ_AGAIN, SEAT_LOCK

ORDERED = "verdict := 'CREATED';"
ORDERED_TOGETHER = "UPDATE hold h SET state = 'CONFIRMED'"
ALL_MOVED = "IF v_written <> cardinality(p_seats) THEN"
OWNER = (
    "AND s.state = p_from\n     AND s.order_id IS NOT DISTINCT FROM CASE WHEN p_from <> 'AVAILABLE' THEN p_order END"
)
SUCCEEDED, FAILED = pb.PAYMENT_OUTCOME_SUCCEEDED, pb.PAYMENT_OUTCOME_FAILED
BOUND = timedelta(seconds=10)


class GivesUp:
    """Stands where payments is: it has never heard of the order, so it ends it."""

    async def abandon_order(self, order_id: str) -> AbandonAnswer:
        return AbandonAnswer("FAILED", "ABANDONED")


def abandoner(booth: Booth) -> Abandoner:
    """One of the booking's workers."""
    orders = Orders(shards=booth.shards, sales=Sales(), grace=GRACE, created=lambda _: None, confirmed=lambda _: None)
    return Abandoner(shard=booth.shards["s1"], orders=orders, payments=GivesUp(), bound=BOUND)


async def put_order_gates(replicas: Replicas) -> None:
    """With the hold and its seats locked."""
    await put_gate(replicas, "create_order", ORDERED)
    await put_gate(replicas, "create_orders", ORDERED_TOGETHER)


async def unlock_orders(replicas: Replicas, function: str) -> None:
    """A function that decides on an order as it was before it waited, and writes whatever became of it meanwhile."""
    await replicas.take_out(function, READ_AGAIN, ROW_LOCK)
    await replicas.take_out("lock_order_things", SEAT_LOCK)
    await replicas.take_out("move_order_seats", ALL_MOVED, instead="IF false THEN")


async def sell_with_cancellation(booth: Booth) -> None:
    end = timestamp(datetime.now(UTC) + timedelta(hours=1))
    await booth.internal.PutInventory(inventory(version=2, cancel_end_time=end, resale=True))


async def order_of_ann(booth: Booth, *seats: int) -> str:
    return await booth.order("ann", (await booth.hold("ann", *seats)).hold_id)


async def look_at(booth: Booth, order_id: str) -> pb.Order:
    return await booth.get_order("ann", order_id)


@seeded_and_control
async def test_create_order_of_one_hold_with_two_keys(replicas: Replicas, seed: int) -> None:
    """At both bookings, each key twice: one order, and every other key hears of it."""
    a, b = replicas.both
    await put_order_gates(replicas)
    if not seed:  # then the second waits for the seats only, and is told that its hold had run out
        await replicas.take_out("create_order", ORDER_LOCK, instead="NULL;")
        await replicas.take_out("create_orders", TRY_ORDER_LOCK)

    async def once(dice: random.Random) -> list[str]:
        held = await a.hold("ann", 1, 2)
        keys = ["k1", "k2", "k1", "k2"]
        calls = (booth.order("ann", held.hold_id, key=key) for booth, key in zip((a, b, b, a), keys, strict=True))
        found = await contest(replicas, dice, *calls)
        wrong = ["an order called expired"] if lost(found, "HOLD_EXPIRED") else []
        wrong += failures(found, "ORDER_EXISTS", "HOLD_EXPIRED")
        ids = {*answered(found), *(each[1].get("orderId") for each in found if isinstance(each, tuple) if each[1])}
        (row,) = await a.execute("SELECT count(*) AS orders, (SELECT count(*) FROM outbox) AS charges FROM orders")
        if len(ids) != 1 or tuple(row) != (1, 1):
            wrong.append(f"{len(ids)} orders told, {row['orders']} made, {row['charges']} charged")
        if len({key for key, each in zip(keys, found, strict=True) if isinstance(each, str)}) != 1:
            wrong.append("an order was told to two keys, or none")
        return wrong

    await run_rounds(replicas, seed, once, breaks="an order called expired")


@seeded_and_control
async def test_create_order_and_release_hold_have_one_winner(replicas: Replicas, seed: int) -> None:
    """The hold is live or just over; another wants its seats meanwhile, and sweepers are about."""
    a, b = replicas.both
    await put_order_gates(replicas)
    await put_gate(replicas, "release_hold", "UPDATE seat s SET state = 'AVAILABLE'")
    if not seed:
        await replicas.take_out("release_hold", ACTIVE)

    async def once(dice: random.Random) -> list[str]:
        held = await a.hold("ann", 1, 2)
        if dice.random() < 0.3:
            await a.age(held.hold_id, 1)
        releases = [booth.release("ann", held.hold_id) for booth in dice.choice(((a,), (b,), (a, b)))]
        order, bob, *others = await contest(
            replicas,
            dice,
            a.order("ann", held.hold_id),
            b.hold("bob", 2),
            *releases,
            sweep_holds(b.shards["s1"], grace=GRACE),
        )
        wrong = failures([order], "HOLD_EXPIRED") + failures([bob], "SEAT_UNAVAILABLE") + failures(others)
        state = (await a.get_hold("ann", held.hold_id)).state
        if isinstance(order, str) != (state == pb.HOLD_STATE_CONFIRMED):
            wrong.append("order and hold disagree")
        if isinstance(order, str) and answered([bob]):
            wrong.append("two have seat 2")
        return wrong

    await run_rounds(replicas, seed, once, breaks="hold_and_order_disagree")


@seeded_and_control
async def test_create_order_within_the_grace_and_two_takeovers(replicas: Replicas, seed: int) -> None:
    """Ann's hold of two is just over: she orders, and each of its seats is wanted by another, at either booking."""
    a, b = replicas.both
    await put_order_gates(replicas)
    await put_gate(replicas, "hold_seats", WRITE)
    if not seed:
        await replicas.take_out("create_order", FENCE, ACTIVE)

    async def once(dice: random.Random) -> list[str]:
        held = await b.hold("ann", 1, 2)
        await a.age(held.hold_id, 1)
        order, *takers = await contest(replicas, dice, a.order("ann", held.hold_id), a.hold("bob", 1), b.hold("cid", 2))
        wrong = failures([order], "HOLD_EXPIRED") + failures(takers, "SEAT_UNAVAILABLE")
        if bool(answered([order])) == bool(answered(takers)):
            wrong.append("both or none")
        return wrong

    await run_rounds(replicas, seed, once, breaks="hold_without_its_seats")


@seeded_and_control
async def test_outcomes_meet_abandoners_cancels_sweeps_and_another_buyer(replicas: Replicas, seed: int) -> None:
    """Payments' message says paid while an abandoner hears that it is given up. One is first; what was paid and has no
    seats is owed back."""
    a, b = replicas.both
    await sell_with_cancellation(a)
    await put_gate(replicas, "record_payment_outcome", "verdict := 'RECORDED';")
    if not seed:
        await unlock_orders(replicas, "record_payment_outcome")

    async def once(dice: random.Random) -> list[str]:
        order_id = await order_of_ann(a, 1, 2)
        await a.execute("UPDATE orders SET create_time = create_time - interval '1 minute'")
        *outcomes, x, y, bob, _, _, _, _ = await contest(
            replicas,
            dice,
            a.outcome(order_id, SUCCEEDED),
            b.outcome(order_id, SUCCEEDED),
            a.cancel("ann", order_id),
            b.cancel("ann", order_id),
            b.hold("bob", 2),
            *(abandoner(booth).run_once() for booth in replicas.both),
            *(sweep_holds(booth.shards["s1"], grace=GRACE) for booth in replicas.both),
            meet=3,
        )
        wrong = failures(outcomes, "OUTCOME_CONFLICT") + failures([x, y], "NOT_CANCELLABLE")
        wrong += failures([bob], "SEAT_UNAVAILABLE")
        order = await look_at(a, order_id)
        if order.payment_state != pb.PAYMENT_STATE_SUCCEEDED:
            wrong.append("money was forgotten")
        if order.state == pb.ORDER_STATE_CONFIRMED and answered([bob]):
            wrong.append("two have seat 2")
        versions = [version for _, version in await told(a)]
        return wrong if versions == [*range(2, 2 + len(versions))] else [*wrong, f"told {versions}"]

    await run_rounds(replicas, seed, once, breaks="money was forgotten")


@seeded_and_control
async def test_late_money_meets_another_buyer(replicas: Replicas, seed: int) -> None:
    """Ann's order has failed. Her money comes, told at both bookings, while others want one of the seats each, and she
    holds as much as she may."""
    a, b = replicas.both
    await put_gate(replicas, "retake_order", "IF v_won THEN")
    await put_gate(replicas, "hold_seats", WRITE)
    if not seed:
        await replicas.take_out("lock_order_things", SEAT_LOCK)
        await replicas.take_out("move_order_seats", ALL_MOVED, instead="IF false THEN")

    async def once(dice: random.Random) -> list[str]:
        order_id = await order_of_ann(a, 1, 2)
        await a.outcome(order_id, FAILED, "TIMED_OUT")
        calls: list[Any] = [a.outcome(order_id, SUCCEEDED), b.outcome(order_id, SUCCEEDED)]
        calls += [b.hold("bob", 2), a.hold("cid", 1), b.hold("ann", *range(3, 3 + dice.choice((1, 7, 8))))]
        dice.shuffle(calls)
        found = await contest(replicas, dice, *calls, meet=4)
        wrong = failures(found, "OUTCOME_CONFLICT", "SEAT_UNAVAILABLE", "TOO_MANY_TICKETS")
        state = (await look_at(a, order_id)).state
        takers = await a.execute("SELECT FROM seat WHERE seat_id < 3 AND state = 'HELD'")
        if state == pb.ORDER_STATE_CONFIRMED and takers:
            wrong.append("two have a seat")
        return wrong

    await run_rounds(replicas, seed, once, breaks="order_without_its_seats")


@seeded_and_control
async def test_cancel_order_at_both_bookings_before_another_buyer(replicas: Replicas, seed: int) -> None:
    """The seats come back once: who buys them next keeps them, whatever another cancel of the first order does."""
    a, b = replicas.both
    await sell_with_cancellation(a)
    await put_gate(replicas, "cancel_order", "verdict := 'CANCELLED';", seconds="random() * 0.4")
    if not seed:
        await unlock_orders(replicas, "cancel_order")
        await replicas.take_out("move_order_seats", OWNER)
        await a.execute("ALTER TABLE refund_due DROP CONSTRAINT refund_due_pkey")

    async def buy_next(booth: Booth) -> str:
        for number in range(100):
            held = await won(booth.hold("bob", 1, 2, key=f"{number}"), "SEAT_UNAVAILABLE")
            if held:
                return await booth.order("bob", held.hold_id)
        raise AssertionError("they never came back")

    async def once(dice: random.Random) -> list[str]:
        order_id = await order_of_ann(a, 1, 2)
        await a.outcome(order_id, SUCCEEDED)
        calls = (booth.cancel("ann", order_id) for booth in (a, b, b))
        *cancels, _ = await contest(replicas, dice, *calls, buy_next(b))
        wrong = failures(cancels)
        if {answer.state for answer in answered(cancels)} != {pb.ORDER_STATE_CANCELLED}:
            wrong.append("not cancelled")
        if await told(a) != [("confirmed", 2), ("cancelled", 3)]:
            wrong.append(f"told {await told(a)}")
        (row,) = await a.execute("SELECT count(*) FROM refund_due")
        return wrong if row["count"] == 1 else [*wrong, f"{row['count']} refunds"]

    await run_rounds(replicas, seed, once, breaks="order_without_its_seats")
