"""Areas and cancellations at once. Each guard has a control: the same schedule with the guard taken out of the
function's text, which must break."""

import asyncio
import random
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.errors import reason_of
from chassis.ids import parse_id
from services.booking.expiry import sweep_holds
from services.booking.store.areas import queries as area_queries
from services.booking.store.orders import queries as order_queries
from services.booking.tickets import issue_tickets
from tests.integration.booking.booth import Booth, timestamp, told, won
from tests.integration.booking.rounds import deadlocks, gated, through_gate
from tests.integration.booking.schedules import (
    EVENT,
    GRACE,
    LONG_GRACE,
    connections,
    guarded_or_not,
    number_of,
    order,
    take_out,
    until_it_waits,
)
from tests.integration.booking.test_booking_areas import floor

ENOUGH = "AND available >= p_quantity"
ACTIVE = "AND state = 'ACTIVE'"
LOST = ("SOLD_OUT", "TEMPORARILY_UNAVAILABLE", "NO_BLOCK")


def units(
    connection: asyncpg.Connection, account: str, quantity: int, *, everything: bool = False
) -> Coroutine[Any, Any, Any]:
    """`hold_area`, in whatever transaction the connection is in."""
    return area_queries.hold_area(
        connection,
        event=EVENT,
        account=account,
        key="k",
        fingerprint=b"",
        area=1,
        quantity=quantity,
        grace=GRACE,
        all=everything,
    )


def order_number(order_id: str) -> UUID:
    """As the database knows it."""
    found = parse_id("ord", order_id)
    assert found
    return UUID(int=found[1])


async def test_400_accounts_want_300_units(booth: Booth) -> None:
    """Everything is sold, nothing twice, and those who lose learn the truth."""
    await booth.internal.PutInventory(floor(300))
    dice = random.Random(7)
    wishes = [dice.randint(1, 4) for _ in range(400)]
    calls = (booth.units(f"fan-{number}", quantity) for number, quantity in enumerate(wishes))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    reasons = {reason_of(answer)[0] for answer in answers if isinstance(answer, grpc.RpcError)}
    assert reasons <= set(LOST)
    left = (await booth.areas())[1].get("available", 0)
    assert left < 4
    for number in range(left):  # whoever asks for few enough gets them
        assert await booth.units(f"late-{number}", 1)
    assert await booth.areas() == {1: {"held": 300}}
    assert await booth.broken() == {}


@pytest.mark.parametrize("guards", ["both", "the constraint", "none"])
async def test_hold_area_takes_the_last_unit_once(booth: Booth, guards: str) -> None:
    """Two see one unit; the second waits for the first's lock. The statement's guard tells it; where that is gone, the
    constraint ends it; where both are, the unit is sold twice."""
    await booth.internal.PutInventory(floor(1))
    if guards != "both":
        await take_out(booth, "hold_area", ENOUGH)
    if guards == "none":
        await booth.execute("ALTER TABLE area_counter DROP CONSTRAINT an_area_is_never_oversold")
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        assert (await units(first, "ann", 1))["verdict"] == "HELD"
        task = asyncio.create_task(units(second, "bob", 1))
        await until_it_waits(task, second, booth)
        await transaction.commit()
        if guards == "the constraint":
            with pytest.raises(asyncpg.CheckViolationError, match="an_area_is_never_oversold"):
                await task
        else:
            assert (await task)["verdict"] == ("AGAIN" if guards == "both" else "HELD")
        if guards == "both":
            assert (await units(second, "bob", 1, everything=True))["verdict"] == "ALL_HELD"
    assert await booth.broken() == ({"area_oversold": 1} if guards == "none" else {})


@guarded_or_not
async def test_whoever_needs_many_counters_locks_all_at_once(booth: Booth, guarded: bool) -> None:
    """Two that take from several counters, from opposite ends. Without the order one of them dies of a deadlock."""
    await booth.internal.PutInventory(floor(800))
    await booth.execute("UPDATE area_counter SET available = 1")
    await booth.execute("UPDATE area SET capacity = 16")
    if not guarded:
        text = "SELECT count(*), sum(z.available) INTO v_counters, v_available FROM ("
        one_by_one = (
            "FOR v_counters IN SELECT c.counter FROM area_counter c WHERE c.event_id = p_event AND c.area_id = p_area"
            " ORDER BY CASE WHEN txid_current() % 2 = 0 THEN c.counter ELSE -c.counter END LOOP"
            " PERFORM FROM area_counter c WHERE c.event_id = p_event AND c.area_id = p_area AND c.counter = v_counters"
            " FOR NO KEY UPDATE; PERFORM pg_sleep(0.02); END LOOP; "
        )
        await take_out(booth, "lock_area", text, instead=one_by_one + text)
    calls = (booth.units(f"fan-{number}", 2) for number in range(8))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    found = await deadlocks(booth, least=0 if guarded else 1)
    if guarded:
        assert not [answer for answer in answers if isinstance(answer, BaseException)]
        assert await booth.areas() == {1: {"held": 16}}
        assert await booth.broken() == {}
        assert found == 0
    else:
        assert found > 0


