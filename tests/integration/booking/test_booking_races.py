"""Many callers at once, and schedules that a guard exists for. Each guard has a control: the same schedule with
the guard taken out of the function's text, which must break."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.errors import reason_of
from chassis.ids import parse_id
from services.booking.expiry import sweep_holds
from services.booking.store.holds import queries as hold_queries
from services.booking.store.orders import queries as order_queries
from tests.integration.booking.booth import Booth, caller, refused, won

EVENT = 7
GRACE = timedelta(seconds=5)
FREE = "z.state = 'AVAILABLE' OR z.state = 'HELD' AND z.hold_expires_at <= clock_timestamp() AS free"
FENCE = "AND s.state = 'HELD' AND s.hold_id = p_hold"
ACTIVE = "AND state = 'ACTIVE'"
HOLD_LOCK = "PERFORM pg_advisory_xact_lock(account_lock(p_event[i], p_account[i]))"
ORDER_LOCK = "PERFORM pg_advisory_xact_lock(account_lock(h.event_id, p_account))"

guarded_or_not = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])


async def take_out(booth: Booth, function: str, *guards: str, instead: str = "") -> None:
    """Replaces a function by itself without its guards."""
    (row,) = await booth.execute("SELECT pg_get_functiondef(CAST($1 AS regproc)) AS text", function)
    text = row["text"]
    for guard in guards:
        assert guard in text, f"{function} has no such guard: {guard}"
        text = text.replace(guard, instead)
    await booth.execute(text)


@asynccontextmanager
async def connections(booth: Booth, count: int) -> AsyncIterator[list[asyncpg.Connection]]:
    """Sessions of one's own, for schedules."""
    async with AsyncExitStack() as stack:
        opened = [await asyncpg.connect(booth.dsn) for _ in range(count)]
        for connection in opened:
            stack.push_async_callback(connection.close)
        yield opened


def hold(connection: asyncpg.Connection, account: str, key: str, *seats: int) -> Coroutine[Any, Any, Any]:
    """`hold_seats` for one request, in whatever transaction the connection is in."""
    return hold_queries.hold_seats(
        connection,
        wait=True,
        grace=GRACE,
        accounts=[account],
        events=[EVENT],
        keys=[key],
        fingerprints=[repr(seats).encode()],
        ends=[len(seats)],
        seat_requests=[1] * len(seats),
        seat_events=[EVENT] * len(seats),
        seats=list(seats),
    )


def order(connection: asyncpg.Connection, account: str, hold_number: UUID) -> Coroutine[Any, Any, Any]:
    """`create_order`, in whatever transaction the connection is in."""
    return order_queries.create_order(
        connection,
        account=account,
        hold=hold_number,
        key=str(hold_number),
        fingerprint=b"",
        email="",
        payment_token="pm",
        grace=GRACE,
    )


def number_of(hold_id: str) -> UUID:
    """As the database knows it."""
    found = parse_id("hld", hold_id)
    assert found
    return UUID(int=found[1])


async def until_it_waits(task: "asyncio.Task[Any]", connection: asyncpg.Connection, booth: Booth) -> None:
    """Until the task has ended, or its session waits for a lock."""
    sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'"
    for _ in range(200):
        if task.done() or await booth.execute(sql, connection.get_server_pid()):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it neither ended nor waits")


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
                return bool((await order(connection, f"old-{seat}", olds[seat]))["verdict"] == "CREATED")

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


async def test_hold_seats_keeps_the_cap_of_parallel_requests(booth: Booth) -> None:
    calls = (booth.hold("ann", seat) for seat in range(1, 13))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    reasons = [reason_of(answer)[0] for answer in answers if isinstance(answer, grpc.RpcError)]
    assert reasons == ["TOO_MANY_TICKETS"] * 4
    assert await booth.broken() == {}


@guarded_or_not
async def test_hold_seats_counts_what_is_not_yet_committed(booth: Booth, guarded: bool) -> None:
    if not guarded:
        await take_out(booth, "hold_seats", HOLD_LOCK, instead="NULL")
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


@guarded_or_not
async def test_create_order_past_its_grace_is_counted_while_it_commits(booth: Booth, guarded: bool) -> None:
    """A confirm at the end of the grace, not yet committed when the grace is over; the account asks for eight more."""
    if not guarded:
        await take_out(booth, "create_order", ORDER_LOCK, instead="NULL")
    held = await booth.hold("ann", *range(1, 9))
    await booth.age(held.hold_id, 4.5)
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        assert (await order(first, "ann", number_of(held.hold_id)))["verdict"] == "CREATED"
        await asyncio.sleep(0.6)
        task = asyncio.create_task(hold(second, "ann", "b", *range(11, 19)))
        await until_it_waits(task, second, booth)
        await transaction.commit()
        answer = await task
    assert answer["verdict"] == (["CAP"] if guarded else ["HELD"])


async def test_parallel_requests_with_one_key_get_one_hold_and_one_order(booth: Booth) -> None:
    holds = await asyncio.gather(*(booth.hold("ann", 1, 2, key="k") for _ in range(12)))
    assert len({held.hold_id for held in holds}) == 1
    assert len({held.expires_at.ToNanoseconds() for held in holds}) == 1
    orders = await asyncio.gather(*(booth.order("ann", holds[0].hold_id, key="k") for _ in range(12)))
    assert len(set(orders)) == 1
    rows = await booth.execute("SELECT (SELECT count(*) FROM hold) AS holds, (SELECT count(*) FROM outbox) AS charges")
    assert tuple(rows[0]) == (1, 1)


async def test_parallel_requests_with_other_keys_get_one_order(booth: Booth) -> None:
    held = await booth.hold("ann", 1)
    calls = (booth.order("ann", held.hold_id, key=f"k{number}") for number in range(12))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    (order_id,) = [answer for answer in answers if isinstance(answer, str)]
    refusals = [reason_of(answer) for answer in answers if isinstance(answer, grpc.RpcError)]
    assert refusals == [("ORDER_EXISTS", {"orderId": order_id})] * 11


@guarded_or_not
async def test_a_key_that_is_not_yet_committed_is_waited_for(booth: Booth, guarded: bool) -> None:
    if not guarded:
        await take_out(booth, "hold_seats", HOLD_LOCK, instead="NULL")
        await take_out(booth, "create_order", ORDER_LOCK, instead="NULL")
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
        call = booth.public.HoldSeats(request, metadata=caller("ann", key="k"), timeout=0.3)
        assert (await refused(call))[0] == grpc.StatusCode.DEADLINE_EXCEEDED
        await transaction.commit()
    for _ in range(100):
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
    """Three seconds of everything at once, with expiries; then the invariants, and the server's count of deadlocks."""
    await booth.execute("UPDATE event SET hold_duration = interval '300 ms'")
    end = asyncio.get_running_loop().time() + 3
    lost, held, decided = 0, 0, 0

    async def fan(number: int) -> None:
        nonlocal lost, held, decided
        dice, turn = random.Random(number), 0
        while asyncio.get_running_loop().time() < end:
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
        while asyncio.get_running_loop().time() < end:
            await sweep_holds(booth.shards["s1"], grace=timedelta(milliseconds=100))
            await asyncio.sleep(0.05)

    await asyncio.gather(*map(fan, range(24)), sweeper(), sweeper())
    assert min(lost, held, decided) > 10
    assert await booth.broken() == {}
    (row,) = await booth.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert row["deadlocks"] == 0
