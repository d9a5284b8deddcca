"""Races between two bookings that are 20 ms away from their database. Each guard has a control: the same race with the
guard taken out, which must break."""

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from structlog.testing import capture_logs

from services.booking import gather
from services.booking.expiry import sweep_holds
from tests.integration.booking.booth import Booth, won
from tests.integration.booking.replicas import Replicas, answers
from tests.integration.booking.rounds import (
    answered,
    broken_promises,
    closed_gate,
    contest,
    deadlocks,
    failures,
    lost,
    put_gate,
    run_rounds,
    seeded_and_control,
    session,
    until_they_wait,
)
from tests.integration.booking.schedules import (
    ACTIVE,
    FENCE,
    FREE,
    HOLD_LOCK,
    ORDER_LOCK,
    TRY_LOCK,
    TRY_ORDER_LOCK,
    WAITING_LOCK,
    WRITE,
    WROTE_ALL,
    guarded_or_not,
    number_of,
)


def share_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes whatever has come, also what touches the same."""
    monkeypatch.setattr(gather.Gatherer, "_touched_by", lambda _, request: frozenset())


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when something has come to a gatherer."""
    came, ask = asyncio.Event(), gather.Gatherer.ask

    def watched(self: Any, request: Any) -> Any:
        came.set()
        return ask(self, request)

    monkeypatch.setattr(gather.Gatherer, "ask", watched)
    return came


async def arrive_together(replicas: Replicas, asked: asyncio.Event, *calls: Any) -> list[Any]:
    """Calls that come to booking `a` in turn while a call of its is under way, so that the next may take them all."""
    await put_gate(replicas, "hold_seats", WRITE)
    async with closed_gate(replicas.a):
        tasks = [asyncio.create_task(answers(replicas.a.hold("ann", 20)))]
        await until_they_wait(replicas.a)
        for call in calls:
            asked.clear()
            tasks.append(asyncio.create_task(answers(call)))
            await asked.wait()
    return [found for (found,) in (await asyncio.gather(*tasks))[1:]]


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
        assert await broken_promises(replicas) == []
    elif guard == "control-lock":
        assert "2" in answer[1]["lostSeatIds"].split(",")
    else:
        assert answer.hold_id
        assert (await a.get_hold("cid", cid.hold_id)).state == pb.HOLD_STATE_EXPIRED


@seeded_and_control
async def test_hold_seats_keeps_an_accounts_cap_over_two_bookings(replicas: Replicas, seed: int) -> None:
    """Four holds of five at once; eight tickets are the most."""
    a, b = replicas.both
    await put_gate(replicas, "hold_seats", WRITE)
    if not seed:
        await replicas.take_out("hold_seats", HOLD_LOCK, instead="NULL;")
        await replicas.take_out("hold_seats", TRY_LOCK, instead="false")

    async def once(dice: random.Random) -> list[str]:
        calls = (booth.hold("ann", *range(seat, seat + 5)) for booth, seat in ((a, 1), (b, 6), (a, 11), (b, 16)))
        found = await contest(replicas, dice, *calls)
        wrong = failures(found, "TOO_MANY_TICKETS")
        return wrong if len(answered(found)) == 1 else [*wrong, f"{len(answered(found))} holds"]

    await run_rounds(replicas, seed, once, breaks="account_over_its_cap")


