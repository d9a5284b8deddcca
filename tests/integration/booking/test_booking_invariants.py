"""Each promise's check finds the violation that is planted for it, and nothing where none is."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.workers import Worker
from services.booking.monitor import FAILURES
from services.booking.monitor import VIOLATIONS as GAUGE
from services.booking.store.invariants import NAMES
from services.booking.tickets import issue_tickets
from tests.integration.booking.booth import Booth, refused, timestamp
from tests.integration.booking.schedules import connections
from tests.integration.booking.test_booking_areas import floor
from tests.integration.cli.conftest import run_command
from tests.support.servers import Servers

FREE = "state = 'AVAILABLE', hold_id = NULL, hold_expires_at = NULL, order_id = NULL"

VIOLATIONS = {
    "seat_with_two_orders": "DROP INDEX a_seat_has_one_live_order; INSERT INTO order_seat SELECT o.order_id, 3, 7, 0, 0"
    " FROM orders o WHERE o.account = 'cid'",
    "order_without_its_seats": f"UPDATE seat SET {FREE} WHERE seat_id = 3",
    "seat_without_its_order": "UPDATE seat SET state = 'SOLD', order_id = uuidv7() WHERE seat_id = 10",
    "ended_order_keeps_a_seat": "UPDATE order_seat SET live = true WHERE seat_id = 6",
    "held_seat_without_its_hold": "UPDATE seat SET state = 'HELD', hold_id = uuidv7(),"
    " hold_expires_at = clock_timestamp() + interval '1 h' WHERE seat_id = 10",
    "held_seat_that_nobody_sweeps": "UPDATE hold SET swept = true WHERE account = 'ann'",
    "hold_without_its_seats": f"UPDATE seat SET {FREE} WHERE seat_id = 1",
    "hold_and_order_disagree": "UPDATE hold SET state = 'RELEASED' WHERE account = 'bob'",
    "area_units_do_not_add_up": "UPDATE area_counter SET available = available + 1",
    "area_oversold": "UPDATE area SET capacity = 4",
    "units_from_nowhere": "UPDATE hold SET amounts = '{1}' WHERE account = 'dan'",
    "units_of_an_ended_hold": "UPDATE hold SET state = 'EXPIRED', end_time = clock_timestamp() WHERE account = 'dan'",
    "hold_overdue": "UPDATE hold SET expires_at = clock_timestamp() - interval '2 min' WHERE account = 'ann'",
    "account_over_its_cap": "UPDATE event SET tickets_per_account = 1, highest_tickets_per_account = 1",
    "order_total_is_not_its_prices": "UPDATE orders SET total_amount = total_amount + 1 WHERE account = 'eve'",
    "confirmed_order_without_tickets": "DELETE FROM ticket;"
    " UPDATE orders SET confirm_time = confirm_time - interval '2 min' WHERE state = 'CONFIRMED'",
    "ticket_without_its_order": "UPDATE ticket SET state = 'VALID' WHERE seat_id = 6",
    "revoked_ticket_of_a_confirmed_order": "UPDATE ticket SET state = 'REVOKED' WHERE seat_id = 3",
    "order_without_its_charge": "DELETE FROM outbox WHERE sink = 'payments'",
    "order_past_its_bound": "UPDATE orders SET create_time = create_time - interval '2 h'",
    "refund_not_owed": "UPDATE refund_due SET amount = amount + 1",
    "paid_order_that_ended_without_a_refund": "DELETE FROM refund_due",
    "outbox_undelivered": "UPDATE outbox SET due_time = due_time - interval '1 day', claim_number = 1",
    "outbox_parked": "UPDATE outbox SET parked_time = clock_timestamp()",
}


async def populate(booth: Booth) -> None:
    """Of everything: ann and dan hold, cid waits for payment, bob and eve bought, fay cancelled, gil failed."""
    end = timestamp(datetime.now(UTC) + timedelta(hours=1))
    await booth.internal.PutInventory(floor(10, cancel_end_time=end, resale=True))
    await booth.hold("ann", 1, 2)
    await booth.units("dan", 2)
    holds = {"cid": await booth.hold("cid", 5), "gil": await booth.hold("gil", 7), "fay": await booth.hold("fay", 6)}
    holds |= {"bob": await booth.hold("bob", 3, 4), "eve": await booth.units("eve", 3)}
    orders = {account: await booth.order(account, hold.hold_id) for account, hold in holds.items()}
    for account in ("bob", "eve", "fay"):
        await booth.outcome(orders[account], pb.PAYMENT_OUTCOME_SUCCEEDED)
    await booth.outcome(orders["gil"], pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
    await issue_tickets(booth.shards["s1"])
    await booth.cancel("fay", orders["fay"])


async def test_nothing_is_found_where_nothing_is_broken(booth: Booth) -> None:
    await populate(booth)
    assert await booth.broken() == {}
    assert set(VIOLATIONS) == set(NAMES)


async def test_what_was_sold_before_the_cap_was_lowered_breaks_nothing(booth: Booth) -> None:
    await populate(booth)
    await booth.internal.PutInventory(floor(10, version=3, tickets_per_account=1, resale=True))
    assert await booth.broken() == {}
    assert (await refused(booth.hold("eve", 10)))[2] == {"limit": "1", "used": "3"}


@pytest.mark.parametrize("name", VIOLATIONS)
async def test_a_planted_violation_is_found(booth: Booth, name: str) -> None:
    await populate(booth)
    for statement in VIOLATIONS[name].split(";"):
        await booth.execute(statement)
    invariants = await booth.check_invariants()
    (found,) = [invariant for invariant in invariants if invariant.name == name]
    assert found.violations >= 1
    assert found.examples
    assert found.description


def watcher(booth: Booth) -> Worker:
    """The worker whose gauges operators see."""
    return next(worker for worker in booth.workers.all() if worker.name == "watch_invariants")


def gauges(shard: str = "s1") -> dict[str, float | None]:
    """What the last round made of each invariant; not a number is None."""
    found = {name: GAUGE.labels(shard, name)._value.get() for name in NAMES}
    return {name: None if math.isnan(value) else value for name, value in found.items()}


def failures(shard: str = "s1") -> dict[str, float]:
    """How often each could not be checked."""
    return {name: FAILURES.labels(shard, name)._value.get() for name in NAMES}


async def test_a_violation_is_in_the_gauge_until_it_is_mended(booth: Booth) -> None:
    await populate(booth)
    watch = watcher(booth)
    kept = dict.fromkeys(NAMES, 0)
    await watch.run_once()
    assert gauges() == kept
    await booth.execute("UPDATE orders SET total_amount = total_amount + 1 WHERE account IN ('eve', 'cid')")
    await watch.run_once()
    assert gauges() == kept | {"order_total_is_not_its_prices": 2}
    await booth.execute("UPDATE orders SET total_amount = total_amount - 1 WHERE account IN ('eve', 'cid')")
    await watch.run_once()
    assert gauges() == kept


async def test_a_query_that_fails_is_not_known_and_leaves_the_others_reported(booth: Booth) -> None:
    await populate(booth)
    watch, before = watcher(booth), failures()
    await watch.run_once()
    await booth.execute("ALTER TABLE refund_due RENAME amount TO sum")
    await booth.execute(VIOLATIONS["order_past_its_bound"])
    await watch.run_once()
    assert gauges() == dict.fromkeys(NAMES, 0) | {"refund_not_owed": None, "order_past_its_bound": 1}
    assert failures() == before | {"refund_not_owed": before["refund_not_owed"] + 1}
    invariants = await booth.check_invariants()
    told = {found.name: found for found in invariants}
    assert [*told] == NAMES
    assert told["order_past_its_bound"].violations == 1
    assert {name: found.violations for name, found in told.items() if found.unchecked} == {"refund_not_owed": -1}
    assert told["refund_not_owed"].unchecked[0].startswith("s1: UndefinedColumnError: ")
    assert "refund_not_owed" in await booth.broken()
    await booth.execute("ALTER TABLE refund_due RENAME sum TO amount")
    await watch.run_once()
    assert gauges()["refund_not_owed"] == 0


async def test_a_table_that_is_locked_makes_nothing_else_unknown(booth: Booth) -> None:
    await populate(booth)
    watch = watcher(booth)
    await booth.execute(VIOLATIONS["order_total_is_not_its_prices"])
    async with connections(booth, 1) as (other,), other.transaction():
        await other.execute("LOCK TABLE refund_due IN ACCESS EXCLUSIVE MODE")
        await watch.run_once()
    unknown = {"refund_not_owed": None, "paid_order_that_ended_without_a_refund": None}
    assert gauges() == dict.fromkeys(NAMES, 0) | unknown | {"order_total_is_not_its_prices": 1}
    await watch.run_once()
    assert gauges() == dict.fromkeys(NAMES, 0) | {"order_total_is_not_its_prices": 1}


async def test_all_violations_are_counted_and_few_are_named(booth: Booth) -> None:
    await booth.execute(
        "INSERT INTO hold (hold_id, event_id, account, idempotency_key, fingerprint, ticket_count, seats, prices, fees,"
        " currency_code, create_time, expires_at) SELECT uuidv7(), 7, 'fan-' || n, 'k', '', 1, ARRAY[1], '{1}', '{0}',"
        " 'EUR', now(), now() - interval '2 min' FROM generate_series(1, 3000) n"
    )
    invariants = await booth.check_invariants()
    (found,) = [invariant for invariant in invariants if invariant.violations]
    assert (found.name, found.violations, len(found.examples)) == ("hold_overdue", 3000, 10)


async def test_the_cli_does_not_call_kept_what_is_not_known(booth: Booth, servers: Servers) -> None:
    ((server, _),) = servers.running
    address = {"ROWLOCK_CLI_BOOKING": f"127.0.0.1:{server.port}"}
    await populate(booth)
    await booth.execute("ALTER TABLE refund_due RENAME amount TO sum")
    told = await run_command("invariants", **address)
    assert (told.status, told.out.count("kept"), told.out.count("not known")) == (3, len(NAMES), 1)  # and a heading
    await booth.execute(VIOLATIONS["outbox_parked"])
    told = await run_command("invariants", "--json", **address)
    assert told.status == 1
    found = {each["name"]: each for each in told.json()["invariants"]["booking"]}
    assert found["refund_not_owed"]["violations"] == "-1"
    assert "UndefinedColumnError" in found["refund_not_owed"]["unchecked"][0]
    assert int(found["outbox_parked"]["violations"]) > 1
