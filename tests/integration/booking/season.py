"""A season that grows under sessions which planned while there was next to nothing; and how much a call reads of it."""

from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

import asyncpg
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.outbox import Message, Relay
from chassis.outbox.keeper import KEEP_SECONDS, MOST_DELETED
from chassis.outbox.statements import queries as outbox
from services.booking.rows import HoldRequest, OrderRequest
from services.booking.store import abandon, areas, holds, orders, picture, tickets
from services.booking.store.shards import Shard
from tests.integration.booking.booth import EVENT as EVENT_ID
from tests.integration.booking.booth import inventory, timestamp

T = TypeVar("T")

EVENT = 7
SMALL = 400  # seats of the only event at first; each hand-over of seats ends with ANALYZE, so plans are seldom of fewer
EVENTS, SEATS = 20, 10_000
HOLDS = 2_000  # of each event when the season has grown: two of five became orders
GRACE = timedelta(seconds=5)
BOUND = timedelta(minutes=15)
PLANNINGS = 7  # more than the five executions after which the server may keep a generic plan
LAST = UUID(int=2**128 - 1)

# Nobody else looks at the tables: a visit by autovacuum would have every session plan again.
ALONE = """
DO $$
DECLARE r regclass;
BEGIN
  FOR r IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
    EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', r);
  END LOOP;
END $$
"""

# What a day left. (Not TRUNCATE: that would have every session plan again.)
FORGET = """
WITH o AS (SELECT order_id FROM orders WHERE idempotency_key = 'k'),
     a AS (DELETE FROM ticket WHERE order_id IN (SELECT order_id FROM o)),
     b AS (DELETE FROM late_payment WHERE order_id IN (SELECT order_id FROM o)),
     c AS (DELETE FROM refund_due WHERE order_id IN (SELECT order_id FROM o)),
     d AS (DELETE FROM order_seat WHERE order_id IN (SELECT order_id FROM o))
DELETE FROM outbox WHERE aggregate_id IN (SELECT CAST(order_id AS text) FROM o);
DELETE FROM orders WHERE idempotency_key = 'k';
DELETE FROM hold WHERE idempotency_key = 'k';
UPDATE seat SET state = 'AVAILABLE', hold_id = NULL, hold_expires_at = NULL, order_id = NULL WHERE state <> 'AVAILABLE';
UPDATE area_counter c SET available = a.capacity FROM area a WHERE a.event_id = c.event_id AND a.area_id = c.area_id;
"""

