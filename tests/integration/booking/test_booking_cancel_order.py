"""Cancelled orders: what was bought goes back once, and the money is owed back once."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from services.booking.tickets import issue_tickets
from tests.integration.booking.booth import FEE, PRICE, Booth, inventory, refused, timestamp, told
from tests.integration.booking.rounds import gated, through_gate
from tests.integration.booking.schedules import guarded_or_not, take_out
from tests.integration.booking.test_booking_areas import counters, floor
from tests.integration.booking.test_booking_orders import tickets_of

Code = grpc.StatusCode
OWNER = "AND s.order_id IS NOT DISTINCT FROM CASE WHEN p_from <> 'AVAILABLE' THEN p_order END"
TABLES = ("seat", "area_counter", "hold", "orders", "order_seat", "ticket", "refund_due", "late_payment", "outbox")

resale_or_not = pytest.mark.parametrize("resale", [True, False], ids=["resale", "no resale"])


def in_an_hour() -> Any:
    """When cancellation ends, unless a test says otherwise."""
    return timestamp(datetime.now(UTC) + timedelta(hours=1))


async def cancellable(booth: Booth, *, resale: bool = True) -> None:
    """The event of the booth, with a cancellation window."""
    await booth.internal.PutInventory(inventory(version=2, cancel_end_time=in_an_hour(), resale=resale))


async def bought(booth: Booth, account: str, *seats: int, tickets: bool = True, key: str = "") -> str:
    """A confirmed order's id."""
    order_id = await booth.order(account, (await booth.hold(account, *seats, key=key)).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    if tickets:
        await issue_tickets(booth.shards["s1"])
    return order_id


async def refunds(booth: Booth) -> list[tuple[int, str]]:
    """What is owed back."""
    return [tuple(row) for row in await booth.execute("SELECT amount, currency FROM refund_due")]


async def everything(booth: Booth) -> dict[str, list[str]]:
    """Every row that a cancellation could touch."""
    rows = {name: await booth.execute(f"SELECT CAST(t AS text) AS row FROM {name} t ORDER BY 1") for name in TABLES}
    return {name: [row["row"] for row in found] for name, found in rows.items()}


@resale_or_not
async def test_cancel_order_ends_all_of_it(booth: Booth, resale: bool) -> None:
    await cancellable(booth, resale=resale)
    order_id = await bought(booth, "ann", 1, 2)
    before = await booth.get_order("ann", order_id)
    cancelled = await booth.cancel("ann", order_id)
    assert (cancelled.state, cancelled.payment_state) == (pb.ORDER_STATE_CANCELLED, pb.PAYMENT_STATE_SUCCEEDED)
    assert (cancelled.seats, cancelled.total, cancelled.hold_id) == (before.seats, before.total, before.hold_id)
    assert await booth.get_order("ann", order_id) == cancelled
    assert await booth.seats() == ({"available": 20} if resale else {"available": 18, "blocked": 2})
    tickets = await tickets_of(booth, "ann", order_id)
    assert [ticket.state for ticket in tickets] == [pb.TICKET_STATE_REVOKED] * 2
    assert await refunds(booth) == [(2 * (PRICE + FEE), "EUR")]
    assert await told(booth) == [("confirmed", 2), ("cancelled", 3)]
    (row,) = await booth.execute("SELECT version, cancel_time >= confirm_time AS in_order FROM orders")
    assert tuple(row) == (3, True)
    assert await booth.broken() == {}


async def test_cancel_order_tells_what_others_may_know(booth: Booth) -> None:
    await cancellable(booth)
    await booth.cancel("ann", await bought(booth, "ann", 1, 2))
    sql = "SELECT CAST(payload AS text) AS text, payload ->> 'state' AS state, payload ->> 'total_amount' AS total"
    (row,) = await booth.execute(f"{sql} FROM outbox WHERE kind = 'cancelled'")
    assert (row["state"], row["total"]) == ("CANCELLED", str(2 * (PRICE + FEE)))
    assert "ann@example.test" not in row["text"]
    assert "pm_card_visa" not in row["text"]


async def test_cancel_order_refunds_what_was_charged(booth: Booth) -> None:
    """Not what a ticket costs by now."""
    await cancellable(booth)
    order_id = await bought(booth, "ann", 1)
    await booth.execute("UPDATE tier SET price = 1")
    await booth.cancel("ann", order_id)
    assert await refunds(booth) == [(PRICE + FEE, "EUR")]


async def test_cancel_order_before_its_tickets_leaves_none_to_issue(booth: Booth) -> None:
    await cancellable(booth)
    order_id = await bought(booth, "ann", 1, tickets=False)
    assert (await booth.cancel("ann", order_id)).tickets_state == pb.TICKETS_STATE_NONE
    assert await issue_tickets(booth.shards["s1"]) == 0
    assert await tickets_of(booth, "ann", order_id) == []
    assert await booth.broken() == {}


async def test_cancel_order_gives_the_account_its_room_back(booth: Booth) -> None:
    await cancellable(booth)
    order_id = await bought(booth, "ann", *range(1, 9))
    assert (await refused(booth.hold("ann", 9)))[1] == "TOO_MANY_TICKETS"
    await booth.cancel("ann", order_id)
    assert (await booth.hold("ann", *range(1, 9), key="again")).hold_id


@resale_or_not
async def test_cancel_order_replays(booth: Booth, resale: bool) -> None:
    """At any time: that the window is over by then changes nothing."""
    await cancellable(booth, resale=resale)
    order_id = await bought(booth, "ann", 1, 2)
    answer = await booth.cancel("ann", order_id)
    after = await everything(booth)
    assert await booth.cancel("ann", order_id) == answer
    await booth.execute("UPDATE event SET cancel_end_time = clock_timestamp()")
    assert await booth.cancel("ann", order_id) == answer
    assert await everything(booth) == after


@guarded_or_not
async def test_cancel_order_by_six_at_once_happens_once(booth: Booth, guarded: bool) -> None:
    """The control takes no lock: all six see a confirmed order, and five find its seats gone."""
    await cancellable(booth)
    order_id = await bought(booth, "ann", 1, 2)
    if not guarded:
        await take_out(booth, "cancel_order", "PERFORM pg_advisory_xact_lock(account_lock(o.event_id, o.account));")
        await take_out(booth, "cancel_order", "p_order FOR NO KEY UPDATE;", instead="p_order;")
        await take_out(booth, "cancel_order", "ORDER BY t.ticket_id FOR NO KEY UPDATE", instead="ORDER BY t.ticket_id")
        await take_out(booth, "lock_order_things", "FOR NO KEY UPDATE")
    await take_out(booth, "cancel_order", "verdict := 'CANCELLED';", instead=gated("verdict := 'CANCELLED';"))
    answers = await through_gate(booth, *(booth.cancel("ann", order_id) for _ in range(6)))
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if guarded:
        assert not errors
        assert all(answer == answers[0] for answer in answers)
        assert (await booth.get_order("ann", order_id)) == answers[0]
    else:
        assert errors
    assert await booth.seats() == {"available": 20}
    assert await refunds(booth) == [(2 * (PRICE + FEE), "EUR")]
    assert await told(booth) == [("confirmed", 2), ("cancelled", 3)]
    assert await booth.broken() == {}


async def test_cancel_order_of_others_does_not_exist(booth: Booth) -> None:
    await cancellable(booth)
    order_id = await bought(booth, "ann", 1)
    before = await everything(booth)
    for account, name in (("bob", order_id), ("ann", "ord_s1_1"), ("ann", "ord_s9_1"), ("ann", "x"), ("ann", "")):
        assert (await refused(booth.cancel(account, name)))[:2] == (Code.NOT_FOUND, "ORDER_NOT_FOUND")
    assert await everything(booth) == before
    await booth.cancel("ann", order_id)
    assert (await refused(booth.cancel("bob", order_id)))[1] == "ORDER_NOT_FOUND"


@pytest.mark.parametrize("state", ["PENDING_PAYMENT", "FAILED"])
async def test_cancel_order_needs_a_confirmed_order(booth: Booth, state: str) -> None:
    await cancellable(booth)
    order_id = await booth.order("ann", (await booth.hold("ann", 1)).hold_id)
    if state == "FAILED":
        await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
    before = await everything(booth)
    assert await refused(booth.cancel("ann", order_id)) == (Code.ABORTED, "NOT_CANCELLABLE", {"state": state})
    assert await everything(booth) == before


@pytest.mark.parametrize("why", ["it is too late", "there is no time for it", "a ticket was used"])
async def test_cancel_order_is_closed(booth: Booth, why: str) -> None:
    await cancellable(booth)
    order_id = await bought(booth, "ann", 1, 2)
    closing = {
        "it is too late": "UPDATE event SET cancel_end_time = clock_timestamp()",
        "there is no time for it": "UPDATE event SET cancel_end_time = NULL",
        "a ticket was used": "UPDATE ticket SET state = 'USED' WHERE seat_id = 2",
    }
    await booth.execute(closing[why])
    before = await everything(booth)
    for _ in range(2):
        assert (await refused(booth.cancel("ann", order_id)))[:2] == (Code.ABORTED, "CANCELLATION_CLOSED")
    assert await everything(booth) == before
    opening = {"a ticket was used": "UPDATE ticket SET state = 'VALID'"}
    await booth.execute(opening.get(why, "UPDATE event SET cancel_end_time = clock_timestamp() + interval '1 hour'"))
    assert (await booth.cancel("ann", order_id)).state == pb.ORDER_STATE_CANCELLED


async def test_cancel_order_is_closed_where_the_event_says_nothing(booth: Booth) -> None:
    order_id = await bought(booth, "ann", 1)
    assert (await refused(booth.cancel("ann", order_id)))[1] == "CANCELLATION_CLOSED"


@pytest.mark.parametrize("paid", ["at once", "late"])
async def test_an_outcome_told_again_leaves_a_cancelled_order(booth: Booth, paid: str) -> None:
    """Late money, which took its seats again, does not take them once more."""
    await cancellable(booth)
    order_id = await booth.order("ann", (await booth.hold("ann", 1, 2)).hold_id)
    if paid == "late":
        await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "TIMED_OUT")
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    await issue_tickets(booth.shards["s1"])
    await booth.cancel("ann", order_id)
    after = await everything(booth)
    for outcome in (pb.PAYMENT_OUTCOME_SUCCEEDED, pb.PAYMENT_OUTCOME_UNKNOWN, pb.PAYMENT_OUTCOME_SUCCEEDED):
        assert await booth.outcome(order_id, outcome) == pb.ORDER_STATE_CANCELLED
    code, reason, _ = await refused(booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "X"))
    assert (code, reason) == (Code.FAILED_PRECONDITION, "OUTCOME_CONFLICT")
    assert await issue_tickets(booth.shards["s1"]) == 0
    assert await everything(booth) == after
    assert await booth.broken() == {}


