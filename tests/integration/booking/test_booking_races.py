"""Many callers at once, and schedules that a guard exists for. Each guard has a control: the same schedule with
the guard taken out of the function's text, which must break."""

import asyncio
import random
from datetime import timedelta
from uuid import UUID

import grpc
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.errors import reason_of
from services.booking.expiry import sweep_holds
from tests.integration.booking.booth import Booth, caller, refused, won
from tests.integration.booking.rounds import deadlocks, until_they_wait
from tests.integration.booking.schedules import (
    FREE,
    HOLD_LOCK,
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
async def test_hold_seats_of_one_seat_has_one_winner(booth: Booth, guarded: bool) -> None:
    if not guarded:
        await take_out(booth, "hold_seats", FREE, instead="true AS free")
    calls = (booth.hold(f"fan-{number}", 1) for number in range(40))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    reasons = [reason_of(answer) for answer in answers if isinstance(answer, grpc.RpcError)]
    winners = len(answers) - len(reasons)
    if guarded:
        assert winners == 1
        assert reasons == [("SEAT_UNAVAILABLE", {"lostSeatIds": "1"})] * 39
        assert await booth.broken() == {}
    else:
        assert winners > 1


async def test_200_accounts_buy_20_seats(booth: Booth) -> None:
    async def buy(number: int) -> str:
        account, wishes = f"fan-{number}", random.Random(number).sample(range(1, 21), 20)
        for seat in wishes:
            held = await won(booth.hold(account, seat), "SEAT_UNAVAILABLE")
            if held:
                return await booth.order(account, held.hold_id)
        return ""

    orders = [order_id for order_id in await asyncio.gather(*map(buy, range(200))) if order_id]
    assert len(orders) == 20
    await asyncio.gather(*(booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED) for order_id in orders))
    assert await booth.seats() == {"sold": 20}
    assert await booth.broken() == {}


ONE_STATEMENT = """
  WITH locked AS MATERIALIZED (
    SELECT seat_id FROM seat WHERE event_id = 7 AND seat_id = ANY ($2) ORDER BY seat_id FOR NO KEY UPDATE
  ), free AS MATERIALIZED (
    SELECT count(*) FROM locked JOIN seat s USING (seat_id) WHERE s.event_id = 7 AND s.state = 'AVAILABLE'
  )
  UPDATE seat s SET state = 'HELD', hold_id = $1, hold_expires_at = clock_timestamp() + interval '1 min' FROM free
   WHERE free.count = cardinality(CAST($2 AS int[]))
     AND s.event_id = 7 AND s.seat_id = ANY ($2) AND s.state = 'AVAILABLE'
"""


@guarded_or_not
async def test_hold_seats_takes_all_or_nothing(booth: Booth, guarded: bool) -> None:
    """While we wait for seat 2, seat 3 goes to another. The control locks and decides in one statement: it counts three
    free seats as they were before the wait, and takes the two that still are."""
    async with connections(booth, 3) as (other, third, ours):
        lock = other.transaction()
        await lock.start()
        await other.execute("SELECT FROM seat WHERE seat_id = 2 FOR UPDATE")
        if guarded:
            task = asyncio.create_task(hold(ours, "ann", "k", 1, 2, 3))
        else:
            task = asyncio.create_task(ours.execute(ONE_STATEMENT, UUID(int=1), [1, 2, 3]))
        await until_it_waits(task, ours, booth)
        assert not task.done()
        assert (await hold(third, "bob", "k", 3))["verdict"] == ["HELD"]
        await lock.commit()
        answer = await task
    (row,) = await booth.execute("SELECT count(*) FROM seat WHERE seat_id IN (1, 2) AND state = 'HELD'")
    if guarded:
        assert (answer["verdict"], answer["lost_seat"], row["count"]) == (["LOST"], [3], 0)
    else:
        assert row["count"] == 2


@guarded_or_not
async def test_hold_seats_takes_over_an_expired_hold_once(booth: Booth, guarded: bool) -> None:
    old = await booth.hold("old", 1, 2)
    await booth.age(old.hold_id, 1)
    if not guarded:
        await take_out(booth, "hold_seats", FREE, instead="z.state <> 'SOLD' AS free")
    calls = (booth.hold(f"fan-{number}", 1, 2) for number in range(20))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    winners = [answer for answer in answers if not isinstance(answer, grpc.RpcError)]
    if guarded:
        assert len(winners) == 1
        rows = await booth.execute("SELECT state, count(*) FROM hold GROUP BY state ORDER BY state")
        assert [tuple(row) for row in rows] == [("ACTIVE", 1), ("EXPIRED", 1)]
        assert await booth.broken() == {}
    else:
        assert len(winners) > 1


async def test_hold_seats_keeps_the_cap_of_parallel_requests(booth: Booth) -> None:
    calls = (booth.hold("ann", seat) for seat in range(1, 13))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    reasons = [reason_of(answer)[0] for answer in answers if isinstance(answer, grpc.RpcError)]
    assert reasons == ["TOO_MANY_TICKETS"] * 4
    assert await booth.broken() == {}


