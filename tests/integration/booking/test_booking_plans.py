"""At 200,000 seats of 20 events the hot statements stay on their indexes, as the functions really plan them: the plans
are those that the server reports of its own nested statements."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from services.booking.store.holds import queries as hold_queries
from services.booking.store.orders import queries as order_queries
from tests.integration.booking.booth import Booth, inventory
from tests.integration.booking.schedules import EVENT, hold, order
from tests.support.databases import at

GRACE = timedelta(seconds=5)
EVENTS, SEATS = 20, 10_000
BIG = {"seat", "hold", "orders", "order_seat", "outbox"}  # tables that grow with sales
MOST_ROWS = 200  # read from one table by one statement of a call for a few seats

FILL = f"""
INSERT INTO event SELECT (e).* FROM (
  SELECT jsonb_populate_record(v, jsonb_build_object('event_id', {EVENT} + n)) AS e
    FROM event v, generate_series(1, {EVENTS} - 1) n WHERE v.event_id = {EVENT}) q;
INSERT INTO tier SELECT event_id + n, tier, name, price, fee FROM tier, generate_series(1, {EVENTS} - 1) n;
INSERT INTO seat (event_id, seat_id, tier, section, row_name, number)
SELECT e.event_id, s, 1, 'S' || s % 40, 'R' || s / 40 % 50, CAST(s AS text) FROM event e, generate_series(1, {SEATS}) s
    ON CONFLICT DO NOTHING;
INSERT INTO hold (hold_id, event_id, account, idempotency_key, fingerprint, ticket_count, seats, prices, fees,
                  currency_code, state, create_time, expires_at, end_time, swept)
SELECT uuidv7(), e.event_id, 'fan-' || n % 500, CAST(n AS text), '', 1, ARRAY[n], '{{1}}', '{{0}}', 'EUR',
       CASE WHEN n % 4 = 0 THEN 'CONFIRMED' ELSE 'RELEASED' END, now(), now(), now(), true
  FROM event e, generate_series(1, 2000) n;
INSERT INTO orders (order_id, event_id, account, email, hold_id, idempotency_key, fingerprint, ticket_count,
                    currency_code, total_amount, fee_amount, state, failure_reason, create_time)
SELECT uuidv7(), event_id, account, '', hold_id, idempotency_key, '', 1, 'EUR', 1, 0, 'FAILED', 'CARD_DECLINED', now()
  FROM hold WHERE state = 'CONFIRMED';
INSERT INTO order_seat (order_id, seat_id, event_id, price, fee, live)
SELECT o.order_id, h.seats[1], o.event_id, 1, 0, false FROM orders o JOIN hold h USING (hold_id);
INSERT INTO outbox (sink, aggregate_id, kind, payload, published_time)
SELECT 'payments', CAST(order_id AS text), 'charge', '{{}}', now() FROM orders;
ANALYZE;
"""

Plan = dict[str, Any]


@pytest.fixture
async def stadium(database: Callable[..., Awaitable[str]], open_replica: Callable[..., Awaitable[Booth]]) -> Booth:
    """A booking with a season behind it."""
    booth = await open_replica({"s1": await database("booking")})
    await booth.internal.PutInventory(inventory())
    connection = await asyncpg.connect(at(booth.dsn, user="postgres"))
    await connection.execute(FILL)
    await connection.close()
    return booth


class Explained:
    """A session whose statements, also those inside of functions, tell how they were run."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection, self.plans = connection, list[Plan]()

    def heard(self, _connection: Any, message: Any) -> None:
        """A line that the server would write in its log."""
        _, _, text = message.message.partition("plan:\n")
        if text:
            self.plans.append(json.loads(text))

    def check(self) -> None:
        """No table of the big ones was read from end to end, and none further than the call is large."""
        nodes = [(plan["Query Text"], node) for plan in self.plans for node in nodes_of(plan["Plan"])]
        scans = [
            (text, node) for text, node in nodes if node.get("Relation Name") in BIG and "Scan" in node["Node Type"]
        ]
        assert scans
        for text, node in scans:
            assert node["Node Type"] in ("Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Tid Scan"), (text, node)
            read = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            assert read <= MOST_ROWS, (text, node)


