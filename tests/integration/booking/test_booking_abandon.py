"""Orders that wait too long for their payment: real booking, real payments, a real processor with its ledger."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiosql
import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.payments.v1 import payments_pb2, payments_pb2_grpc

from chassis.client import open_channel
from chassis.outbox import Message
from services.booking import abandon
from services.booking.peers import ChargeRefused, Payments
from services.booking.sales import Sales
from services.booking.settings import Settings
from services.booking.store import abandon as store
from services.booking.workers import Workers
from services.payments.peers import Booking
from services.payments.processor import StripeProcessor
from services.payments.server import PaymentsInternalServicer
from services.payments.store.attempts import Attempts
from tests.integration.booking.booth import Booth, inventory
from tests.integration.payments.desk import Desk
from tests.integration.processor.sandbox_process import API_KEY, Line, Sandbox, cut
from tests.support.engines import free_port
from tests.support.servers import Servers

SEATS = 20
Workshop = Callable[[grpc.aio.Channel], Workers]


class CountingPayments(PaymentsInternalServicer):
    """Payments, and how often each order was asked about."""

    asked: Counter[str]

    async def AbandonOrder(self, request: Any, context: Any) -> Any:
        self.asked[request.order_id] += 1
        return await super().AbandonOrder(request, context)


@pytest.fixture
async def desk(database: Callable[..., Awaitable[str]], line: Line) -> AsyncIterator[Desk]:
    """Payments' database, worker and processor."""
    pool = await asyncpg.create_pool(await database("payments"), min_size=1, max_size=10)
    processor = StripeProcessor(url=line.url, api_key=API_KEY, timeout_seconds=4)
    yield Desk(pool, Attempts(pool, ambiguity_seconds=600, claim_seconds=30), processor)
    await processor.close()
    await pool.close()


@pytest.fixture
async def servicer(desk: Desk) -> CountingPayments:
    servicer = CountingPayments(attempts=desk.attempts, taken=lambda: None)
    servicer.asked = Counter()
    return servicer


@pytest.fixture
async def booth(open_booth: Callable[..., Awaitable[Booth]]) -> Booth:
    booth = await open_booth("s1")
    await booth.internal.PutInventory(inventory(seats=SEATS))
    return booth


@pytest.fixture
async def there(servers: Servers, servicer: CountingPayments, booth: Booth) -> grpc.aio.Channel:
    """To payments. (Made after the booth, whose channel is the first.)"""
    service = payments_pb2.DESCRIPTOR.services_by_name["PaymentsInternalService"]
    return await servers.start((service, payments_pb2_grpc.add_PaymentsInternalServiceServicer_to_server, servicer))


@pytest.fixture
async def away() -> AsyncIterator[grpc.aio.Channel]:
    """To where nobody answers."""
    channel = open_channel(f"127.0.0.1:{free_port()}")
    yield channel
    await channel.close(None)


@pytest.fixture
async def replica(booth: Booth) -> Workshop:
    """The workers of one booking process, with payments at the end of a channel."""

    def make(channel: grpc.aio.Channel) -> Workers:
        settings = Settings(shards=f"s1={booth.dsn}", payments_target="x:1")
        sales = Sales()
        return Workers(
            shards=booth.shards, sales=sales, payments=Payments(channel), waitingroom=None, settings=settings
        )

    return make


@pytest.fixture
async def outcomes(servers: Servers, desk: Desk, booth: Booth) -> Callable[[], Awaitable[None]]:
    """Payments tells booking what it has to tell."""
    relay = desk.relay(Booking(servers.running[0][1]))

    async def deliver() -> None:
        while await relay.run_once():
            pass

    return deliver


async def order_seats(booth: Booth, count: int, *, first: int = 1) -> list[tuple[str, str]]:
    """As many accounts' orders of one seat each, from seat `first` on: account and id."""
    made = []
    for number in range(first, first + count):
        account = f"fan{number}"
        made.append((account, await booth.order(account, (await booth.hold(account, number)).hold_id)))
    return made


async def pass_time(booth: Booth, seconds: float) -> None:
    """For orders; claims and rests are over too."""
    await booth.execute(
        "UPDATE orders SET create_time = create_time - $1 * interval '1 s', abandon_due_time = NULL", seconds
    )
    await booth.execute("UPDATE outbox SET claimed_until = NULL")


