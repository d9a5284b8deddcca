"""More orders that nobody can decide yet than a round asks about: real booking, and real payments whose charges an
outage of the processor left in the air."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiosql
import asyncpg
import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.payments.v1 import payments_pb2, payments_pb2_grpc

from services.booking import abandon
from services.booking.peers import Payments
from services.booking.sales import Sales
from services.booking.settings import Settings
from services.booking.store import abandon as store
from services.booking.workers import Workers
from services.payments.server import PaymentsInternalServicer
from services.payments.store.attempts import Attempts
from tests.integration.booking.booth import Booth, inventory
from tests.integration.booking.schedules import guarded_or_not
from tests.support.servers import Servers

BEFORE, BEHIND = 12, 3  # orders that cannot be decided, and later ones that can
PER_ROUND = 2
ROUNDS = 24  # enough to ask about everybody three times
REST = abandon.REST.total_seconds()


class Counting(PaymentsInternalServicer):
    """Payments, and how often each order was asked about."""

    asked: Counter[str]
    heard: asyncio.Semaphore

    async def AbandonOrder(self, request: Any, context: Any) -> Any:
        self.asked[request.order_id] += 1
        self.heard.release()
        return await super().AbandonOrder(request, context)


@pytest.fixture
async def booth(open_booth: Callable[..., Awaitable[Booth]]) -> Booth:
    booth = await open_booth("s1")
    await booth.internal.PutInventory(inventory(seats=BEFORE + BEHIND))
    return booth


@pytest.fixture
async def charges(database: Callable[..., Awaitable[str]]) -> AsyncIterator[asyncpg.Pool]:
    """Payments' database."""
    pool = await asyncpg.create_pool(await database("payments"), min_size=1, max_size=4)
    yield pool
    await pool.close()


@pytest.fixture
async def payments(charges: asyncpg.Pool) -> Counting:
    attempts = Attempts(charges, ambiguity_seconds=600, claim_seconds=30)
    payments = Counting(attempts=attempts, taken=lambda: None)
    payments.asked, payments.heard = Counter(), asyncio.Semaphore(0)
    return payments


@pytest.fixture
async def workers(booth: Booth, servers: Servers, payments: Counting, monkeypatch: pytest.MonkeyPatch) -> Workers:
    """Booking's, with payments at the end of a channel."""
    monkeypatch.setattr(abandon, "ORDERS_PER_ROUND", PER_ROUND)
    service = payments_pb2.DESCRIPTOR.services_by_name["PaymentsInternalService"]
    channel = await servers.start((service, payments_pb2_grpc.add_PaymentsInternalServiceServicer_to_server, payments))
    settings = Settings(shards=f"s1={booth.dsn}", payments_target="x:1")
    return Workers(shards=booth.shards, sales=Sales(), payments=Payments(channel), waitingroom=None, settings=settings)


@pytest.fixture
async def backlog(booth: Booth, charges: asyncpg.Pool, workers: Workers) -> list[pb.Order]:
    """Orders past their bound, the oldest of them with charges in the air, as they were made."""
    made = [await buy(booth, number) for number in range(1, BEFORE + 1)]
    while await workers.relays["s1"].run_once():
        pass
    sent = "UPDATE attempt SET state = 'SENT', send_count = 1, first_send_time = clock_timestamp()"
    assert await charges.execute(sent) == f"UPDATE {BEFORE}"
    made += [await buy(booth, number) for number in range(BEFORE + 1, BEFORE + BEHIND + 1)]
    await pass_time(booth, 901)
    return made


async def buy(booth: Booth, number: int) -> pb.Order:
    """An order of one seat."""
    account = f"fan{number}"
    return await booth.get_order(account, await booth.order(account, (await booth.hold(account, number)).hold_id))


async def pass_time(booth: Booth, seconds: float) -> None:
    """For orders, and for the rests of those that were asked about."""
    await booth.execute(
        "UPDATE orders SET create_time = create_time - d, abandon_due_time = abandon_due_time - d"
        " FROM (SELECT $1 * interval '1 s' AS d) x",
        seconds,
    )


async def one_round(workers: Workers) -> int:
    return int(await workers.abandoners[0].run_once() or 0)


async def states(booth: Booth, orders: list[pb.Order]) -> set[str]:
    rows = await booth.execute("SELECT account, state FROM orders")
    accounts = {f"fan{order.seats[0].seat_id}" for order in orders}
    return {row["state"] for row in rows if row["account"] in accounts}


def change_claim(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]) -> None:
    """Replaces texts in the claim, all of which must be there."""
    text = Path(store.__file__).with_suffix(".sql").read_text()
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    monkeypatch.setattr(store, "queries", aiosql.from_str(text, "asyncpg"))


OLDEST_FIRST = {
    "ORDER BY abandon_due_time LIMIT": "ORDER BY create_time LIMIT",
    "ORDER BY q.due_time": "ORDER BY (SELECT o.create_time FROM orders o WHERE o.order_id = q.order_id)",
}