GROW = f"""
INSERT INTO event SELECT (e).* FROM (
  SELECT jsonb_populate_record(v, jsonb_build_object('event_id', {EVENT} + n)) AS e
    FROM event v, generate_series(1, {EVENTS} - 1) n WHERE v.event_id = {EVENT}) q;
INSERT INTO tier SELECT event_id + n, tier, name, price, fee FROM tier, generate_series(1, {EVENTS} - 1) n;
INSERT INTO area SELECT event_id + n, area_id, name, capacity, tier FROM area, generate_series(1, {EVENTS} - 1) n;
INSERT INTO area_counter
SELECT event_id + n, area_id, counter, available FROM area_counter, generate_series(1, {EVENTS} - 1) n;
INSERT INTO seat (event_id, seat_id, tier, section, row_name, number)
SELECT e.event_id, s, 1, 'S' || s % 40, 'R' || s / 40 % 50, CAST(s AS text) FROM event e, generate_series(1, {SEATS}) s
 WHERE e.event_id > {EVENT} OR s > {SMALL};
INSERT INTO seat_place (event_id, seat_id, section_index, row_index, place, x, y, accessible, companion)
SELECT e.event_id, s, s % 40, s / 40 % 50, s / 2000, s, s, false, false FROM event e, generate_series(1, {SEATS}) s
 WHERE e.event_id > {EVENT} OR s > {SMALL};
-- Two of five became orders, one was given back, one is live, and one is live and of an area.
INSERT INTO hold (hold_id, event_id, account, idempotency_key, fingerprint, ticket_count, seats, prices, fees,
                  currency_code, area_id, counters, amounts, state, create_time, expires_at, end_time, swept)
SELECT uuidv7(), e.event_id, 'fan-' || n, 'grown', '', 1, CASE WHEN n % 5 = 4 THEN '{{}}' ELSE ARRAY[5000 + n] END,
       '{{1}}', '{{0}}', 'EUR', CASE WHEN n % 5 = 4 THEN 1 END, CASE WHEN n % 5 = 4 THEN ARRAY[0] END,
       CASE WHEN n % 5 = 4 THEN ARRAY[1] END,
       CASE n % 5 WHEN 0 THEN 'CONFIRMED' WHEN 1 THEN 'CONFIRMED' WHEN 2 THEN 'RELEASED' ELSE 'ACTIVE' END, now(),
       now() + interval '1 hour', CASE WHEN n % 5 < 3 THEN now() END, n % 5 < 3
  FROM generate_series(1, {HOLDS}) n, event e;
INSERT INTO orders (order_id, event_id, account, email, hold_id, idempotency_key, fingerprint, ticket_count,
                    currency_code, total_amount, fee_amount, state, payment_state, failure_reason, create_time,
                    confirm_time, ticket_time)
SELECT uuidv7(), event_id, account, '', hold_id, idempotency_key, '', 1, 'EUR', 1, 0, state,
       CASE state WHEN 'CONFIRMED' THEN 'SUCCEEDED' WHEN 'FAILED' THEN 'FAILED' ELSE 'PENDING' END,
       CASE state WHEN 'FAILED' THEN 'CARD_DECLINED' END, now(), CASE state WHEN 'CONFIRMED' THEN now() END,
       CASE state WHEN 'CONFIRMED' THEN now() END
  FROM (SELECT h.event_id, account, h.hold_id, idempotency_key,
               (ARRAY['FAILED', 'PENDING_PAYMENT', 'CONFIRMED'])[1 + h.seats[1] / 5 % 3] AS state
          FROM hold h WHERE h.state = 'CONFIRMED' AND idempotency_key = 'grown' ORDER BY h.hold_id) q;
INSERT INTO order_seat (order_id, seat_id, event_id, price, fee, live)
SELECT o.order_id, h.seats[1], o.event_id, 1, 0, o.state <> 'FAILED' FROM orders o JOIN hold h USING (hold_id)
 WHERE h.idempotency_key = 'grown';
INSERT INTO ticket (ticket_id, order_id, seat_id, event_id, create_time)
SELECT uuidv7(), b.order_id, b.seat_id, b.event_id, now() FROM orders o JOIN order_seat b USING (order_id)
 WHERE o.state = 'CONFIRMED' AND o.idempotency_key = 'grown';
INSERT INTO outbox (sink, aggregate_id, kind, payload, published_time)
SELECT 'payments', CAST(order_id AS text), 'charge', '{{}}',
       CASE WHEN state <> 'PENDING_PAYMENT' OR hashtext(account) % 16 <> 0 THEN now() END
  FROM orders WHERE idempotency_key = 'grown';
"""


@dataclass
class Meter:
    """Counts what calls read, by the statistics of tables and indexes: rows, and entries of indexes."""

    observer: asyncpg.Connection
    shard: Shard
    read: dict[str, Counter[str]] = field(default_factory=dict)

    async def __call__(self, name: str, call: Awaitable[T]) -> T:
        """The call's answer. Nothing else may be under way in this database."""
        before = await self._count()
        answer = await call
        self.read[name] = await self._count() - before
        return answer

    async def _count(self) -> Counter[str]:
        await self.flush()
        rows = await self.observer.fetch(
            "SELECT relname AS name, seq_tup_read AS read FROM pg_stat_user_tables"
            " UNION ALL SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes"
        )
        return Counter({row["name"]: row["read"] for row in rows})

    async def flush(self) -> list[int]:
        """Has every session hand over its counts; which ones there are. Of the pool it is the one that came back last:
        the same for all calls, as they come one after another."""
        async with self.shard.pool.acquire() as pooled:
            found = [pooled, *(kept.connection for kept in self.shard.kept if kept.connection)]
            for connection in (*found, self.observer):
                await connection.execute("SELECT pg_stat_force_next_flush()")
            return [connection.get_server_pid() for connection in found]


