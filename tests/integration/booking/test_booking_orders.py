"""Orders, payments' outcomes and tickets, one caller at a time."""

import asyncio
from uuid import UUID

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.ids import parse_id
from chassis.outbox import SinkUnavailable
from services.booking.expiry import sweep_holds
from services.booking.tickets import issue_tickets
from tests.integration.booking.booth import EVENT, FEE, PRICE, Booth, caller, inventory, refused
from tests.integration.booking.test_booking_holds import GRACE

Code = grpc.StatusCode


async def tickets_of(booth: Booth, account: str, order_id: str) -> list[pb.Ticket]:
    """As their owner sees them."""
    request = pb.ListTicketsRequest(order_id=order_id)
    return list((await booth.public.ListTickets(request, metadata=caller(account))).tickets)


async def test_create_order_takes_the_seats_and_asks_for_the_charge(booth: Booth) -> None:
    hold = await booth.hold("ann", 1, 2)
    order_id = await booth.order("ann", hold.hold_id)
    order = await booth.get_order("ann", order_id)
    assert (order.state, order.payment_state) == (pb.ORDER_STATE_PENDING_PAYMENT, pb.PAYMENT_STATE_PENDING)
    assert (order.tickets_state, order.hold_id, order.event_id) == (pb.TICKETS_STATE_NONE, hold.hold_id, EVENT)
    assert (order.seats, order.total, order.fees) == (hold.seats, hold.total, hold.fees)
    assert await booth.seats() == {"available": 18, "pending_payment": 2}
    assert booth.workers.relays["s1"].wake.is_set()
    await booth.workers.relays["s1"].run_once()
    ((shard, message),) = booth.charges.asked
    assert (shard, f"{UUID(message.aggregate_id).int}") == ("s1", f"{parse_id('ord', order_id)[1]}")  # type: ignore[index]
    assert message.payload == {
        "amount_minor": 2 * (PRICE + FEE),
        "currency_code": "EUR",
        "payment_token": "pm_card_visa",
    }
    (row,) = await booth.execute("SELECT email FROM orders")
    assert row["email"] == "ann@example.test"
    assert await booth.broken() == {}


async def test_create_order_charges_what_the_hold_said(booth: Booth) -> None:
    hold = await booth.hold("ann", 1)
    await booth.execute("UPDATE tier SET price = 1")
    order = await booth.get_order("ann", await booth.order("ann", hold.hold_id))
    assert order.total.amount_minor == PRICE + FEE


async def test_an_order_that_costs_nothing_is_paid_as_it_is_made(booth: Booth) -> None:
    await booth.execute("UPDATE tier SET price = 0, fee = 0")
    await booth.execute("UPDATE event SET version = version + 1")  # so that no process keeps the old prices
    holds = [(name, (await booth.hold(name, seat)).hold_id) for seat, name in ((1, "ann"), (2, "bob"))]
    booth.workers.sales.take()
    free = await asyncio.gather(*(booth.order(*each) for each in holds))
    (told,) = booth.workers.sales.take()  # an outcome of a charge will never tell
    assert (told.event_id, told.commits, sorted(told.finished_accounts)) == (EVENT, 2, ["ann", "bob"])
    assert booth.workers.issuers["s1"].wake.is_set()
    assert not booth.workers.relays["s1"].wake.is_set()
    assert await booth.order(*holds[0]) == free[0]
    assert booth.workers.sales.take() == []
    for name, order_id in zip(("ann", "bob"), free, strict=True):
        order = await booth.get_order(name, order_id)
        assert (order.state, order.payment_state) == (pb.ORDER_STATE_CONFIRMED, pb.PAYMENT_STATE_SUCCEEDED)
    assert await booth.execute("SELECT FROM outbox WHERE sink = 'payments'") == []
    await issue_tickets(booth.shards["s1"])
    assert [ticket.seat.seat_id for ticket in await tickets_of(booth, "ann", free[0])] == [1]
    assert await booth.seats() == {"available": 18, "sold": 2}
    assert await booth.broken() == {}


async def test_units_that_cost_nothing_are_paid_as_they_are_ordered(booth: Booth) -> None:
    floor = pb.InventoryArea(area_id=1, name="Floor", capacity=9, tier=1)
    await booth.internal.PutInventory(inventory(version=2, areas=[floor]))
    await booth.execute("UPDATE tier SET price = 0, fee = 0")
    order_id = await booth.order("ann", (await booth.units("ann", 3)).hold_id)
    assert (await booth.get_order("ann", order_id)).state == pb.ORDER_STATE_CONFIRMED
    assert await booth.areas() == {1: {"available": 6, "sold": 3}}
    (told,) = booth.workers.sales.take()
    assert told.finished_accounts == ("ann",)
    assert await booth.broken() == {}


