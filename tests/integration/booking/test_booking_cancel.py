"""CancelOrder: a confirmed order ends, once, and what follows from it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from services.booking.tickets import issue_tickets
from tests.integration.booking.booth import FEE, PRICE, Booth, caller, inventory, refused, timestamp


async def told(booth: Booth) -> list[tuple[str, int]]:
    """What `booking.orders` is to hear: kinds with their versions, in order."""
    rows = await booth.execute(
        "SELECT kind, CAST(payload ->> 'version' AS int) AS version FROM outbox"
        " WHERE sink = 'booking.orders' ORDER BY message_id"
    )
    return [(row["kind"], row["version"]) for row in rows]


async def allow(booth: Booth, *, until: timedelta = timedelta(hours=1), resale: bool = True, **changes: Any) -> None:
    """A version of the event that may be cancelled."""
    end = timestamp(datetime.now(UTC) + until)
    await booth.internal.PutInventory(inventory(version=2, cancel_end_time=end, resale=resale, **changes))


async def confirmed(booth: Booth) -> str:
    """Ann's order of seats 1 and 2, paid, with its tickets."""
    order_id = await booth.order("ann", (await booth.hold("ann", 1, 2)).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    assert await issue_tickets(booth.shards["s1"]) == 1
    return order_id


@pytest.mark.parametrize("resale", [True, False])
async def test_cancel_order_gives_seats_back_if_they_may_be_sold_again(booth: Booth, resale: bool) -> None:
    await allow(booth, resale=resale)
    order_id = await confirmed(booth)
    order = await booth.cancel("ann", order_id)
    assert order.state == pb.ORDER_STATE_CANCELLED
    assert await booth.get_order("ann", order_id) == order
    assert await booth.seats() == {"available": 20} if resale else {"available": 18, "blocked": 2}
    assert await booth.broken() == {}
    if resale:
        assert (await booth.hold("bob", 1, 2)).hold_id
    else:
        assert (await refused(booth.hold("bob", 1, 2)))[1] == "SEAT_UNAVAILABLE"


async def test_cancel_order_revokes_its_tickets_and_owes_its_money(booth: Booth) -> None:
    await allow(booth)
    order_id = await confirmed(booth)
    await booth.cancel("ann", order_id)
    listed = await booth.public.ListTickets(pb.ListTicketsRequest(order_id=order_id), metadata=caller("ann"))
    assert [ticket.state for ticket in listed.tickets] == [pb.TICKET_STATE_REVOKED] * 2
    rows = await booth.execute("SELECT amount, currency FROM refund_due")
    assert [tuple(row) for row in rows] == [(2 * (PRICE + FEE), "EUR")]
    assert await told(booth) == [("confirmed", 2), ("cancelled", 3)]


async def test_cancel_order_again_changes_nothing(booth: Booth) -> None:
    await allow(booth)
    order_id = await confirmed(booth)
    order = await booth.cancel("ann", order_id)
    await booth.hold("bob", 1)
    assert await booth.cancel("ann", order_id) == order
    assert await booth.seats() == {"available": 19, "held": 1}
    assert await told(booth) == [("confirmed", 2), ("cancelled", 3)]
    assert await booth.broken() == {}


async def test_cancel_order_refuses_an_order_that_is_not_confirmed(booth: Booth) -> None:
    await allow(booth)
    order_id = await booth.order("ann", (await booth.hold("ann", 1)).hold_id)
    found = await refused(booth.cancel("ann", order_id))
    assert found == (grpc.StatusCode.ABORTED, "NOT_CANCELLABLE", {"state": "PENDING_PAYMENT"})
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
    assert (await refused(booth.cancel("ann", order_id)))[1:] == ("NOT_CANCELLABLE", {"state": "FAILED"})
    assert await told(booth) == [("failed", 2)]


@pytest.mark.parametrize("until", [timedelta(seconds=-1), None], ids=["over", "never"])
async def test_cancel_order_refuses_outside_its_window(booth: Booth, until: timedelta | None) -> None:
    if until is not None:
        await allow(booth, until=until)
    order_id = await confirmed(booth)
    assert (await refused(booth.cancel("ann", order_id)))[:2] == (grpc.StatusCode.ABORTED, "CANCELLATION_CLOSED")
    assert await booth.seats() == {"available": 18, "sold": 2}
    assert (await booth.get_order("ann", order_id)).state == pb.ORDER_STATE_CONFIRMED


async def test_cancel_order_refuses_once_a_ticket_was_used(booth: Booth) -> None:
    await allow(booth)
    order_id = await confirmed(booth)
    await booth.execute("UPDATE ticket SET state = 'USED' WHERE seat_id = 1")
    assert (await refused(booth.cancel("ann", order_id)))[1] == "CANCELLATION_CLOSED"
    assert await booth.seats() == {"available": 18, "sold": 2}


async def test_cancel_order_of_somebody_else_is_not_found(booth: Booth) -> None:
    await allow(booth)
    order_id = await confirmed(booth)
    for account, wanted in (("bob", order_id), ("ann", "ord_s1_1"), ("ann", "ord_s9_1"), ("ann", "nonsense")):
        assert (await refused(booth.cancel(account, wanted)))[:2] == (grpc.StatusCode.NOT_FOUND, "ORDER_NOT_FOUND")


async def test_a_cancelled_order_gets_no_tickets_and_frees_its_accounts_cap(booth: Booth) -> None:
    await allow(booth)
    order_id = await booth.order("ann", (await booth.hold("ann", *range(1, 9))).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    assert (await refused(booth.hold("ann", 9)))[1] == "TOO_MANY_TICKETS"
    await booth.cancel("ann", order_id)
    await issue_tickets(booth.shards["s1"])
    assert not await booth.execute("SELECT FROM ticket")
    assert (await booth.hold("ann", *range(9, 17))).hold_id
    assert await booth.broken() == {}
