"""Holds and orders that are gathered, against a real database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.errors import Unavailable
from services.booking.gather import Gatherer
from services.booking.rows import HoldRequest, HoldVerdict, OrderRequest
from services.booking.store.holds import HoldCalls
from services.booking.store.orders import OrderCalls
from tests.integration.booking.booth import Booth, inventory, refused
from tests.integration.booking.test_booking_batches import request
from tests.integration.booking.test_booking_holds import GRACE

guarded_or_not = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])


def touched_by(request: HoldRequest) -> Iterable[Any]:
    return [request.account, *request.seats]


@asynccontextmanager
async def held_up(
    booth: Booth, touched: Callable[[HoldRequest], Iterable[Any]] = touched_by
) -> AsyncIterator[tuple[Gatherer[HoldRequest, HoldVerdict], list[int], asyncio.Event]]:
    """A gatherer whose calls of many requests wait for the event, and the sizes of those calls."""
    calls, gate, sizes = HoldCalls(booth.shards["s1"], grace=GRACE), asyncio.Event(), list[int]()

    async def together(requests: Any) -> list[HoldVerdict]:
        sizes.append(len(requests))
        await gate.wait()
        return await calls.together(requests)

    gatherer = Gatherer("hold_seats", together, calls.alone(), touched)
    yield gatherer, sizes, gate
    gate.set()
    await gatherer.close()


async def ask_all(
    gatherer: Gatherer[HoldRequest, HoldVerdict], gate: asyncio.Event, *requests: HoldRequest
) -> list[HoldVerdict]:
    """All at once, while a first call is under way."""
    first = asyncio.create_task(gatherer.ask(request("first", 20)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks = [asyncio.create_task(gatherer.ask(one)) for one in requests]
    await asyncio.sleep(0)
    gate.set()
    verdicts = await asyncio.gather(*tasks)
    assert (await first).word == "HELD"
    return verdicts


@guarded_or_not
async def test_requests_that_share_a_seat_are_not_in_one_call(booth: Booth, guarded: bool) -> None:
    """Without the guard the function notices that it wrote too little, and each runs again alone."""
    async with held_up(booth, touched_by if guarded else lambda one: [one.account]) as (gatherer, sizes, gate):
        reruns = gatherer.reruns._value.get()
        verdicts = await ask_all(gatherer, gate, request("ann", 1, 2), request("bob", 2, 3), request("cid", 4))
        assert sorted(verdict.word for verdict in verdicts) == ["HELD", "HELD", "LOST"]
        assert next(v for v in verdicts if v.word == "LOST").lost_seats == (2,)
        assert sizes == ([1, 2, 1] if guarded else [1, 3])
        assert gatherer.reruns._value.get() - reruns == (0 if guarded else 3)
    assert await booth.broken() == {}


@guarded_or_not
async def test_requests_of_one_account_are_not_in_one_call(booth: Booth, guarded: bool) -> None:
    async with held_up(booth, touched_by if guarded else lambda one: one.seats) as (gatherer, _, gate):
        mine = (request("ann", *range(1, 6), key="a"), request("ann", *range(6, 11), key="b"))
        verdicts = await ask_all(gatherer, gate, *mine)
    assert [verdict.word for verdict in verdicts] == (["HELD", "CAP"] if guarded else ["HELD", "HELD"])
    assert await booth.broken() == ({} if guarded else {"account_over_its_cap": 1})


async def test_a_replay_that_arrives_with_its_first_is_the_same_hold(booth: Booth) -> None:
    async with held_up(booth) as (gatherer, sizes, gate):
        verdicts = await ask_all(gatherer, gate, request("ann", 1), request("ann", 1), request("ann", 2))
    assert [verdict.word for verdict in verdicts] == ["HELD", "REPLAY", "REUSED"]
    assert verdicts[0].hold == verdicts[1].hold
    assert sizes == [1, 1, 1, 1]


async def test_one_bad_request_fails_no_neighbour(booth: Booth) -> None:
    async with held_up(booth) as (gatherer, sizes, gate):
        bad = asyncio.create_task(gatherer.ask(request("nul\0", 1)))
        tasks = [asyncio.create_task(gatherer.ask(request(f"fan-{seat}", seat))) for seat in range(2, 9)]
        await asyncio.sleep(0)
        gate.set()
        assert [verdict.word for verdict in await asyncio.gather(*tasks)] == ["HELD"] * 7
        with pytest.raises(asyncpg.PostgresError):
            await bad
        assert sizes[0] == 8
    assert await booth.broken() == {}


async def test_a_lock_of_another_is_waited_for_alone_and_is_no_loss(booth: Booth) -> None:
    other = await asyncpg.connect(booth.dsn)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SELECT FROM seat WHERE seat_id = 1 FOR UPDATE")
    async with held_up(booth) as (gatherer, _, gate):
        waits = asyncio.create_task(gatherer.ask(request("ann", 1, 2)))
        others = [asyncio.create_task(gatherer.ask(request(f"fan-{seat}", seat))) for seat in (3, 4, 5)]
        gate.set()
        assert [verdict.word for verdict in await asyncio.gather(*others)] == ["HELD"] * 3
        assert (await gatherer.ask(request("later", 6))).word == "HELD"
        assert not waits.done()
        await transaction.rollback()
        assert (await waits).word == "HELD"
    await other.close()


async def test_a_lost_connection_is_opened_again_and_every_request_has_its_answer(booth: Booth) -> None:
    await booth.hold("ann", 1)
    ended = await booth.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'booking-holds%'"
    )
    assert ended
    assert (await booth.hold("bob", 2)).hold_id
    holds = await asyncio.gather(*(booth.hold(f"fan-{seat}", seat) for seat in range(3, 15)))
    assert len({hold.hold_id for hold in holds}) == 12
    assert await booth.broken() == {}


async def test_a_call_whose_answer_is_lost_is_asked_again_by_its_keys(booth: Booth) -> None:
    """The call commits and its connection goes: each request finds what it made."""
    calls = HoldCalls(booth.shards["s1"], grace=GRACE)

    async def together(requests: Any) -> list[HoldVerdict]:
        await calls.together(requests)
        raise Unavailable("the answer is lost")

    gatherer = Gatherer("hold_seats", together, calls.alone(), touched_by)
    verdicts = await asyncio.gather(*(gatherer.ask(request(f"fan-{seat}", seat)) for seat in range(1, 9)))
    await gatherer.close()
    assert [verdict.word for verdict in verdicts] == ["REPLAY"] * 8
    assert await booth.seats() == {"available": 12, "held": 8}


async def test_a_database_that_is_away_means_unknown(booth: Booth) -> None:
    shard = replace(booth.shards["s1"], dsn="postgresql://app@127.0.0.1:1/nothing", kept=[])
    calls = HoldCalls(shard, grace=GRACE)
    gatherer = Gatherer("hold_seats", calls.together, calls.alone(), touched_by)
    with pytest.raises(Unavailable):
        await gatherer.ask(request("ann", 1))
    await gatherer.close()


async def order_request(booth: Booth, account: str, *seats: int, key: str = "k") -> OrderRequest:
    """For a hold that is made now."""
    await booth.hold(account, *seats)
    (row,) = await booth.execute("SELECT hold_id FROM hold WHERE account = $1 AND seats = $2", account, list(seats))
    return OrderRequest(account, row["hold_id"], key, b"x", f"{account}@example.test", "pm_card_visa")


async def words(orders: OrderCalls, *requests: OrderRequest) -> list[str]:
    """Of a call of many."""
    return [verdict.word for verdict in await orders.together(requests)]


async def test_create_orders_makes_what_create_order_makes(booth: Booth) -> None:
    orders = OrderCalls(booth.shards["s1"], grace=GRACE)
    requests = [await order_request(booth, f"fan-{seat}", seat, seat + 1) for seat in (1, 3, 5)]
    alone = await order_request(booth, "alone", 7, 8)
    assert await words(orders, *requests) == ["CREATED"] * 3
    assert [verdict.word for verdict in await orders.alone([alone])] == ["CREATED"]
    rows = await booth.execute(
        "SELECT DISTINCT ticket_count, currency_code, total_amount, fee_amount, state, payment_state, version,"
        " (SELECT count(*) FROM order_seat b WHERE b.order_id = o.order_id AND b.live) AS seats,"
        " (SELECT array_agg(kind || payload::text) FROM outbox m WHERE m.aggregate_id = o.order_id::text) AS messages"
        " FROM orders o"
    )
    assert len(rows) == 1
    assert await booth.seats() == {"available": 12, "pending_payment": 8}
    assert await booth.broken() == {}


async def test_create_orders_leaves_all_that_is_not_plain(booth: Booth) -> None:
    orders = OrderCalls(booth.shards["s1"], grace=GRACE)
    requests = {name: await order_request(booth, name, seat) for seat, name in enumerate(NOT_PLAIN, 1)}
    plain = await order_request(booth, "plain", 19)
    assert (await orders.alone([requests["replay"]]))[0].word == "CREATED"
    await booth.execute("UPDATE hold SET expires_at = clock_timestamp() - interval '6 s' WHERE account = 'over'")
    await booth.execute(
        "UPDATE seat s SET hold_expires_at = h.expires_at FROM hold h"
        " WHERE h.hold_id = s.hold_id AND h.account = 'over'"
    )
    other = await asyncpg.connect(booth.dsn)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SELECT FROM seat WHERE seat_id = $1 FOR UPDATE", list(NOT_PLAIN).index("seat locked") + 1)
    await other.execute("SELECT FROM hold WHERE account = 'hold locked' FOR UPDATE")
    await other.execute("SELECT pg_advisory_xact_lock(account_lock(7, 'account locked'))")
    requests["not mine"] = requests["not mine"]._replace(account="thief")
    assert await words(orders, *requests.values(), plain) == ["BUSY"] * len(requests) + ["CREATED"]
    await transaction.rollback()
    await other.close()
    found = {name: (await orders.alone([one]))[0].word for name, one in requests.items()}
    assert found == NOT_PLAIN
    assert await booth.broken() == {}


NOT_PLAIN = {
    "replay": "REPLAY",
    "over": "EXPIRED",
    "seat locked": "CREATED",
    "hold locked": "CREATED",
    "account locked": "CREATED",
    "not mine": "NO_HOLD",
}


@guarded_or_not
async def test_create_orders_takes_nothing_that_was_taken_over(booth: Booth, guarded: bool) -> None:
    """Within the grace, so that the clock does not save it: the fence has to."""
    orders = OrderCalls(booth.shards["s1"], grace=GRACE)
    old = await order_request(booth, "ann", 1)
    await booth.execute("UPDATE hold SET expires_at = clock_timestamp() - interval '1 s'")
    await booth.execute("UPDATE seat SET hold_expires_at = clock_timestamp() - interval '1 s' WHERE state = 'HELD'")
    await booth.hold("bob", 1)
    if not guarded:
        (row,) = await booth.execute("SELECT pg_get_functiondef('create_orders'::regproc) AS text")
        text = row["text"]
        for guard in (
            "AND l.hold_id = l.wanted",
            "AND h.state = 'ACTIVE'",
            "AND s.state = 'HELD' AND s.hold_id = u.hold_id",
        ):
            assert guard in text
            text = text.replace(guard, "")
        await booth.execute(text)
    assert await words(orders, old) == (["BUSY"] if guarded else ["CREATED"])
    broken = await booth.broken()
    assert broken == {} if guarded else "hold_without_its_seats" in broken


async def test_orders_are_gathered(booth: Booth) -> None:
    holds = [(f"fan-{seat}", (await booth.hold(f"fan-{seat}", seat)).hold_id) for seat in range(1, 21)]
    ids = await asyncio.gather(*(booth.order(account, hold_id) for account, hold_id in holds))
    assert len(set(ids)) == 20
    assert await asyncio.gather(*(booth.order(account, hold_id) for account, hold_id in holds)) == ids
    assert await booth.seats() == {"pending_payment": 20}
    assert await booth.broken() == {}


async def test_hold_seats_refuses_who_holds_and_lets_go_for_ever(booth: Booth) -> None:
    await booth.internal.PutInventory(inventory(version=2, holds_per_account=3))
    first = await booth.hold("ann", 1, key="first")
    for number in range(2):
        released = await booth.hold("ann", 2, key=str(number))
        await release(booth, "ann", released.hold_id)
    reason, metadata = (await refused(booth.hold("ann", 3)))[1:]
    assert (reason, set(metadata)) == ("HOLD_BUDGET_SPENT", {"retryTime"})
    (row,) = await booth.execute("SELECT min(create_time) + interval '10 minutes' AS time FROM hold")
    assert metadata["retryTime"] == row["time"].isoformat().replace("+00:00", "Z")
    assert (await booth.hold("ann", 1, key="first")).hold_id == first.hold_id  # a replay is never refused
    assert (await booth.hold("bob", 3)).hold_id
    order_id = await booth.order("ann", first.hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
    assert (await booth.hold("ann", 1, key="after the decline")).hold_id
    assert (await refused(booth.hold("ann", 4)))[1] == "HOLD_BUDGET_SPENT"
    await booth.execute("UPDATE hold SET create_time = create_time - interval '10 minutes'")
    assert (await booth.hold("ann", 4, key="later")).hold_id


async def release(booth: Booth, account: str, hold_id: str) -> None:
    """By its owner."""
    await booth.execute(
        "SELECT release_hold(account, hold_id) FROM hold WHERE account = $1 AND state = 'ACTIVE'"
        " ORDER BY create_time DESC LIMIT 1",
        account,
    )


@pytest.mark.parametrize(("window", "seconds"), [(7200, 120), (1800, 600)], ids=["in the window", "after it"])
async def test_a_hold_is_shorter_in_the_onsale_window(booth: Booth, window: int, seconds: int) -> None:
    """The sale began an hour ago."""
    await booth.internal.PutInventory(inventory(version=2, onsale_hold_seconds=120, onsale_window_seconds=window))
    await booth.hold("ann", 1)
    (row,) = await booth.execute("SELECT extract(epoch FROM expires_at - create_time)::int AS seconds FROM hold")
    assert row["seconds"] == seconds


async def test_a_new_version_is_noticed_with_the_first_hold_by_it(booth: Booth) -> None:
    old = await booth.hold("ann", 1)
    changed = inventory(version=2)
    changed.tiers[0].price.amount_minor = 7700
    changed.seats[1].number = "2a"
    await booth.internal.PutInventory(changed)
    new = await booth.hold("bob", 2)
    assert (new.seats[0].price.amount_minor, new.seats[0].number) == (7700, "2a")
    assert new.total == (await booth.get_hold("bob", new.hold_id)).total
    assert (await booth.hold("ann", 1)).total == old.total


async def test_pick_seats_is_refused_where_the_house_chooses(booth: Booth) -> None:
    picked = await booth.hold("ann", 1)
    mode = pb.SELECTION_MODE_BEST_AVAILABLE
    await booth.internal.PutInventory(inventory(version=2, selection_mode=mode))
    assert (await refused(booth.hold("bob", 2)))[1] == "SELECTION_CLOSED"
    assert (await booth.hold("ann", 1)).hold_id == picked.hold_id