async def test_an_order_of_nothing_but_a_fee_is_charged(booth: Booth) -> None:
    await booth.execute("UPDATE tier SET price = 0")
    order_id = await booth.order("ann", (await booth.hold("ann", 1)).hold_id)
    assert (await booth.get_order("ann", order_id)).state == pb.ORDER_STATE_PENDING_PAYMENT
    (told,) = booth.workers.sales.take()
    assert told.finished_accounts == ()
    await booth.workers.relays["s1"].run_once()
    assert booth.charges.asked[0][1].payload["amount_minor"] == FEE


async def test_create_order_replays_and_knows_its_hold(booth: Booth) -> None:
    hold, other = await booth.hold("ann", 1), await booth.hold("ann", 2)
    order = await booth.order("ann", hold.hold_id, key="k")
    assert await booth.order("ann", hold.hold_id, key="k") == order
    assert (await refused(booth.order("ann", hold.hold_id, key="k", token="pm_other")))[1] == "IDEMPOTENCY_KEY_REUSED"
    assert (await refused(booth.order("ann", other.hold_id, key="k")))[1] == "IDEMPOTENCY_KEY_REUSED"
    code, reason, metadata = await refused(booth.order("ann", hold.hold_id, key="k2"))
    assert (code, reason, metadata) == (Code.ALREADY_EXISTS, "ORDER_EXISTS", {"orderId": order})
    rows = await booth.execute("SELECT count(*) FROM outbox")
    assert rows[0][0] == 1


async def test_create_order_needs_key_token_and_its_own_hold(booth: Booth) -> None:
    hold = await booth.hold("ann", 1)
    assert (await refused(booth.order("bob", hold.hold_id)))[:2] == (Code.NOT_FOUND, "HOLD_NOT_FOUND")
    assert (await refused(booth.order("ann", "hld_s1_1")))[1] == "HOLD_NOT_FOUND"
    for token in ("", "x" * 256, "pm\0card", "pm card", "4242424242424242", "4242-4242-4242-4242"):
        assert (await refused(booth.order("ann", hold.hold_id, token=token)))[0] == Code.INVALID_ARGUMENT
    request = pb.CreateOrderRequest(hold_id=hold.hold_id, payment_token="pm")
    no_mail_server_takes_it = booth.order("a" * 243, (await booth.hold("a" * 243, 2)).hold_id)
    assert (await refused(no_mail_server_takes_it))[0] == Code.INVALID_ARGUMENT
    await booth.execute("UPDATE seat SET state = 'AVAILABLE', hold_id = NULL, hold_expires_at = NULL WHERE seat_id = 2")
    no_key = booth.public.CreateOrder(request, metadata=caller("ann"))
    assert (await refused(no_key))[1] == "IDEMPOTENCY_KEY_REQUIRED"
    assert await booth.seats() == {"available": 19, "held": 1}


async def test_create_order_within_the_grace_and_not_after(booth: Booth) -> None:
    early, late = await booth.hold("ann", 1), await booth.hold("ann", 2)
    await booth.age(late.hold_id, 5)
    await booth.age(early.hold_id, 1)
    assert await booth.order("ann", early.hold_id)
    assert (await refused(booth.order("ann", late.hold_id)))[:2] == (Code.ABORTED, "HOLD_EXPIRED")


async def test_create_order_of_a_hold_taken_over_within_the_grace(booth: Booth) -> None:
    hold = await booth.hold("ann", 1, 2)
    await booth.age(hold.hold_id, 1)
    await booth.hold("bob", 2)
    assert (await refused(booth.order("ann", hold.hold_id)))[1] == "HOLD_EXPIRED"
    assert await booth.broken() == {}