@guarded_or_not
async def test_orders_that_must_wait_do_not_hold_up_later_ones(
    booth: Booth,
    payments: Counting,
    workers: Workers,
    backlog: list[pb.Order],
    guarded: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A round takes so long that whoever was asked has rested when the next one begins. The control asks the oldest
    first: always the same two."""
    if not guarded:
        change_claim(monkeypatch, OLDEST_FIRST)
    for _ in range(ROUNDS):
        assert await one_round(workers) == PER_ROUND
        await pass_time(booth, REST + 1)
    assert await states(booth, backlog[:BEFORE]) == {"PENDING_PAYMENT"}
    if guarded:
        assert await states(booth, backlog[BEFORE:]) == {"FAILED"}
        times = [payments.asked[order.order_id] for order in backlog]
        assert times[BEFORE:] == [1] * BEHIND
        assert min(times[:BEFORE]) >= 3
        assert max(times[:BEFORE]) <= min(times[:BEFORE]) + 1  # nobody is preferred
    else:
        assert await states(booth, backlog[BEFORE:]) == {"PENDING_PAYMENT"}
        assert len(payments.asked) == PER_ROUND


@guarded_or_not
async def test_a_round_that_settles_nothing_is_followed_by_another(
    booth: Booth,
    payments: Counting,
    workers: Workers,
    backlog: list[pb.Order],
    guarded: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker pauses when a round had no work: by then everybody was asked, once. The control counts what was settled,
    and pauses after the first two."""
    if not guarded:
        monkeypatch.setattr(abandon, "UNANSWERED", abandon.UNANSWERED | {"UNKNOWN"})
    while await one_round(workers):
        pass
    assert set(payments.asked.values()) == {1}
    assert len(payments.asked) == (BEFORE + BEHIND if guarded else PER_ROUND)
    assert await states(booth, backlog[BEFORE:]) == {"FAILED" if guarded else "PENDING_PAYMENT"}


@guarded_or_not
async def test_a_round_that_settles_nothing_is_followed_by_a_pause(
    workers: Workers, payments: Counting, backlog: list[pb.Order], guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lasts, here. The control has none."""
    monkeypatch.setattr(abandon, "UNDECIDED_SECONDS", 3600 if guarded else 0)
    round_ = asyncio.create_task(one_round(workers))
    for _ in range(PER_ROUND):
        await asyncio.wait_for(payments.heard.acquire(), 60)
    await asyncio.wait({round_}, timeout=0.5 if guarded else 60)
    assert round_.done() != guarded
    round_.cancel()
    await asyncio.gather(round_, return_exceptions=True)


async def test_a_round_that_settles_something_is_followed_at_once(
    booth: Booth, workers: Workers, payments: Counting, backlog: list[pb.Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if most of its answers were that nothing is known."""
    monkeypatch.setattr(abandon, "UNDECIDED_SECONDS", 3600)
    monkeypatch.setattr(abandon, "ORDERS_PER_ROUND", BEFORE + BEHIND)
    async with asyncio.timeout(60):
        assert await one_round(workers) == BEFORE + BEHIND
    assert await states(booth, backlog[:BEFORE]) == {"PENDING_PAYMENT"}
    assert await states(booth, backlog[BEFORE:]) == {"FAILED"}


async def test_nobody_to_ask_is_no_reason_to_pause(
    booth: Booth, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's own pause follows."""
    monkeypatch.setattr(abandon, "UNDECIDED_SECONDS", 3600)
    async with asyncio.timeout(60):
        assert await one_round(workers) == 0


async def test_an_order_within_a_longer_bound_is_not_asked_about_again(booth: Booth, backlog: list[pb.Order]) -> None:
    async def claim(seconds: float) -> int:
        bound = timedelta(seconds=seconds)
        return len(await store.claim_overdue_orders(booth.shards["s1"], bound=bound, rest=abandon.REST, most=99))

    assert await claim(900) == len(backlog)
    await pass_time(booth, REST + 1)
    assert await claim(3600) == 0
    assert await claim(900) == len(backlog)


@pytest.mark.parametrize("asked", [False, True])
async def test_claim_overdue_orders_reads_no_more_than_it_takes(booth: Booth, asked: bool) -> None:
    """Of 9,000 pending orders a third are young, a third were never asked about, and a third rest or have rested."""
    await booth.execute(
        "INSERT INTO orders (order_id, event_id, account, email, hold_id, idempotency_key, fingerprint, ticket_count,"
        " currency_code, total_amount, fee_amount, create_time, abandon_due_time)"
        " SELECT uuidv7(), 1, 'a', 'a@example.test', uuidv7(), n::text, '', 1, 'EUR', 1, 0,"
        " now() - CASE WHEN n % 3 > 0 THEN interval '1 hour' ELSE interval '0' END,"
        " CASE WHEN n % 3 = 2 THEN now() + (n - 6000) * interval '1 s' END"
        " FROM generate_series(1, 9000) n WHERE $1 OR n % 3 < 2",
        asked,
    )
    await booth.execute("ANALYZE orders")
    claim = store.queries.claim_overdue_orders.sql
    wanted = timedelta(seconds=900), timedelta(seconds=30), 16

    plan = "\n".join(row[0] for row in await booth.execute(f"EXPLAIN {claim}", *wanted))

    assert plan.count("Index Scan using orders_pending") == 2
    assert "Index Cond: ((abandon_due_time IS NULL) AND (create_time <=" in plan
    assert "Index Cond: ((abandon_due_time <= now()) AND" in plan
    assert "Seq Scan" not in plan