async def abandon_orders(workers: Workers) -> int:
    """One round."""
    return int(await workers.abandoners[0].run_once() or 0)


async def states(booth: Booth, orders: list[tuple[str, str]]) -> set[tuple[str, str]]:
    found = [await booth.get_order(*order) for order in orders]
    return {(pb.OrderState.Name(order.state).removeprefix("ORDER_STATE_"), order.failure_reason) for order in found}


async def charges(booth: Booth) -> list[tuple[int, bool, bool]]:
    """Refusals of each, whether it is over, and whether it waits for a person."""
    rows = await booth.execute(
        "SELECT refusals, published_time IS NOT NULL AS over, parked_time IS NOT NULL AS parked FROM outbox"
        " WHERE sink = 'payments' ORDER BY message_id"
    )
    return [tuple(row) for row in rows]


async def test_orders_wait_while_payments_is_away_and_are_given_up_when_it_is_back(
    booth: Booth,
    desk: Desk,
    line: Line,
    sandbox: Sandbox,
    replica: Workshop,
    away: grpc.aio.Channel,
    there: grpc.aio.Channel,
    outcomes: Callable[[], Awaitable[None]],
) -> None:
    orders = await order_seats(booth, 5)
    lonely = replica(away)
    for _ in range(12):  # every five minutes of an hour
        await pass_time(booth, 305)
        assert await lonely.relays["s1"].run_once() == 0
        assert await abandon_orders(lonely) == 0
    assert await states(booth, orders) == {("PENDING_PAYMENT", "")}
    assert await charges(booth) == [(0, False, False)] * 5
    assert await booth.broken() == {"order_past_its_bound": 5}

    await pass_time(booth, 0)
    back = replica(there)
    assert await abandon_orders(back) == 5
    assert await states(booth, orders) == {("FAILED", "ABANDONED")}
    assert await booth.seats() == {"available": SEATS}
    again = await booth.hold("somebody_else", 1, 2, 3)

    assert await back.relays["s1"].run_once() == 5  # the charges come late
    assert await charges(booth) == [(0, True, False)] * 5
    await desk.worker().run_once()
    await outcomes()
    assert await abandon_orders(back) == 0
    assert line.calls == []
    assert [await sandbox.captures(order) for _, order in orders] == [[]] * 5
    assert await states(booth, orders) == {("FAILED", "ABANDONED")}
    assert await booth.seats() == {"available": SEATS - 3, "held": 3}  # given back once, and not from under others
    assert (await booth.get_hold("somebody_else", again.hold_id)).state == pb.HOLD_STATE_ACTIVE
    assert {tuple(row) for row in await booth.execute("SELECT version, payment_state FROM orders")} == {(2, "FAILED")}
    assert await booth.broken() == {}


async def test_an_order_whose_charge_succeeded_meanwhile_is_confirmed(
    booth: Booth,
    desk: Desk,
    sandbox: Sandbox,
    replica: Workshop,
    there: grpc.aio.Channel,
    outcomes: Callable[[], Awaitable[None]],
) -> None:
    orders = await order_seats(booth, 1)
    workers = replica(there)
    await workers.relays["s1"].run_once()
    await desk.work(orders[0][1])
    await pass_time(booth, 901)

    answered = await asyncio.gather(abandon_orders(workers), outcomes())  # payments' own message comes at once, too

    assert answered[0] == 1
    assert await states(booth, orders) == {("CONFIRMED", "")}
    assert await booth.seats() == {"available": SEATS - 1, "sold": 1}
    assert len(await sandbox.captures(orders[0][1])) == 1
    assert [row[0] for row in await booth.execute("SELECT version FROM orders")] == [2]


async def test_an_order_whose_charge_is_undecided_waits_until_it_is_known(
    booth: Booth, desk: Desk, line: Line, sandbox: Sandbox, replica: Workshop, there: grpc.aio.Channel
) -> None:
    orders = await order_seats(booth, 1)
    workers = replica(there)
    await workers.relays["s1"].run_once()
    line.faults["confirm", "before"] = cut
    await desk.work(orders[0][1])
    await pass_time(booth, 901)

    assert await abandon_orders(workers) == 1
    assert await states(booth, orders) == {("PENDING_PAYMENT", "")}
    await desk.work(orders[0][1])  # which cancels it at the processor
    assert await abandon_orders(workers) == 0  # not asked again yet
    await pass_time(booth, 0)
    assert await abandon_orders(workers) == 1

    assert await states(booth, orders) == {("FAILED", "ABANDONED")}
    assert await booth.seats() == {"available": SEATS}
    assert await sandbox.captures(orders[0][1]) == []