@pytest.mark.parametrize("state", ["held", "pending_payment", "sold"])
async def test_cancel_order_told_again_leaves_the_seat_to_its_new_owner(booth: Booth, state: str) -> None:
    await cancellable(booth)
    order_id = await bought(booth, "ann", 1, 2)
    answer = await booth.cancel("ann", order_id)
    held = await booth.hold("bob", 2)
    if state != "held":
        new_order = await booth.order("bob", held.hold_id)
    if state == "sold":
        await booth.outcome(new_order, pb.PAYMENT_OUTCOME_SUCCEEDED)
    before = await everything(booth)
    assert await booth.cancel("ann", order_id) == answer
    assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED) == pb.ORDER_STATE_CANCELLED
    assert await everything(booth) == before
    assert await booth.seats() == {"available": 19, state: 1}
    assert await booth.broken() == {}


@guarded_or_not
async def test_cancel_order_moves_only_seats_that_bear_its_id(booth: Booth, guarded: bool) -> None:
    """Were a cancelled order not known as such, the order's id on each seat would still save the new owner. The control
    does not look at it."""
    await cancellable(booth)
    order_id = await bought(booth, "ann", 1, 2)
    await booth.cancel("ann", order_id)
    new_order = await bought(booth, "bob", 1, 2)
    await take_out(booth, "cancel_order", "o.state = 'CANCELLED'", "o.state <> 'CONFIRMED'", instead="false")
    await take_out(booth, "cancel_order", "AND state = 'CONFIRMED'")
    await booth.execute("ALTER TABLE refund_due DROP CONSTRAINT refund_due_pkey")
    if not guarded:
        await take_out(booth, "move_order_seats", OWNER)
    before = await everything(booth)
    if guarded:
        assert (await refused(booth.cancel("ann", order_id)))[0] == Code.INTERNAL
        assert await everything(booth) == before
        assert await booth.broken() == {}
    else:
        await booth.cancel("ann", order_id)
        assert await booth.seats() == {"available": 20}
        assert (await booth.get_order("bob", new_order)).state == pb.ORDER_STATE_CONFIRMED
        assert (await booth.broken())["order_without_its_seats"] == 1