@guarded_or_not
async def test_a_hold_of_an_area_gives_back_once_to_many(booth: Booth, guarded: bool) -> None:
    """A release, sweepers and buyers that find it expired, all at once. The control pins neither state nor sweep."""
    await booth.internal.PutInventory(floor(8))
    old = await booth.units("ann", 8)
    await booth.age(old.hold_id, 6)
    if not guarded:
        await take_out(booth, "release_hold", ACTIVE)
        await take_out(booth, "give_holds_back", "AND h.state = 'ACTIVE' AND NOT h.swept")

    async def buyers() -> None:
        for number in range(4):
            await won(booth.units(f"fan-{number}", 4), *LOST)

    await asyncio.gather(
        *(booth.release("ann", old.hold_id) for _ in range(4)),
        *(sweep_holds(booth.shards["s1"], grace=GRACE) for _ in range(4)),
        buyers(),
    )
    if guarded:
        assert await booth.areas() == {1: {"held": 8}}
        assert await booth.broken() == {}
    else:
        assert (await booth.broken())["area_units_do_not_add_up"] == 1


@guarded_or_not
async def test_create_order_of_units_given_to_another_takes_nothing(booth: Booth, guarded: bool) -> None:
    """Within the grace, so that the clock does not save it: the hold's record has to."""
    await booth.internal.PutInventory(floor(8))
    old = await booth.units("ann", 8)
    await booth.age(old.hold_id, 1)
    if not guarded:
        await take_out(booth, "create_order", ACTIVE)
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        assert (await units(first, "bob", 8))["verdict"] == "HELD"
        task = asyncio.create_task(order(second, "ann", number_of(old.hold_id), grace=LONG_GRACE))
        await until_it_waits(task, second, booth)
        await transaction.commit()
        answer = await task
    assert answer["verdict"] == ("EXPIRED" if guarded else "CREATED")
    broken = await booth.broken()
    assert broken == {} if guarded else "area_oversold" in broken