def nodes_of(plan: Plan) -> Iterator[Plan]:
    """The plan and everything under it."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes_of(below)


@asynccontextmanager
async def explained(booth: Booth) -> AsyncIterator[Explained]:
    """Only the superuser may hear of plans."""
    connection = await asyncpg.connect(at(booth.dsn, user="postgres"))
    await connection.execute(
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;"
        " SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off; SET auto_explain.log_format = json;"
        " SET client_min_messages = log"
    )
    session = Explained(connection)
    connection.add_log_listener(session.heard)
    try:
        yield session
    finally:
        connection.remove_log_listener(session.heard)
        await connection.close()


async def batch(connection: asyncpg.Connection, wait: bool, accounts: int) -> Any:
    """A hold of four seats for each account, in one call."""
    return await hold_queries.hold_seats(
        connection,
        wait=wait,
        grace=GRACE,
        accounts=[f"fan-{number}" for number in range(accounts)],
        events=[EVENT + number for number in range(accounts)],
        keys=["new"] * accounts,
        fingerprints=[b""] * accounts,
        ends=[4 * number for number in range(1, accounts + 1)],
        seat_requests=[number for number in range(1, accounts + 1) for _ in range(4)],
        seat_events=[EVENT + number for number in range(accounts) for _ in range(4)],
        seats=[4000 + number * 4 + each for number in range(accounts) for each in range(4)],
        plans=[0] * accounts,
    )


async def test_hold_seats_stays_on_its_indexes(stadium: Booth) -> None:
    async with explained(stadium) as session:
        assert (await batch(session.connection, False, 8))["verdict"] == ["HELD"] * 8
        assert (await batch(session.connection, False, 8))["verdict"] == ["REPLAY"] * 8
        assert (await hold(session.connection, "ann", "k", 1, 2, 3, 4))["verdict"] == ["HELD"]
        await session.connection.execute("UPDATE seat SET hold_expires_at = now() WHERE event_id = 7 AND seat_id = 1")
        session.check()
        assert (await hold(session.connection, "bob", "k", 1))["verdict"] == ["HELD"]  # a takeover
        session.check()


async def test_orders_stay_on_their_indexes(stadium: Booth) -> None:
    async with explained(stadium) as session:
        connection = session.connection
        held = [(await hold(connection, account, "k", *seats))["hold_id"][0] for account, seats in WISHES.items()]
        made = [(await order(connection, account, of))["order_id"] for account, of in zip(WISHES, held, strict=True)]
        for number, outcome in zip(made, ("SUCCEEDED", "FAILED"), strict=True):
            await order_queries.record_payment_outcome(
                connection, order=number, outcome=outcome, reason="X", grace=GRACE
            )
        await order_queries.get_order(connection, order=made[0])
        last = UUID(int=2**128 - 1)
        assert [row async for row in order_queries.list_orders(connection, account="ann", before=last, most=20)]
        await hold_queries.get_hold(connection, hold=held[0], account="ann")
        session.check()


async def test_the_ends_of_holds_stay_on_their_indexes(stadium: Booth) -> None:
    async with explained(stadium) as session:
        connection = session.connection
        held = [(await hold(connection, account, "k", *seats))["hold_id"][0] for account, seats in WISHES.items()]
        assert await hold_queries.release_hold(connection, account="ann", hold=held[0]) == "RELEASED"
        await connection.execute("UPDATE hold SET expires_at = now() - interval '9 s' WHERE hold_id = $1", held[1])
        assert await hold_queries.sweep_holds(connection, most=200, grace=GRACE) == 1
        session.check()


async def test_a_statement_off_its_index_is_found(stadium: Booth) -> None:
    """The control."""
    async with explained(stadium) as session:
        await session.connection.execute("DROP PUBLICATION rowlock_seats; ALTER TABLE seat DROP CONSTRAINT seat_pk")
        await hold(session.connection, "ann", "k", 1, 2, 3, 4)
        with pytest.raises(AssertionError, match="Seq Scan"):
            session.check()


WISHES = {"ann": (11, 12, 13), "bob": (21, 22)}