async def delete_published(connection: asyncpg.Connection) -> str:
    """What the keeper deletes: nothing is old enough."""
    status: str = await outbox.delete_published(connection, keep_seconds=KEEP_SECONDS, most=MOST_DELETED)
    return status


class Day:
    """Calls of every kind, on the connections that the product keeps for them; each under the meter."""

    def __init__(self, shard: Shard, meter: Meter) -> None:
        self.shard, self.meter = shard, meter
        self.holds = holds.HoldCalls(shard, grace=GRACE)
        self.orders = orders.OrderCalls(shard, grace=GRACE)
        self.relay = Relay(shard.pool, "payments", deliver)

    async def run(self) -> None:
        """Leaves rows behind: FORGET them before another day."""
        held = await self.hold()
        made = await self.order(held)
        await self.pay_and_cancel(made)
        await self.end_holds(held)
        await self.areas()
        await self.work()
        await self.look()

    async def hold(self) -> list[UUID]:
        """Eight holds in one call, one that waits; and each by its key."""
        wanted = [request(f"ann-{n}", *range(4 * n + 1, 4 * n + 5)) for n in range(8)]
        held = await self.meter("hold_seats", self.holds.together(wanted))
        assert {verdict.word for verdict in held} == {"HELD"}
        alone = self.holds.alone()[0]
        (other,) = await self.meter("hold_seats, waiting", alone([request("bob", 33, 34, 35, 36)]))
        assert other.word == "HELD"
        (again,) = await self.meter("hold_seats, replayed", alone([request("bob", 33, 34, 35, 36)]))
        assert again.word == "REPLAY"
        found = await self.meter("get_hold", holds.get_hold(self.shard, known(other.hold), "bob"))
        assert found
        return [known(verdict.hold) for verdict in [*held, other]]

    async def order(self, held: list[UUID]) -> list[UUID]:
        """Four in one call, one alone."""
        made = await self.meter("create_orders", self.orders.together([buy(f"ann-{n}", held[n]) for n in range(4)]))
        assert {verdict.word for verdict in made} == {"CREATED"}
        (alone,) = await self.meter("create_order", self.orders.alone([buy("ann-4", held[4])]))
        assert alone.word == "CREATED"
        return [known(verdict.order) for verdict in [*made, alone]]

    async def pay_and_cancel(self, made: list[UUID]) -> None:
        """One is paid, with tickets, and cancelled; one fails and is paid late."""
        for name, order, outcome in (
            ("record_payment_outcome, paid", made[0], "SUCCEEDED"),
            ("record_payment_outcome, failed", made[1], "FAILED"),
            ("record_payment_outcome, late", made[1], "SUCCEEDED"),
        ):
            call = orders.record_payment_outcome(self.shard, order, outcome=outcome, reason="X", grace=GRACE)
            assert (await self.meter(name, call)).word in ("RECORDED", "RETAKEN")
        assert await self.meter("issue_tickets", tickets.issue_tickets(self.shard, most=200)) == 2
        assert await self.meter("list_tickets", tickets.list_tickets(self.shard, made[0]))
        cancelled = await self.meter("cancel_order", orders.cancel_order(self.shard, made[0], account="ann-0"))
        assert cancelled.word == "CANCELLED"

    async def end_holds(self, held: list[UUID]) -> None:
        """One is given back, one taken over, one swept."""
        assert await self.meter("release_hold", holds.release_hold(self.shard, held[5], "ann-5")) == "RELEASED"
        await self.age(held[6])
        alone = self.holds.alone()[0]
        (verdict,) = await self.meter("hold_seats, taking over", alone([request("cid", 25, 26, 27, 28)]))
        assert verdict.word == "HELD"
        await self.age(held[7])
        assert await self.meter("sweep_holds", holds.sweep_holds(self.shard, most=200, grace=GRACE)) == 2

    async def areas(self) -> None:
        """Units of an area that has plenty, and of one that has one."""
        held = await self.meter("hold_area", self.units("dan", 1, 2))
        (made,) = await self.meter("create_order, of units", self.orders.alone([buy("dan", known(held))]))
        call = orders.record_payment_outcome(self.shard, known(made.order), outcome="FAILED", reason="X", grace=GRACE)
        await self.meter("record_payment_outcome, of units", call)
        given = known(await self.units("eve", 1, 2))
        await self.meter("release_hold, of units", holds.release_hold(self.shard, given, "eve"))
        last = await self.units("fay", 2, 1)
        assert await self.meter("hold_area, all held", self.units("gil", 2, 1)) is None
        await self.age(known(last))
        assert await self.meter("sweep_area_holds", areas.sweep_area_holds(self.shard, most=200, grace=GRACE)) == 1

    async def work(self) -> None:
        """Two orders that wait too long; the charges."""
        await self.observer_executes(
            "UPDATE orders SET create_time = create_time - interval '1 h' WHERE account IN ('ann-2', 'ann-3')"
        )
        call = abandon.claim_overdue_orders(self.shard, bound=BOUND, rest=BOUND, most=16)
        assert len(await self.meter("claim_overdue_orders", call)) == 2
        assert await self.meter("relay of the outbox", self.relay.run_once())

    async def look(self) -> None:
        """What is listed, and what the event's pictures are made of."""
        own = orders.list_orders(self.shard, "ann-2", before=LAST, most=20)
        assert await self.meter("list_orders", own)
        page = orders.list_event_orders(self.shard, EVENT, after=UUID(int=0), most=100)
        assert await self.meter("list_event_orders", page)
        assert await self.meter("get_states", picture.get_states(self.shard, EVENT))
        assert await self.meter("get_placed_seats", picture.get_placed_seats(self.shard, EVENT))
        assert await self.meter("get_offer", holds.get_offer(self.shard, EVENT))
        assert await self.meter("count_areas", areas.count_areas(self.shard, EVENT))
        await self.meter("delete_published", self.shard.write(delete_published))

    async def units(self, account: str, area: int, quantity: int) -> UUID | None:
        """The hold's id."""
        return (
            await areas.hold_area(
                self.shard,
                event=EVENT,
                account=account,
                key="k",
                fingerprint=b"",
                area=area,
                quantity=quantity,
                grace=GRACE,
            )
        ).hold

    async def age(self, hold: UUID) -> None:
        """Its time has been over for a while."""
        await self.observer_executes(
            f"UPDATE hold SET expires_at = now() - interval '9 s' WHERE hold_id = '{hold}';"
            f" UPDATE seat SET hold_expires_at = h.expires_at FROM hold h WHERE h.hold_id = '{hold}'"
            "    AND seat.event_id = h.event_id AND seat.seat_id = ANY (h.seats)"
        )

    async def observer_executes(self, sql: str) -> None:
        """Not under the meter."""
        await self.meter.observer.execute(sql)


async def deliver(_message: Message) -> None:
    """Payments has it."""


def known(number: UUID | None) -> UUID:
    """It was made."""
    assert number
    return number


def request(account: str, *seats: int) -> HoldRequest:
    """A hold of the season's event."""
    return HoldRequest(account, EVENT, "k", b"", seats)


def buy(account: str, hold: UUID) -> OrderRequest:
    """An order of a hold."""
    return OrderRequest(account, hold, "k", b"", "", "pm_card_visa")


def little() -> pb.PutInventoryRequest:
    """Two areas beside the seats: one has room enough, the other one unit."""
    later = timestamp(datetime.now(UTC) + timedelta(hours=2))
    found = [pb.InventoryArea(area_id=n, name=f"Area {n}", capacity=c, tier=1) for n, c in ((1, 1000), (2, 1))]
    return inventory(EVENT_ID, seats=SMALL, areas=found, cancel_end_time=later, resale=True)