@guarded_or_not
async def test_hold_seats_counts_what_is_not_yet_committed(booth: Booth, guarded: bool) -> None:
    if not guarded:
        await take_out(booth, "hold_seats", HOLD_LOCK, instead="NULL;")
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        assert (await hold(first, "ann", "a", *range(1, 9)))["verdict"] == ["HELD"]
        task = asyncio.create_task(hold(second, "ann", "b", 9))
        await until_it_waits(task, second, booth)
        await transaction.commit()
        answer = await task
    assert answer["verdict"] == (["CAP"] if guarded else ["HELD"])
    assert await booth.broken() == ({} if guarded else {"account_over_its_cap": 1})


async def test_parallel_requests_with_one_key_get_one_hold_and_one_order(booth: Booth) -> None:
    holds = await asyncio.gather(*(booth.hold("ann", 1, 2, key="k") for _ in range(12)))
    assert len({held.hold_id for held in holds}) == 1
    assert len({held.expires_at.ToNanoseconds() for held in holds}) == 1
    orders = await asyncio.gather(*(booth.order("ann", holds[0].hold_id, key="k") for _ in range(12)))
    assert len(set(orders)) == 1
    rows = await booth.execute("SELECT (SELECT count(*) FROM hold) AS holds, (SELECT count(*) FROM outbox) AS charges")
    assert tuple(rows[0]) == (1, 1)


@guarded_or_not
async def test_a_key_that_is_not_yet_committed_is_waited_for(booth: Booth, guarded: bool) -> None:
    if not guarded:
        await take_out(booth, "hold_seats", HOLD_LOCK, instead="NULL;")
        await take_out(booth, "create_order", ORDER_LOCK, instead="NULL;")
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        held = await hold(first, "ann", "k", 1)
        task = asyncio.create_task(hold(second, "ann", "k", 1))
        await until_it_waits(task, second, booth)
        await transaction.commit()
        again = await task
        transaction = first.transaction()
        await transaction.start()
        created = await order(first, "ann", held["hold_id"][0])
        task = asyncio.create_task(order(second, "ann", held["hold_id"][0]))
        await until_it_waits(task, second, booth)
        await transaction.commit()
        ordered = await task
    if guarded:
        assert (again["verdict"], again["hold_id"]) == (["REPLAY"], held["hold_id"])
        assert (ordered["verdict"], ordered["order_id"]) == ("REPLAY", created["order_id"])
    else:  # a caller is told that it lost to itself
        assert (again["verdict"], ordered["verdict"]) == (["LOST"], "EXPIRED")


async def test_a_departed_callers_hold_stands(booth: Booth) -> None:
    async with connections(booth, 1) as (other,):
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT FROM seat WHERE seat_id = 1 FOR UPDATE")
        request = pb.HoldSeatsRequest(event_id="evt_s1_7", seat_ids=[1])
        call = booth.public.HoldSeats(request, metadata=caller("ann", key="k"))
        await until_they_wait(booth)
        assert call.cancel()
        await transaction.commit()
    for _ in range(1000):
        if await booth.execute("SELECT FROM hold"):
            break
        await asyncio.sleep(0.02)
    (row,) = await booth.execute("SELECT hold_id FROM hold")
    assert number_of((await booth.hold("ann", 1, key="k")).hold_id) == row["hold_id"]


async def test_a_session_that_is_lost_means_unknown(booth: Booth) -> None:
    async with connections(booth, 1) as (other,):
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT FROM seat WHERE seat_id = 1 FOR UPDATE")
        task = asyncio.create_task(refused(booth.hold("ann", 1, key="k")))
        ended = False
        while not ended:
            rows = await booth.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            ended = bool(rows)
        assert (await task)[:2] == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
        await transaction.commit()
    assert (await booth.hold("ann", 1, key="k")).hold_id


async def test_a_crowd_breaks_no_promise_and_no_lock_order(booth: Booth) -> None:
    """Three seconds of everything at once, or more on a slow machine, with expiries; then the invariants, and the
    server's count of deadlocks."""
    await booth.execute("UPDATE event SET hold_duration = interval '300 ms'")
    end = asyncio.get_running_loop().time() + 3
    lost, held, decided = 0, 0, 0

    def goes_on() -> bool:
        return asyncio.get_running_loop().time() < end or min(lost, held, decided) <= 10

    async def fan(number: int) -> None:
        nonlocal lost, held, decided
        dice, turn = random.Random(number), 0
        while goes_on():
            account, turn = f"fan-{number % 12}", turn + 1
            seats = dice.sample(range(1, 21), dice.randint(1, 4))
            call = booth.hold(account, *seats, key=f"{number}-{turn}")
            mine = await won(call, "SEAT_UNAVAILABLE", "TOO_MANY_TICKETS")
            if not mine:
                lost += 1
                continue
            held += 1
            await asyncio.sleep(dice.random() * 0.4)
            if dice.random() < 0.3:
                request = pb.ReleaseHoldRequest(hold_id=mine.hold_id)
                await booth.public.ReleaseHold(request, metadata=caller(account))
            elif dice.random() < 0.5:
                order_id = await won(booth.order(account, mine.hold_id), "HOLD_EXPIRED")
                if order_id:
                    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
                    decided += 1

    async def sweeper() -> None:
        while goes_on():
            await sweep_holds(booth.shards["s1"], grace=timedelta(milliseconds=100))
            await asyncio.sleep(0.05)

    await asyncio.gather(*map(fan, range(24)), sweeper(), sweeper())
    assert await booth.broken() == {}
    assert await deadlocks(booth) == 0
