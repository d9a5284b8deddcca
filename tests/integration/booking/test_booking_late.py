"""What comes late, when the seats are another's already: an order, a release, a sweep, a compensation. Each guard has a
control: the same schedule with the guard taken out of the function's text, which must break."""

import asyncio
from datetime import timedelta

import grpc
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.errors import reason_of
from services.booking.expiry import sweep_holds
from tests.integration.booking.booth import Booth, caller, refused, won
from tests.integration.booking.schedules import (
    ACTIVE,
    FENCE,
    FREE,
    GRACE,
    LONG_GRACE,
    ORDER_LOCK,
    connections,
    guarded_or_not,
    hold,
    number_of,
    order,
    take_out,
    until_it_waits,
)


@guarded_or_not
async def test_create_order_that_comes_after_a_takeover_takes_nothing(booth: Booth, guarded: bool) -> None:
    """Within the grace, so that the clock does not save it: the fence has to."""
    old = await booth.hold("ann", 1)
    await booth.age(old.hold_id, 1)
    if not guarded:
        await take_out(booth, "create_order", FENCE, ACTIVE)
    new = await booth.hold("bob", 1)
    if guarded:
        assert (await refused(booth.order("ann", old.hold_id)))[1] == "HOLD_EXPIRED"
        assert await booth.order("bob", new.hold_id)
        assert await booth.broken() == {}
    else:
        await booth.order("ann", old.hold_id)
        assert "hold_without_its_seats" in await booth.broken()


async def test_create_order_and_a_takeover_at_once_have_one_winner(booth: Booth) -> None:
    for seat in range(1, 21):
        await booth.age((await booth.hold(f"old-{seat}", seat, key="k")).hold_id, 1)
    rows = await booth.execute("SELECT hold_id, seats[1] AS seat FROM hold ORDER BY 2")
    olds = {row["seat"]: row["hold_id"] for row in rows}

    async def contest(seat: int) -> tuple[bool, bool]:
        async def confirm() -> bool:
            async with connections(booth, 1) as (connection,):
                return bool(
                    (await order(connection, f"old-{seat}", olds[seat], grace=LONG_GRACE))["verdict"] == "CREATED"
                )

        async def take_over() -> bool:
            return bool(await won(booth.hold(f"new-{seat}", seat), "SEAT_UNAVAILABLE"))

        confirmed, taken_over = await asyncio.gather(confirm(), take_over())
        return confirmed, taken_over

    for confirmed, taken_over in await asyncio.gather(*map(contest, range(1, 21))):
        assert confirmed != taken_over
    assert await booth.broken() == {}


@guarded_or_not
async def test_release_hold_that_comes_late_frees_nothing(booth: Booth, guarded: bool) -> None:
    old = await booth.hold("ann", 1)
    await booth.age(old.hold_id, 1)
    await booth.hold("bob", 1)
    if not guarded:
        await take_out(booth, "release_hold", FENCE, ACTIVE)
    await booth.public.ReleaseHold(pb.ReleaseHoldRequest(hold_id=old.hold_id), metadata=caller("ann"))
    if guarded:
        assert await booth.seats() == {"available": 19, "held": 1}
        assert await booth.broken() == {}
    else:
        assert await booth.broken() == {"hold_without_its_seats": 1}


@guarded_or_not
async def test_sweep_holds_that_comes_late_frees_nothing(booth: Booth, guarded: bool) -> None:
    old = await booth.hold("ann", 1)
    await booth.age(old.hold_id, 6)
    await booth.hold("bob", 1)
    if not guarded:
        fence = "AND s.state = 'HELD' AND s.hold_id = u.hold_id AND s.hold_expires_at = u.expires_at"
        await take_out(booth, "sweep_holds", fence)
    assert await sweep_holds(booth.shards["s1"], grace=GRACE) == 1
    if guarded:
        assert await booth.seats() == {"available": 19, "held": 1}
    else:
        assert await booth.broken() == {"hold_without_its_seats": 1}


@guarded_or_not
async def test_compensation_that_comes_late_frees_nothing(booth: Booth, guarded: bool) -> None:
    failed = await booth.order("ann", (await booth.hold("ann", 1)).hold_id)
    await booth.outcome(failed, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
    bob = await booth.order("bob", (await booth.hold("bob", 1)).hold_id)
    if not guarded:
        await take_out(
            booth, "record_payment_outcome", "o.state = 'PENDING_PAYMENT' AND p_outcome = 'FAILED'", instead="true"
        )
        await take_out(booth, "fail_order", "AND state = 'PENDING_PAYMENT'")
        fence = "AND s.order_id IS NOT DISTINCT FROM CASE WHEN p_from <> 'AVAILABLE' THEN p_order END"
        await take_out(booth, "move_order_seats", fence)
    assert await booth.outcome(failed, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED") == pb.ORDER_STATE_FAILED
    if guarded:
        assert await booth.seats() == {"available": 19, "pending_payment": 1}
        assert await booth.outcome(bob, pb.PAYMENT_OUTCOME_SUCCEEDED) == pb.ORDER_STATE_CONFIRMED
        assert await booth.broken() == {}
    else:
        assert await booth.broken() == {"order_without_its_seats": 1}


@guarded_or_not
async def test_the_unique_index_holds_when_every_state_guard_is_gone(booth: Booth, guarded: bool) -> None:
    ann = await booth.hold("ann", 1)
    await take_out(booth, "hold_seats", FREE, instead="true AS free")
    await take_out(booth, "create_order", FENCE, ACTIVE)
    bob = await booth.hold("bob", 1)
    if not guarded:
        await booth.execute("DROP INDEX a_seat_has_one_live_order")
    await booth.order("ann", ann.hold_id)
    if guarded:
        assert (await refused(booth.order("bob", bob.hold_id)))[0] == grpc.StatusCode.INTERNAL
        assert "seat_with_two_orders" not in await booth.broken()
    else:
        await booth.order("bob", bob.hold_id)
        assert (await booth.broken())["seat_with_two_orders"] == 1


@guarded_or_not
async def test_create_order_past_its_grace_is_counted_while_it_commits(booth: Booth, guarded: bool) -> None:
    """A confirm at the end of the grace, not yet committed when the grace is over; the account asks for eight more."""
    if not guarded:
        await take_out(booth, "create_order", ORDER_LOCK, instead="NULL;")
    held = await booth.hold("ann", *range(1, 9))
    await booth.age(held.hold_id, 1)
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        assert (await order(first, "ann", number_of(held.hold_id), grace=LONG_GRACE))["verdict"] == "CREATED"
        task = asyncio.create_task(hold(second, "ann", "b", *range(11, 19), grace=timedelta(0)))  # as if it were over
        await until_it_waits(task, second, booth)
        await transaction.commit()
        answer = await task
    assert answer["verdict"] == (["CAP"] if guarded else ["HELD"])


async def test_parallel_requests_with_other_keys_get_one_order(booth: Booth) -> None:
    held = await booth.hold("ann", 1)
    calls = (booth.order("ann", held.hold_id, key=f"k{number}") for number in range(12))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    (order_id,) = [answer for answer in answers if isinstance(answer, str)]
    refusals = [reason_of(answer) for answer in answers if isinstance(answer, grpc.RpcError)]
    assert refusals == [("ORDER_EXISTS", {"orderId": order_id})] * 11