@guarded_or_not
async def test_hold_seats_that_share_a_seat_and_arrive_together(
    replicas: Replicas, asked: asyncio.Event, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """{1, 2} and {2, 3}. A call takes one of them. Were both in a call after all, it would fail and each run alone: the
    control is without that, too."""
    if not guarded:
        share_everything(monkeypatch)
        await replicas.take_out("hold_seats", WROTE_ALL)
    bob, cid = await arrive_together(replicas, asked, replicas.a.hold("bob", 1, 2), replicas.a.hold("cid", 2, 3))
    if guarded:
        assert bob.hold_id
        assert cid == ("SEAT_UNAVAILABLE", {"lostSeatIds": "2"})
        assert await replicas.a.seats() == {"available": 17, "held": 3}
        assert await broken_promises(replicas) == []
    else:
        assert bob.hold_id
        assert cid.hold_id
        assert "hold_without_its_seats" in await broken_promises(replicas)


async def test_a_call_of_hold_seats_with_a_shared_seat_fails_and_each_runs_alone(
    replicas: Replicas, asked: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_everything(monkeypatch)
    reruns = gather.RERUNS.labels("hold_seats")._value
    before = reruns.get()
    calls = (replicas.a.hold("bob", 1, 2), replicas.a.hold("cid", 2, 3), replicas.a.hold("dan", 5))
    found = await arrive_together(replicas, asked, *calls)
    assert found[2].hold_id
    assert len(answered(found)) == 2
    assert ("SEAT_UNAVAILABLE", {"lostSeatIds": "2"}) in found
    assert reruns.get() >= before + 3
    assert await broken_promises(replicas) == []


@pytest.mark.parametrize("guard", ["guarded", "count", "index", "control"])
async def test_a_call_of_hold_seats_takes_a_key_once(
    replicas: Replicas, asked: asyncio.Event, guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay that arrives together with what it repeats. Were both in a call after all, it would notice that it wrote
    too few seats; else the index of the keys would fail it. Each then runs alone. The control is without all three."""
    if guard != "guarded":
        share_everything(monkeypatch)
    if guard in ("index", "control"):
        await replicas.take_out("hold_seats", WROTE_ALL)
    if guard == "control":
        await replicas.a.execute("DROP INDEX hold_is_unique_by_key")
    calls = (replicas.a.hold("bob", 1, 2, key="k"), replicas.a.hold("bob", 1, 2, key="k"), replicas.a.hold("cid", 3))
    with capture_logs() as logs:
        first, again, other = await arrive_together(replicas, asked, *calls)
    failed = [log["error"] for log in logs if log["event"] == "a call of many requests failed"]
    assert other.hold_id
    if guard == "control":
        assert first.hold_id != again.hold_id
        assert failed == []
        assert "hold_without_its_seats" in await broken_promises(replicas)
        return
    assert (again.hold_id, again.expires_at) == (first.hold_id, first.expires_at)
    why = {"count": "wrote 3 of 5 seats", "index": "hold_is_unique_by_key"}
    assert len(failed) == (guard in why)
    assert guard == "guarded" or why[guard] in failed[0]
    assert await replicas.a.seats() == {"available": 16, "held": 4}
    assert await broken_promises(replicas) == []


@seeded_and_control
async def test_hold_seats_with_one_key_many_times_at_both_bookings(
    replicas: Replicas, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_gate(replicas, "hold_seats", WRITE)
    if not seed:
        share_everything(monkeypatch)
        await replicas.take_out("hold_seats", HOLD_LOCK, instead="NULL;")
        await replicas.take_out("hold_seats", TRY_LOCK, instead="false")

    async def once(dice: random.Random) -> list[str]:
        calls = (booth.hold("bob", 1, 2, key="k") for booth in replicas.both for _ in range(3))
        found = await contest(replicas, dice, *calls)
        wrong = ["lost to itself"] if lost(found, "SEAT_UNAVAILABLE") else []
        wrong += failures(found, "SEAT_UNAVAILABLE")
        told = {(each.hold_id, each.expires_at.ToNanoseconds()) for each in answered(found)}
        (row,) = await replicas.a.execute("SELECT count(*) FROM hold")
        return wrong if (len(told), row["count"]) == (1, 1) else [*wrong, f"told {told}, of {row['count']}"]

    await run_rounds(replicas, seed, once, breaks="lost to itself")


@guarded_or_not
async def test_create_order_at_the_end_of_the_grace_is_counted_at_the_other_booking(
    replicas: Replicas, guarded: bool
) -> None:
    """The confirm is within the grace and commits after it; between the two the account asks for eight more."""
    a, b = replicas.both
    if not guarded:
        await replicas.take_out("create_order", ORDER_LOCK, instead="NULL;")
        await replicas.take_out("create_orders", TRY_ORDER_LOCK)
    await put_gate(replicas, "create_order", "verdict := 'CREATED';")
    await put_gate(replicas, "create_orders", "UPDATE hold h SET state = 'CONFIRMED'")
    held = await a.hold("ann", *range(1, 9))
    await a.age(held.hold_id, 2.5)
    async with closed_gate(a):
        confirm = asyncio.create_task(a.order("ann", held.hold_id))
        await until_they_wait(a)
        await asyncio.sleep(2.6)
        more = asyncio.create_task(answers(b.hold("ann", *range(11, 19))))
        if guarded:
            await until_they_wait(a, 2)
        else:
            await more
    assert await confirm
    if guarded:
        assert await more == [("TOO_MANY_TICKETS", {"limit": "8", "used": "8"})]
        assert await broken_promises(replicas) == []
    else:
        assert (await more)[0].hold_id
        assert "account_over_its_cap" in await broken_promises(replicas)


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
        assert await broken_promises(replicas) == []
    else:
        assert await broken_promises(replicas)


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
    assert len(answered(found)) == 1
    assert ("SEAT_UNAVAILABLE", {"lostSeatIds": "1,2,3,4,5,6,7,8"}) in found
    assert await deadlocks(a, least=0 if guarded else 1) == (0 if guarded else 1)
    assert await broken_promises(replicas) == []