async def test_create_order_and_a_buyer_of_its_expired_units_have_one_winner(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(8))
    for turn in range(12):
        old = await booth.units(f"old-{turn}", 8)
        await booth.age(old.hold_id, 1)
        confirmed, taken = await asyncio.gather(
            won(booth.order(f"old-{turn}", old.hold_id), "HOLD_EXPIRED"), won(booth.units(f"new-{turn}", 8), *LOST)
        )
        assert bool(confirmed) != bool(taken)
        assert await booth.broken() == {}
        if confirmed:
            await booth.outcome(confirmed, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
        if taken:
            await booth.release(f"new-{turn}", taken.hold_id)
    assert await booth.areas() == {1: {"available": 8}}


@guarded_or_not
async def test_compensation_gives_units_back_once(booth: Booth, guarded: bool) -> None:
    await booth.internal.PutInventory(floor(10))
    order_id = await booth.order("ann", (await booth.units("ann", 4)).hold_id)
    if not guarded:
        await take_out(
            booth, "record_payment_outcome", "PERFORM pg_advisory_xact_lock(account_lock(o.event_id, o.account));"
        )
        await take_out(booth, "record_payment_outcome", " FOR NO KEY UPDATE;", instead=";")
        await take_out(booth, "lock_order_things", "FOR NO KEY UPDATE")
        await take_out(booth, "fail_order", "AND state = 'PENDING_PAYMENT'")
    await take_out(booth, "fail_order", "UPDATE orders", instead=gated("UPDATE orders"))
    calls = (booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED") for _ in range(6))
    assert not [each for each in await through_gate(booth, *calls) if isinstance(each, BaseException)]
    if guarded:
        assert await booth.areas() == {1: {"available": 10}}
        assert await told(booth) == [("failed", 2)]
        assert await booth.broken() == {}
    else:
        assert await booth.broken() == {"area_units_do_not_add_up": 1}


async def _cancellable(booth: Booth, **changes: Any) -> None:
    end = timestamp(datetime.now(UTC) + timedelta(hours=1))
    await booth.internal.PutInventory(floor(10, cancel_end_time=end, resale=True, **changes))


@guarded_or_not
async def test_cancel_order_twice_at_once_gives_back_once(booth: Booth, guarded: bool) -> None:
    await _cancellable(booth)
    order_id = await booth.order("ann", (await booth.units("ann", 4)).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    if not guarded:
        await take_out(booth, "cancel_order", "PERFORM pg_advisory_xact_lock(account_lock(o.event_id, o.account));")
        await take_out(
            booth, "cancel_order", "WHERE order_id = p_order FOR NO KEY UPDATE;", instead="WHERE order_id = p_order;"
        )
        await take_out(booth, "lock_order_things", "FOR NO KEY UPDATE")
        await booth.execute("ALTER TABLE refund_due DROP CONSTRAINT refund_due_pkey")
    await take_out(booth, "cancel_order", "verdict := 'CANCELLED';", instead=gated("verdict := 'CANCELLED';"))
    answers = await through_gate(booth, *(booth.cancel("ann", order_id) for _ in range(6)))
    assert {answer.state for answer in answers} == {pb.ORDER_STATE_CANCELLED}
    if guarded:
        assert await booth.areas() == {1: {"available": 10}}
        assert await told(booth) == [("confirmed", 2), ("cancelled", 3)]
        assert await booth.broken() == {}
    else:
        assert (await booth.broken())["area_units_do_not_add_up"] == 1


async def test_cancel_order_while_its_outcome_is_told_again(booth: Booth) -> None:
    await _cancellable(booth)
    for number, make in enumerate([lambda a: booth.units(a, 4), lambda a: booth.hold(a, 1, 2)] * 4):
        account = f"fan-{number}"
        order_id = await booth.order(account, (await make(account)).hold_id)
        await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
        await asyncio.gather(
            booth.cancel(account, order_id),
            *(booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED) for _ in range(3)),
            *(won(booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "X"), "OUTCOME_CONFLICT") for _ in range(3)),
            issue_tickets(booth.shards["s1"]),
        )
        assert (await booth.get_order(account, order_id)).state == pb.ORDER_STATE_CANCELLED
    assert await booth.seats() == {"available": 20}
    assert await booth.areas() == {1: {"available": 10}}
    assert await booth.broken() == {}


@guarded_or_not
async def test_cancel_order_and_a_scan_have_one_winner(booth: Booth, guarded: bool) -> None:
    await _cancellable(booth)
    order_id = await booth.order("ann", (await booth.hold("ann", 1, 2)).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    await issue_tickets(booth.shards["s1"])
    if not guarded:
        await take_out(
            booth,
            "cancel_order",
            "PERFORM FROM ticket t WHERE t.order_id = p_order ORDER BY t.ticket_id FOR NO KEY UPDATE;",
        )
    async with connections(booth, 2) as (gate, ours):
        transaction = gate.transaction()
        await transaction.start()
        await gate.execute("UPDATE ticket SET state = 'USED' WHERE seat_id = 1 AND state = 'VALID'")
        call = order_queries.cancel_order(ours, account="ann", order=order_number(order_id))
        task = asyncio.create_task(call)
        await until_it_waits(task, ours, booth)
        await transaction.commit()
        answer = await task
    if guarded:
        assert answer["verdict"] == "USED"
        assert await booth.seats() == {"available": 18, "sold": 2}
        assert await booth.broken() == {}
    else:
        assert answer["verdict"] == "CANCELLED"
        assert await booth.broken() == {"ticket_without_its_order": 1}


async def test_a_crowd_on_areas_and_seats_breaks_no_promise(booth: Booth) -> None:
    """Three seconds of everything at once, or more on a slow machine, with expiries; then the invariants, and the
    server's count of deadlocks."""
    await _cancellable(booth, tickets_per_account=6)
    await booth.execute("UPDATE event SET hold_duration = interval '300 ms'")
    end = asyncio.get_running_loop().time() + 3
    done = {"held": 0, "lost": 0, "cancelled": 0, "failed": 0}
    reasons = (*LOST, "SEAT_UNAVAILABLE", "TOO_MANY_TICKETS")

    def goes_on() -> bool:
        return asyncio.get_running_loop().time() < end or min(done.values()) <= 3

    async def fan(number: int) -> None:
        dice, turn = random.Random(number), 0
        while goes_on():
            account, turn = f"fan-{number % 12}", turn + 1
            if dice.random() < 0.6:
                call = booth.units(account, dice.randint(1, 3), key=f"{number}-{turn}")
            else:
                call = booth.hold(account, *dice.sample(range(1, 21), 2), key=f"{number}-{turn}")
            mine = await won(call, *reasons)
            done["held" if mine else "lost"] += 1
            if not mine:
                continue
            await asyncio.sleep(dice.random() * 0.4)
            if dice.random() < 0.3:
                await booth.release(account, mine.hold_id)
                continue
            order_id = await won(booth.order(account, mine.hold_id), "HOLD_EXPIRED")
            if order_id and dice.random() < 0.5:
                await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
                done["failed"] += 1
            elif order_id:
                await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
                await asyncio.gather(booth.cancel(account, order_id), booth.cancel(account, order_id))
                done["cancelled"] += 1

    async def sweeper() -> None:
        while goes_on():
            await sweep_holds(booth.shards["s1"], grace=timedelta(milliseconds=100))
            await issue_tickets(booth.shards["s1"])
            await asyncio.sleep(0.05)

    await asyncio.gather(*map(fan, range(20)), sweeper(), sweeper())
    assert await booth.broken() == {}
    await asyncio.sleep(0.5)
    while await sweep_holds(booth.shards["s1"], grace=timedelta(milliseconds=100)):
        pass
    assert (await booth.seats(), await booth.areas()) == ({"available": 20}, {1: {"available": 10}})
    assert await deadlocks(booth) == 0
