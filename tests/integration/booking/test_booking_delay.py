"""Races between two bookings that are 20 ms away from their database. Each guard has a control: the same race with the
guard taken out, which must break."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from services.booking import gather
from services.booking.expiry import sweep_holds
from tests.integration.booking.booth import Booth, won
from tests.integration.booking.replicas import Replicas, answers
from tests.integration.booking.test_booking_races import (
    ACTIVE,
    FENCE,
    FREE,
    ORDER_LOCK,
    guarded_or_not,
    number_of,
)

HOLD_LOCK = "PERFORM pg_advisory_xact_lock(account_lock(p_event[i], p_account[i]));"
TRY_LOCK = "NOT pg_try_advisory_xact_lock(account_lock(p_event[i], p_account[i]))"
TRY_ORDER_LOCK = "CONTINUE WHEN NOT pg_try_advisory_xact_lock(account_lock(r.event_id, p_account[r.place]));"
WRITE = "v_now := date_trunc('milliseconds', clock_timestamp());"
WROTE_ALL = (
    "IF v_written <> v_wanted THEN RAISE EXCEPTION 'hold_seats wrote % of % seats', v_written, v_wanted; END IF;"
)
WAITING_LOCK = "ORDER BY s.event_id, s.seat_id FOR NO KEY UPDATE OF s) z) q;"


@asynccontextmanager
async def session(booth: Booth) -> AsyncIterator[asyncpg.Connection]:
    """One of the database's, near it."""
    connection = await asyncpg.connect(booth.dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def until_they_wait(booth: Booth, count: int = 1) -> None:
    """Until so many of the bookings' sessions wait for a lock."""
    sql = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND application_name LIKE 'booking%'"
    )
    for _ in range(300):
        if len(await booth.execute(sql)) >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("they do not wait")


@pytest.mark.parametrize("guard", ["guarded", "control-lock", "control-look"])
async def test_hold_seats_of_three_that_waits_for_one_while_another_goes(replicas: Replicas, guard: str) -> None:
    """Bob waits for seat 2, which is being given back; meanwhile seat 3 goes to Cid, at the other booking."""
    a, b = replicas.both
    if guard == "control-lock":  # without locks it decides on what was before the wait: it names 2, which it could have
        await replicas.take_out("hold_seats", WAITING_LOCK, instead="ORDER BY s.event_id, s.seat_id) z) q;")
    if guard == "control-look":
        await replicas.take_out("hold_seats", FREE, instead="true AS free")
    ann = await a.hold("ann", 2)
    async with session(a) as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT release_hold('ann', $1)", number_of(ann.hold_id))
        bob = asyncio.create_task(answers(b.hold("bob", 1, 2, 3)))
        if guard != "control-lock":
            await until_they_wait(a)
        cid = await a.hold("cid", 3)
        if guard == "control-lock":
            await bob
        await transaction.commit()
    (answer,) = await bob
    if guard == "guarded":
        assert answer == ("SEAT_UNAVAILABLE", {"lostSeatIds": "3"})
        assert await a.seats() == {"available": 19, "held": 1}
        assert (await a.get_hold("cid", cid.hold_id)).state == pb.HOLD_STATE_ACTIVE
        assert await a.broken() == {}
    elif guard == "control-lock":
        assert "2" in answer[1]["lostSeatIds"].split(",")
    else:
        assert answer.hold_id
        assert (await a.get_hold("cid", cid.hold_id)).state == pb.HOLD_STATE_EXPIRED


@guarded_or_not
async def test_hold_seats_keeps_an_accounts_cap_over_two_bookings(replicas: Replicas, guarded: bool) -> None:
    await replicas.slow_down("hold_seats", WRITE, 0.1)
    if not guarded:
        await replicas.take_out("hold_seats", HOLD_LOCK, instead="NULL;")
        await replicas.take_out("hold_seats", TRY_LOCK, instead="false")
    a, b = replicas.both
    wishes = [range(1, 6), range(6, 11), range(11, 16), range(16, 21)]
    found = await answers(*(booth.hold("ann", *seats) for booth, seats in zip((a, b, a, b), wishes, strict=True)))
    held = [answer for answer in found if isinstance(answer, pb.HoldSeatsResponse)]
    assert {answer[0] for answer in found if answer not in held} == {"TOO_MANY_TICKETS"}
    if guarded:
        assert len(held) == 1
        assert await a.broken() == {}
    else:
        assert len(held) == 2
        assert await a.broken() == {"account_over_its_cap": 1}


