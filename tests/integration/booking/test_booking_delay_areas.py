"""Areas at two bookings that are 20 ms away from their database: the last units, and units that come back."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from rowlock.booking.v1 import booking_pb2 as pb

from services.booking.expiry import sweep_holds
from tests.integration.booking.booth import Booth, timestamp, told
from tests.integration.booking.replicas import Replicas
from tests.integration.booking.rounds import (
    answered,
    contest,
    deadlocks,
    failures,
    put_gate,
    run_rounds,
    seeded_and_control,
)
from tests.integration.booking.schedules import ACTIVE, GRACE
from tests.integration.booking.test_booking_area_races import ENOUGH, LOST
from tests.integration.booking.test_booking_areas import floor
from tests.integration.booking.test_booking_delay_orders import (
    FAILED,
    SUCCEEDED,
    abandoner,
    look_at,
    put_order_gates,
)
from tests.integration.booking.test_booking_outcome_races import ORDER_LOCK as ROW_LOCK
from tests.integration.booking.test_booking_outcome_races import READ_AGAIN

TAKE = "IF v_counter IS NOT NULL AND NOT p_all THEN"
NEW_HOLD = "v_now := date_trunc('milliseconds', clock_timestamp());"
STILL_TO_END = "AND h.state = 'ACTIVE' AND NOT h.swept"
ALL_LOCKED = "PERFORM lock_area(o.event_id, o.area_id);"
OWN_LOCKED = "ORDER BY c.counter FOR NO KEY UPDATE;"


async def let_oversell(booth: Booth) -> None:
    """The last guard of all; a control that is about another takes it away."""
    await booth.execute("ALTER TABLE area_counter DROP CONSTRAINT an_area_is_never_oversold")


async def sell(booth: Booth, capacity: int, *, counters: int = 1) -> None:
    """An area, with its units spread over so many counters; its orders can be cancelled."""
    end = timestamp(datetime.now(UTC) + timedelta(hours=1))
    await booth.internal.PutInventory(floor(capacity, cancel_end_time=end, resale=True))
    await booth.execute("UPDATE area_counter SET available = $1", capacity // counters)
    await booth.execute(
        "INSERT INTO area_counter (event_id, area_id, counter, available)"
        " SELECT event_id, area_id, generate_series(1, $1 - 1), available FROM area_counter",
        counters,
    )


def sweeps(replicas: Replicas, grace: timedelta = GRACE) -> list[Any]:
    """One at each booking."""
    return [sweep_holds(booth.shards["s1"], grace=grace) for booth in replicas.both]


async def paid_order(booth: Booth, quantity: int) -> str:
    order_id = await booth.order("ann", (await booth.units("ann", quantity)).hold_id)
    await booth.outcome(order_id, SUCCEEDED)
    return order_id


@seeded_and_control
async def test_hold_area_gives_the_last_unit_to_one(replicas: Replicas, seed: int) -> None:
    a, b = replicas.both
    await sell(a, 1)
    await put_gate(replicas, "hold_area", TAKE)
    if not seed:
        await replicas.take_out("hold_area", ENOUGH)
        await let_oversell(a)

    async def once(dice: random.Random) -> list[str]:
        found = await contest(replicas, dice, *((a, b)[n % 2].units(f"fan-{n}", 1) for n in range(6)), meet=3)
        wrong = failures(found, "TEMPORARILY_UNAVAILABLE")
        return wrong if len(answered(found)) == 1 else [*wrong, f"{len(answered(found))} got the last unit"]

    await run_rounds(replicas, seed, once, breaks="area_oversold")


@seeded_and_control
async def test_hold_area_gathers_the_last_units_of_many_counters(replicas: Replicas, seed: int) -> None:
    """Four counters of two, and everybody wants three: two get them, and somebody the two that are left."""
    a, b = replicas.both
    await sell(a, 8, counters=4)
    await put_gate(replicas, "take_units", "UPDATE area_counter c SET available = CASE")
    if not seed:
        await replicas.take_out("lock_area", "FOR NO KEY UPDATE")
        await let_oversell(a)

    async def once(dice: random.Random) -> list[str]:
        buyers = ((a, b)[n % 2].units(f"fan-{n}", 3) for n in range(5))
        found = await contest(replicas, dice, *buyers)
        wrong = failures(found, "NO_BLOCK")
        if any(isinstance(each, tuple) and each[1] != {"largest": "2"} for each in found):
            wrong.append(f"not what is left: {found}")
        last = await contest(replicas, dice, a.units("late-1", 2), b.units("late-2", 2))
        wrong += failures(last, "TEMPORARILY_UNAVAILABLE")
        got = len(answered(found)), len(answered(last))
        return wrong if got == (2, 1) else [*wrong, f"{got} got the last units"]

    await run_rounds(replicas, seed, once, breaks="area_units_do_not_add_up")
    assert not seed or not await deadlocks(a)


@seeded_and_control
async def test_units_of_an_expired_hold_come_back_once(replicas: Replicas, seed: int) -> None:
    """Its owner releases it at both bookings, both sweep, and buyers find it expired."""
    a, b = replicas.both
    await sell(a, 8, counters=2)
    await put_gate(replicas, "give_units_back", "UPDATE area_counter c")
    if not seed:
        await replicas.take_out("release_hold", ACTIVE)
        await replicas.take_out("give_holds_back", STILL_TO_END)

    async def once(dice: random.Random) -> list[str]:
        old = await a.units("ann", 8)
        await a.age(old.hold_id, dice.choice((1, 6)))
        buyers = [booth.units(f"fan-{n}", 4) for n, booth in enumerate((a, b, a))]
        releases = [booth.release("ann", old.hold_id) for booth in replicas.both]
        found = await contest(replicas, dice, *buyers, *releases, *sweeps(replicas))
        wrong = failures(found[:3], *LOST) + failures(found[3:])
        if len(answered(found[:3])) != 2:
            wrong.append(f"{len(answered(found[:3]))} got four of eight")
        if (await a.get_hold("ann", old.hold_id)).state != pb.HOLD_STATE_EXPIRED:
            wrong.append("the hold goes on")
        return wrong

    await run_rounds(replicas, seed, once, breaks="area_units_do_not_add_up")


@seeded_and_control
async def test_create_order_within_the_grace_meets_buyers_of_its_units(replicas: Replicas, seed: int) -> None:
    """The hold is just over. Its owner orders and releases, buyers want its units, sweepers are about: one has them."""
    a, b = replicas.both
    await sell(a, 8, counters=2)
    await put_order_gates(replicas)
    await put_gate(replicas, "hold_area", NEW_HOLD)
    if not seed:
        await replicas.take_out("create_order", ACTIVE)

    async def once(dice: random.Random) -> list[str]:
        old = await b.units("ann", 8)
        await b.age(old.hold_id, 1)
        release = [b.release("ann", old.hold_id)] if dice.random() < 0.3 else []
        order, *others = await contest(
            replicas,
            dice,
            a.order("ann", old.hold_id),
            a.units("bob", 8),
            b.units("cid", 8),
            *release,
            *sweeps(replicas, timedelta(0) if dice.random() < 0.3 else GRACE),
        )
        wrong = failures([order], "HOLD_EXPIRED") + failures(others, *LOST)
        got = len(answered([order])) + len(answered(others[:2]))
        return wrong if got == 1 or (got == 0 and "available" in (await a.areas())[1]) else [*wrong, f"{got} have all"]

    await run_rounds(replicas, seed, once, breaks="area_oversold")


@seeded_and_control
async def test_compensation_at_both_bookings_gives_units_back_once(replicas: Replicas, seed: int) -> None:
    """Payments tells it twice, an abandoner finds it out too, and another buyer waits for the units."""
    a, b = replicas.both
    await sell(a, 8, counters=2)
    await put_gate(replicas, "record_payment_outcome", "verdict := 'RECORDED';")
    if not seed:
        await replicas.take_out("record_payment_outcome", READ_AGAIN, ROW_LOCK)
        await replicas.take_out("lock_order_things", OWN_LOCKED, instead=";")
        await replicas.take_out("fail_order", "AND state = 'PENDING_PAYMENT'")

    async def once(dice: random.Random) -> list[str]:
        order_id = await a.order("ann", (await a.units("ann", 8)).hold_id)
        await a.execute("UPDATE orders SET create_time = create_time - interval '1 minute'")
        outcomes = [booth.outcome(order_id, FAILED, "CARD_DECLINED") for booth in replicas.both]
        found = await contest(
            replicas,
            dice,
            *outcomes,
            *(abandoner(booth).run_once() for booth in replicas.both),
            b.units("bob", 4),
            a.units("cid", 4),
            *sweeps(replicas),
        )
        wrong = failures(found, *LOST)
        return wrong if await told(a) == [("failed", 2)] else [*wrong, f"told {await told(a)}"]

    await run_rounds(replicas, seed, once, breaks="area_units_do_not_add_up")


@seeded_and_control
async def test_cancel_order_at_both_bookings_gives_units_back_once(replicas: Replicas, seed: int) -> None:
    """While its outcome is told again, and another buyer waits for the units."""
    a, b = replicas.both
    await sell(a, 8, counters=2)
    await put_gate(replicas, "cancel_order", "verdict := 'CANCELLED';")
    if not seed:
        await replicas.take_out("cancel_order", READ_AGAIN, ROW_LOCK)
        await replicas.take_out("lock_order_things", OWN_LOCKED, instead=";")
        await a.execute("ALTER TABLE refund_due DROP CONSTRAINT refund_due_pkey")

    async def once(dice: random.Random) -> list[str]:
        order_id = await paid_order(a, 8)
        cancels = [booth.cancel("ann", order_id) for booth in (a, b, b)]
        outcomes = [a.outcome(order_id, SUCCEEDED), b.outcome(order_id, FAILED, "CARD_DECLINED")]
        found = await contest(replicas, dice, *cancels, *outcomes, b.units("bob", 4), *sweeps(replicas))
        wrong = failures(found[:4]) + failures(found[4:5], "OUTCOME_CONFLICT") + failures(found[5:], *LOST)
        if {answer.state for answer in answered(found[:3])} != {pb.ORDER_STATE_CANCELLED}:
            wrong.append("not cancelled")
        (row,) = await a.execute("SELECT count(*) FROM refund_due")
        if (row["count"], await told(a)) != (1, [("confirmed", 2), ("cancelled", 3)]):
            wrong.append(f"{row['count']} refunds, told {await told(a)}")
        return wrong

    await run_rounds(replicas, seed, once, breaks="area_units_do_not_add_up")


@seeded_and_control
async def test_late_money_meets_buyers_of_its_units(replicas: Replicas, seed: int) -> None:
    """The order has failed, its money comes, told at both bookings, and all that is left would do for one."""
    a, b = replicas.both
    await sell(a, 8, counters=2)
    await put_gate(replicas, "retake_order", "IF v_won THEN")
    await put_gate(replicas, "hold_area", NEW_HOLD)
    if not seed:
        await replicas.take_out("lock_order_things", ALL_LOCKED, instead="NULL;")
        await let_oversell(a)

    async def once(dice: random.Random) -> list[str]:
        quantity = dice.choice((4, 8))
        order_id = await a.order("ann", (await a.units("ann", quantity)).hold_id)
        await a.outcome(order_id, FAILED, "TIMED_OUT")
        if quantity < 8:
            await a.units("dan", 8 - quantity)
        outcomes = [booth.outcome(order_id, SUCCEEDED) for booth in replicas.both]
        buyers = [booth.units(name, quantity) for name, booth in (("bob", b), ("cid", a))]
        found = await contest(replicas, dice, *outcomes, *buyers, *sweeps(replicas), meet=4)
        wrong = failures(found, "OUTCOME_CONFLICT", *LOST)
        retaken = (await look_at(a, order_id)).state == pb.ORDER_STATE_CONFIRMED
        got = retaken + len(answered(found[2:4]))
        return wrong if got == 1 else [*wrong, f"{got} have the last units"]

    await run_rounds(replicas, seed, once, breaks="area_oversold")
