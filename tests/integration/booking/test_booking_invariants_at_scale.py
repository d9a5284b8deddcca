"""The promises' checks read each table once, also on sessions that ran them while there was next to nothing."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest

from chassis.invariants import WHOLE_TABLES
from services.booking.store import invariants as store
from services.booking.store.shards import open_shards
from tests.integration.booking.booth import Booth
from tests.integration.booking.season import ALONE, Meter
from tests.integration.booking.test_booking_invariants import populate
from tests.support.databases import at

AREAS, ORDERS = 1_000, 50_000
MOST_TIMES = 2.5  # a table's rows: once, and what an index finds of each

GROW = f"""
INSERT INTO area (event_id, area_id, name, capacity, tier)
SELECT 7, 1 + n, 'Area ' || n, 100, 1 FROM generate_series(1, {AREAS}) n;
INSERT INTO area_counter (event_id, area_id, counter, available)
SELECT 7, 1 + n, 0, 100 - {ORDERS} / {AREAS} FROM generate_series(1, {AREAS}) n;
INSERT INTO hold (hold_id, event_id, account, idempotency_key, fingerprint, ticket_count, seats, prices, fees,
                  currency_code, area_id, counters, amounts, state, create_time, expires_at, end_time, swept)
SELECT uuidv7(), 7, 'fan-' || n, 'grown', '', 1, '{{}}', '{{1}}', '{{0}}', 'EUR', 2 + n % {AREAS}, '{{0}}', '{{1}}',
       'CONFIRMED', now(), now(), now(), true FROM generate_series(1, {ORDERS}) n;
INSERT INTO orders (order_id, event_id, account, email, hold_id, idempotency_key, fingerprint, ticket_count,
                    currency_code, total_amount, fee_amount, state, payment_state, area_id, unit_price, unit_fee,
                    counters, amounts, create_time, confirm_time, ticket_time)
SELECT hold_id, event_id, account, '', hold_id, idempotency_key, '', 1, 'EUR', 1, 0, 'CONFIRMED', 'SUCCEEDED', area_id,
       1, 0, counters, amounts, now(), now() - interval '1 h', now() FROM hold WHERE idempotency_key = 'grown';
INSERT INTO ticket (ticket_id, order_id, sequence, event_id, create_time)
SELECT order_id, order_id, 1, event_id, now() FROM orders WHERE idempotency_key = 'grown';
"""

# What the query of the areas' units once was, of every fiftieth area.
ONCE_FOR_EACH_AREA = """
SELECT a.event_id, a.area_id FROM area a
 WHERE a.area_id % 50 = 0 AND a.capacity <> (
   SELECT sum(c.available) FROM area_counter c WHERE c.event_id = a.event_id AND c.area_id = a.area_id) + (
   SELECT coalesce(sum(o.ticket_count), 0) FROM orders o
    WHERE o.event_id = a.event_id AND o.area_id = a.area_id AND o.counters IS NOT NULL)
"""


@dataclass
class Archive:
    """Everything of a season's areas, and how many rows each table has; asked before it grew."""

    meter: Meter
    rows: int

    def excess(self) -> dict[str, Counter[str]]:
        """Checks that read too much, and where."""
        most = MOST_TIMES * self.rows
        return {name: +read for name, read in self.meter.read.items() if read.total() > most}

    async def check(self) -> None:
        """Each promise under the meter; none is broken."""
        for name in store.NAMES:
            finding = await self.meter(name, store.check_invariant(self.meter.shard, name))
            assert (finding.name, finding.violations, finding.failure) == (name, 0, "")


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a session keep the first plan of each check."""
    settings = WHOLE_TABLES
    for old, new in (("force_custom_plan", "force_generic_plan"), ("'50s'", "'1s'")):
        assert old in settings
        settings = settings.replace(old, new)
    monkeypatch.setattr(store, "WHOLE_TABLES", settings)


@pytest.fixture
async def archive(booth: Booth) -> AsyncIterator[Archive]:
    """Nobody analyses its tables."""
    await populate(booth)
    await booth.execute(ALONE)
    await booth.execute("ANALYZE")
    shards = await open_shards({"s1": booth.dsn}, pool_size=2)
    observer = await asyncpg.connect(at(booth.dsn, user="postgres"))
    archive = Archive(Meter(observer, shards["s1"]), 0)
    await archive.check()
    await observer.execute(GROW)
    for table in ("seat", "hold", "orders", "order_seat", "ticket", "area", "area_counter", "outbox"):
        archive.rows += await observer.fetchval(f"SELECT count(*) FROM {table}")
    yield archive
    await observer.close()
    await shards.close()


async def test_checks_read_each_table_once(archive: Archive) -> None:
    await archive.check()
    assert archive.excess() == {}


async def test_a_check_that_reads_orders_for_each_area_is_found(archive: Archive) -> None:
    """The control."""
    query = archive.meter.shard.read(lambda connection: connection.fetch(ONCE_FOR_EACH_AREA))
    assert await archive.meter("once for each area", query) == []
    assert archive.excess().keys() == {"once for each area"}


async def test_a_check_that_keeps_its_plan_does_not_end(keeping: None, archive: Archive) -> None:
    """The control."""
    finding = await store.check_invariant(archive.meter.shard, "confirmed_order_without_tickets")
    assert finding.failure.startswith("QueryCanceledError")