async def test_a_success_sells_the_seats_and_brings_the_tickets_once(booth: Booth) -> None:
    order_id = await booth.order("ann", (await booth.hold("ann", 5, 4)).hold_id)
    assert await issue_tickets(booth.shards["s1"]) == 0
    for _ in range(2):
        assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED) == pb.ORDER_STATE_CONFIRMED
    assert booth.workers.issuers["s1"].wake.is_set()
    assert (await booth.get_order("ann", order_id)).tickets_state == pb.TICKETS_STATE_PENDING
    assert await tickets_of(booth, "ann", order_id) == []
    issued = await asyncio.gather(*(issue_tickets(booth.shards["s1"]) for _ in range(4)))
    assert sum(issued) == 1
    tickets = await tickets_of(booth, "ann", order_id)
    assert [ticket.seat.seat_id for ticket in tickets] == [4, 5]
    assert {ticket.state for ticket in tickets} == {pb.TICKET_STATE_VALID}
    assert all(ticket.barcode == ticket.ticket_id and ticket.order_id == order_id for ticket in tickets)
    order = await booth.get_order("ann", order_id)
    assert (order.state, order.payment_state, order.tickets_state) == (
        pb.ORDER_STATE_CONFIRMED,
        pb.PAYMENT_STATE_SUCCEEDED,
        pb.TICKETS_STATE_ISSUED,
    )
    await booth.execute("UPDATE orders SET ticket_time = NULL")  # as if the issuer had died half way
    await issue_tickets(booth.shards["s1"])
    assert await tickets_of(booth, "ann", order_id) == tickets
    assert await booth.seats() == {"available": 18, "sold": 2}
    assert await booth.broken() == {}


async def test_a_decline_gives_the_seats_back(booth: Booth) -> None:
    hold = await booth.hold("ann", 1, 2)
    order_id = await booth.order("ann", hold.hold_id)
    for _ in range(2):
        assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED") == pb.ORDER_STATE_FAILED
    order = await booth.get_order("ann", order_id)
    assert (order.failure_reason, order.payment_state) == ("CARD_DECLINED", pb.PAYMENT_STATE_FAILED)
    assert [seat.seat_id for seat in order.seats] == [1, 2]
    assert await booth.seats() == {"available": 20}
    assert (await refused(booth.order("ann", hold.hold_id, key="again")))[1] == "ORDER_EXISTS"
    assert await booth.order("ann", (await booth.hold("ann", 1, 2, key="once more")).hold_id)
    assert await booth.broken() == {}


async def test_an_unknown_outcome_decides_nothing(booth: Booth) -> None:
    order_id = await booth.order("ann", (await booth.hold("ann", 1)).hold_id)
    assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_UNKNOWN) == pb.ORDER_STATE_PENDING_PAYMENT
    assert (await booth.get_order("ann", order_id)).payment_state == pb.PAYMENT_STATE_UNKNOWN
    assert await booth.seats() == {"available": 19, "pending_payment": 1}
    assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED) == pb.ORDER_STATE_CONFIRMED
    assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_UNKNOWN) == pb.ORDER_STATE_CONFIRMED
    assert (await booth.get_order("ann", order_id)).payment_state == pb.PAYMENT_STATE_SUCCEEDED


async def test_late_money_takes_the_same_seats_again(booth: Booth) -> None:
    order_id = await booth.order("ann", (await booth.hold("ann", 1, 2)).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "TIMED_OUT")
    for _ in range(2):
        assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED) == pb.ORDER_STATE_CONFIRMED
    await issue_tickets(booth.shards["s1"])
    assert len(await tickets_of(booth, "ann", order_id)) == 2
    assert (await booth.get_order("ann", order_id)).failure_reason == ""
    assert await booth.seats() == {"available": 18, "sold": 2}
    assert await booth.broken() == {}


@pytest.mark.parametrize("lost_to", ["another account", "the cap", "the end of the sale"])
async def test_late_money_never_takes_a_seat_from_its_new_owner(booth: Booth, lost_to: str) -> None:
    order_id = await booth.order("ann", (await booth.hold("ann", 1, 2)).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "TIMED_OUT")
    if lost_to == "another account":
        await booth.hold("bob", 2)
    elif lost_to == "the cap":
        await booth.hold("ann", *range(3, 10))
    else:
        await booth.execute("UPDATE event SET sale_end_time = clock_timestamp()")
    before = await booth.seats()
    for _ in range(2):
        assert (await refused(booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)))[1] == "OUTCOME_CONFLICT"
    assert await booth.seats() == before
    order = await booth.get_order("ann", order_id)
    assert (order.state, order.payment_state) == (pb.ORDER_STATE_FAILED, pb.PAYMENT_STATE_SUCCEEDED)
    rows = await booth.execute("SELECT verdict FROM late_payment")
    assert [row["verdict"] for row in rows] == ["REFUND"]
    if lost_to == "another account":  # judged once: that the seats are free now changes nothing
        bob = await booth.hold("bob", 2)
        await booth.public.ReleaseHold(pb.ReleaseHoldRequest(hold_id=bob.hold_id), metadata=caller("bob"))
        assert (await refused(booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)))[1] == "OUTCOME_CONFLICT"
    assert await booth.broken() == {}