@resale_or_not
async def test_cancel_order_gives_units_back_once(booth: Booth, resale: bool) -> None:
    """To each counter what was taken from it; where there is no resale, they stay away."""
    await booth.internal.PutInventory(floor(200, cancel_end_time=in_an_hour(), resale=resale))
    await booth.execute("UPDATE area_counter SET available = 2")
    await booth.execute("UPDATE area SET capacity = 8")
    order_id = await booth.order("ann", (await booth.units("ann", 5)).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    await issue_tickets(booth.shards["s1"])
    taken = await counters(booth)
    assert sum(taken) == 3
    (row,) = await booth.execute("SELECT counters, amounts FROM orders")
    own = dict(zip(row["counters"], row["amounts"], strict=True))
    assert len(own) == 3
    answers = [await booth.cancel("ann", order_id)]
    answers += await asyncio.gather(*(booth.cancel("ann", order_id) for _ in range(6)))
    assert all(answer == answers[0] for answer in answers)
    assert (answers[0].state, answers[0].area.quantity) == (pb.ORDER_STATE_CANCELLED, 5)
    given_back = [left + own.get(counter, 0) for counter, left in enumerate(taken)]
    assert await counters(booth) == (given_back if resale else taken)
    assert (await booth.areas())[1]["available"] == (8 if resale else 3)
    assert [ticket.state for ticket in await tickets_of(booth, "ann", order_id)] == [pb.TICKET_STATE_REVOKED] * 5
    assert await refunds(booth) == [(5 * (PRICE + FEE), "EUR")]
    assert await told(booth) == [("confirmed", 2), ("cancelled", 3)]
    if resale:
        assert (await booth.units("bob", 8)).area.quantity == 8
        before = await everything(booth)
        assert await booth.cancel("ann", order_id) == answers[0]
        assert await everything(booth) == before
    else:
        assert (await refused(booth.units("bob", 4)))[1] in ("SOLD_OUT", "TEMPORARILY_UNAVAILABLE", "NO_BLOCK")
    assert await booth.broken() == {}