async def test_orders_within_their_bound_are_left_alone(
    booth: Booth, servicer: CountingPayments, replica: Workshop, there: grpc.aio.Channel
) -> None:
    orders = await order_seats(booth, 2)
    await pass_time(booth, 880)

    assert await abandon_orders(replica(there)) == 0
    assert await states(booth, orders) == {("PENDING_PAYMENT", "")}
    assert not servicer.asked


async def abandon_by_many(booth: Booth, replica: Workshop, there: grpc.aio.Channel) -> None:
    """Four replicas at once, which take turns at nothing."""
    orders = await order_seats(booth, 12)
    await pass_time(booth, 901)
    await asyncio.gather(*(abandon_orders(replica(there)) for _ in range(4)))
    assert await states(booth, orders) == {("FAILED", "ABANDONED")}
    assert await booth.seats() == {"available": SEATS}
    assert {row[0] for row in await booth.execute("SELECT version FROM orders")} == {2}


async def test_replicas_ask_about_each_order_once(
    booth: Booth, servicer: CountingPayments, replica: Workshop, there: grpc.aio.Channel
) -> None:
    await abandon_by_many(booth, replica, there)

    assert set(servicer.asked.values()) == {1}


async def test_control_without_claims_they_ask_again_and_do_no_harm(
    booth: Booth,
    servicer: CountingPayments,
    replica: Workshop,
    there: grpc.aio.Channel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = Path(store.__file__).with_suffix(".sql").read_text()
    for guard, times in ((" FOR NO KEY UPDATE SKIP LOCKED", 2), (" AND abandon_due_time IS NULL", 1)):
        assert text.count(guard) == times
        text = text.replace(guard, "")
    monkeypatch.setattr(store, "queries", aiosql.from_str(text, "asyncpg"))

    await abandon_by_many(booth, replica, there)

    assert max(servicer.asked.values()) > 1


async def test_a_replica_that_died_between_the_answer_and_the_record_loses_nothing(
    booth: Booth,
    replica: Workshop,
    there: grpc.aio.Channel,
    outcomes: Callable[[], Awaitable[None]],
) -> None:
    orders = await order_seats(booth, 2)
    await pass_time(booth, 901)
    bound = timedelta(seconds=900)
    assert len(await store.claim_overdue_orders(booth.shards["s1"], bound=bound, rest=abandon.REST, most=16)) == 2
    for _, order in orders:
        await Payments(there).abandon_order(order)

    workers = replica(there)
    assert await abandon_orders(workers) == 0  # the dead one's claim lasts
    assert await states(booth, orders) == {("PENDING_PAYMENT", "")}
    await pass_time(booth, 0)
    settled, _ = await asyncio.gather(abandon_orders(workers), outcomes())  # it is told on both ways
    assert settled == 2
    assert await states(booth, orders) == {("FAILED", "ABANDONED")}
    assert await booth.seats() == {"available": SEATS}
    assert {row[0] for row in await booth.execute("SELECT version FROM orders")} == {2}


async def test_charge_order_settles_what_was_given_up_and_nothing_else(
    booth: Booth, desk: Desk, there: grpc.aio.Channel
) -> None:
    (order,) = await order_seats(booth, 1)
    aggregate = str((await booth.execute("SELECT order_id FROM orders"))[0][0])
    charge = {"currency_code": "EUR", "amount_minor": 5250, "payment_token": "pm_card_visa"}
    payments = Payments(there)
    await payments.charge_order("s1", Message(1, aggregate, "charge", charge))
    with pytest.raises(ChargeRefused, match="CHARGE_CONFLICT"):
        await payments.charge_order("s1", Message(1, aggregate, "charge", {**charge, "amount_minor": 1}))

    assert (await payments.abandon_order(order[1])).outcome == "FAILED"
    await payments.charge_order("s1", Message(1, aggregate, "charge", charge))
    attempt = await desk.attempts.get(order[1])
    assert attempt is not None
    assert attempt.state == "FAILED"