async def test_a_failure_after_a_success_is_a_conflict(booth: Booth) -> None:
    order_id = await booth.order("ann", (await booth.hold("ann", 1)).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    code, reason, _ = await refused(booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "X"))
    assert (code, reason) == (Code.FAILED_PRECONDITION, "OUTCOME_CONFLICT")
    assert await booth.seats() == {"available": 19, "sold": 1}


async def test_outcomes_need_an_order_and_a_meaning(booth: Booth) -> None:
    for order_id in ("ord_s1_1", "ord_s9_1", ""):
        assert (await refused(booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED)))[1] == "ORDER_NOT_FOUND"
    assert (await refused(booth.outcome("ord_s1_1", pb.PAYMENT_OUTCOME_UNSPECIFIED)))[0] == Code.INVALID_ARGUMENT


async def test_orders_and_tickets_of_others_do_not_exist(booth: Booth) -> None:
    order_id = await booth.order("ann", (await booth.hold("ann", 1)).hold_id)
    for account, name in (("bob", order_id), ("ann", "ord_s1_1"), ("ann", "ord_s9_1"), ("ann", "x")):
        assert (await refused(booth.get_order(account, name)))[:2] == (Code.NOT_FOUND, "ORDER_NOT_FOUND")
        assert (await refused(tickets_of(booth, account, name)))[:2] == (Code.NOT_FOUND, "ORDER_NOT_FOUND")


async def test_old_work_finds_nothing_to_hurt(booth: Booth) -> None:
    """A release, a sweep, a compensation and an order that come late match no row of the seat's new owner."""
    hold = await booth.hold("ann", 1)
    failed = await booth.order("cid", (await booth.hold("cid", 2)).hold_id)
    await booth.outcome(failed, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
    await booth.age(hold.hold_id, 6)
    new_hold, new_order = await booth.hold("bob", 1), await booth.order("dan", (await booth.hold("dan", 2)).hold_id)
    await booth.public.ReleaseHold(pb.ReleaseHoldRequest(hold_id=hold.hold_id), metadata=caller("ann"))
    await sweep_holds(booth.shards["s1"], grace=GRACE)
    await booth.outcome(failed, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
    assert (await refused(booth.order("ann", hold.hold_id)))[1] == "HOLD_EXPIRED"
    assert (await booth.get_hold("bob", new_hold.hold_id)).state == pb.HOLD_STATE_ACTIVE
    assert (await booth.get_order("dan", new_order)).state == pb.ORDER_STATE_PENDING_PAYMENT
    assert await booth.seats() == {"available": 18, "held": 1, "pending_payment": 1}
    assert await booth.broken() == {}


async def test_a_charge_that_cannot_be_delivered_waits(booth: Booth) -> None:
    await booth.order("ann", (await booth.hold("ann", 1)).hold_id)
    booth.charges.error = SinkUnavailable("away")
    assert await booth.workers.relays["s1"].run_once() == 0
    booth.charges.error = None
    for _ in range(100):  # it rests a little first
        if await booth.workers.relays["s1"].run_once():
            break
        await asyncio.sleep(0.05)
    assert await booth.workers.relays["s1"].run_once() == 0
    assert len(booth.charges.asked) == 1


async def test_list_event_orders_pages_by_id(booth: Booth) -> None:
    orders = []
    for number in range(1, 8):
        orders.append(await booth.order(f"fan-{number}", (await booth.hold(f"fan-{number}", number)).hold_id))
    await booth.outcome(orders[0], pb.PAYMENT_OUTCOME_SUCCEEDED)
    await issue_tickets(booth.shards["s1"])
    found, token = [], ""
    while True:
        request = pb.ListEventOrdersRequest(event_id=EVENT, page_size=3, page_token=token)
        page = await booth.admin.ListEventOrders(request)
        found += page.orders
        token = page.next_page_token
        if not token:
            break
    assert [order.order_id for order in found] == orders
    assert (found[0].ticket_count, list(found[0].seat_ids), found[0].account) == (1, [1], "fan-1")
    assert [order.quantity for order in found] == [1] * 7
    assert found[0].total.amount_minor == PRICE + FEE