@guarded_or_not
async def test_hold_seats_that_share_a_seat_and_arrive_together(
    replicas: Replicas, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """{1, 2} and {2, 3} come while a call is under way, so that the next call could take both. It takes one. Were both
    in a call after all, it would fail and each run alone: the control is without that, too."""
    if not guarded:
        monkeypatch.setattr(gather.Gatherer, "_touched_by", lambda _, request: frozenset())
        await replicas.take_out("hold_seats", WROTE_ALL)
    first = asyncio.create_task(replicas.a.hold("ann", 20))
    await asyncio.sleep(0.01)
    bob, cid = await answers(replicas.a.hold("bob", 1, 2), replicas.a.hold("cid", 2, 3))
    await first
    if guarded:
        assert bob.hold_id
        assert cid == ("SEAT_UNAVAILABLE", {"lostSeatIds": "2"})
        assert await replicas.a.seats() == {"available": 17, "held": 3}
        assert await replicas.a.broken() == {}
    else:
        assert bob.hold_id
        assert cid.hold_id
        assert "hold_without_its_seats" in await replicas.a.broken()


async def test_a_call_of_hold_seats_with_a_shared_seat_fails_and_each_runs_alone(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather.Gatherer, "_touched_by", lambda _, request: frozenset())
    first = asyncio.create_task(replicas.a.hold("ann", 20))
    await asyncio.sleep(0.01)
    found = await answers(replicas.a.hold("bob", 1, 2), replicas.a.hold("cid", 2, 3), replicas.a.hold("dan", 5))
    await first
    assert found[2].hold_id
    assert sum(isinstance(answer, pb.HoldSeatsResponse) for answer in found[:2]) == 1
    assert ("SEAT_UNAVAILABLE", {"lostSeatIds": "2"}) in found
    assert await replicas.a.broken() == {}


@guarded_or_not
async def test_hold_seats_with_one_key_twice_in_a_batch_and_at_both_bookings(
    replicas: Replicas, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await replicas.slow_down("hold_seats", WRITE, 0.02)
    if not guarded:
        monkeypatch.setattr(gather.Gatherer, "_touched_by", lambda _, request: frozenset())
        await replicas.take_out("hold_seats", HOLD_LOCK, instead="NULL;")
        await replicas.take_out("hold_seats", TRY_LOCK, instead="false")
    first = [asyncio.create_task(booth.hold("ann", 20 - n)) for n, booth in enumerate(replicas.both)]
    await asyncio.sleep(0.01)
    found = await answers(*(booth.hold("bob", 1, 2, key="k") for booth in replicas.both for _ in range(3)))
    await asyncio.gather(*first)
    if guarded:
        assert len({answer.hold_id for answer in found}) == 1
        assert len({answer.expires_at.ToNanoseconds() for answer in found}) == 1
        (row,) = await replicas.a.execute("SELECT count(*) FROM hold WHERE account = 'bob'")
        assert row["count"] == 1
        assert await replicas.b.hold("bob", 1, 2, key="k") == found[0]
        assert await replicas.a.broken() == {}
    else:  # a caller is told that it lost to itself
        assert any(answer[0] == "SEAT_UNAVAILABLE" for answer in found if isinstance(answer, tuple))


@guarded_or_not
async def test_create_order_at_the_end_of_the_grace_is_counted_at_the_other_booking(
    replicas: Replicas, guarded: bool
) -> None:
    """The confirm is within the grace and commits after it; between the two the account asks for eight more."""
    a, b = replicas.both
    if not guarded:
        await replicas.take_out("create_order", ORDER_LOCK, instead="NULL")
        await replicas.take_out("create_orders", TRY_ORDER_LOCK)
    await replicas.slow_down("create_order", "verdict := 'CREATED';", 1.5)
    await replicas.slow_down("create_orders", "IF v_mine IS NULL THEN RETURN; END IF;", 1.5)
    held = await a.hold("ann", *range(1, 9))
    await a.age(held.hold_id, 4.3)
    confirm = asyncio.create_task(a.order("ann", held.hold_id))
    await asyncio.sleep(0.9)
    (more,) = await answers(b.hold("ann", *range(11, 19)))
    assert await confirm
    if guarded:
        assert more == ("TOO_MANY_TICKETS", {"limit": "8", "used": "8"})
        assert await a.broken() == {}
    else:
        assert more.hold_id
        assert "account_over_its_cap" in await a.broken()


@guarded_or_not
async def test_a_takeover_the_sweep_and_an_order_at_once(replicas: Replicas, guarded: bool) -> None:
    """Ten holds of two seats are just over. For each an order at one booking, a takeover of its first seat at the other
    and sweeps: at most one of order and takeover gets the seat, and nobody's seats are lost."""
    a, b = replicas.both
    if not guarded:
        await replicas.take_out("create_order", FENCE, ACTIVE)
    olds = [await a.hold(f"old-{seat}", seat, seat + 1) for seat in range(1, 20, 2)]
    for old in olds:
        await a.age(old.hold_id, 0.1)

    async def contest(number: int, old: Any) -> tuple[Any, ...]:
        seat = 2 * number + 1
        order = won(a.order(f"old-{seat}", old.hold_id), "HOLD_EXPIRED")
        takeover = won(b.hold(f"new-{seat}", seat), "SEAT_UNAVAILABLE")
        if number % 2:
            return tuple(reversed(await asyncio.gather(takeover, order)))
        return tuple(await asyncio.gather(order, takeover))

    async def sweep(booth: Booth) -> None:
        for _ in range(8):
            await sweep_holds(booth.shards["s1"], grace=timedelta(0))
            await asyncio.sleep(0.01)

    contests = asyncio.gather(*(contest(*each) for each in enumerate(olds)))
    results, *_ = await asyncio.gather(contests, sweep(a), sweep(b))
    if guarded:
        assert all(not (order and takeover) for order, takeover in results)
        assert any(order or takeover for order, takeover in results)
        counts = await a.seats()
        orders, takeovers = (sum(bool(each[n]) for each in results) for n in (0, 1))
        assert (counts.get("pending_payment", 0), counts.get("held", 0) >= takeovers) == (2 * orders, True)
        assert await a.broken() == {}
    else:
        assert await a.broken() != {}


@guarded_or_not
async def test_opposite_seat_orders_never_deadlock(replicas: Replicas, guarded: bool) -> None:
    """Two want the same seats, named in opposite orders, and wait for one in the middle. In the control the second
    locks in the order in which it named them: each then has what the other needs."""
    a, b = replicas.both
    if not guarded:
        named = (
            "ORDER BY CASE WHEN p_account[1] = 'bob' THEN -s.seat_id ELSE s.seat_id END FOR NO KEY UPDATE OF s) z) q;"
        )
        await replicas.take_out("hold_seats", WAITING_LOCK, instead=named)
    async with session(a) as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT FROM seat WHERE seat_id = 4 FOR UPDATE")
        calls = asyncio.create_task(answers(a.hold("ann", *range(1, 9)), b.hold("bob", *range(8, 0, -1))))
        await until_they_wait(a, 2)
        await transaction.commit()
    found = await calls
    assert sum(isinstance(answer, pb.HoldSeatsResponse) for answer in found) == 1
    assert ("SEAT_UNAVAILABLE", {"lostSeatIds": "1,2,3,4,5,6,7,8"}) in found
    await asyncio.sleep(1.1)  # sessions tell the count when they are idle for a second
    assert await replicas.deadlocks() == (0 if guarded else 1)
    assert await a.broken() == {}
