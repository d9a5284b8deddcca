"""General admission: units of areas, one caller at a time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from services.booking.expiry import OVERDUE, OVERDUE_SECONDS, sweep_holds, watch_overdue
from services.booking.tickets import issue_tickets
from tests.integration.booking.booth import EVENT, FEE, PRICE, Booth, caller, inventory, refused, timestamp

Code = grpc.StatusCode
GRACE = timedelta(seconds=5)
NOTHING = timedelta(0)


def floor(capacity: int, *, version: int = 2, area: int = 1, **changes: Any) -> pb.PutInventoryRequest:
    """The event of the booth with an area, as a later version."""
    areas = [pb.InventoryArea(area_id=area, name="Floor", capacity=capacity, tier=1)]
    return inventory(version=version, areas=areas, **changes)


async def counters(booth: Booth) -> list[int]:
    """Units of each counter of area 1."""
    rows = await booth.execute("SELECT available FROM area_counter WHERE area_id = 1 ORDER BY counter")
    return [row["available"] for row in rows]


async def test_put_inventory_spreads_an_area_over_counters(booth: Booth) -> None:
    for version, (capacity, spread) in enumerate([(49, [49]), (149, [75, 74]), (1000, [63] * 8 + [62] * 8)], 2):
        await booth.internal.PutInventory(floor(capacity, version=version))
        assert await counters(booth) == spread
    assert await booth.areas() == {1: {"available": 1000}}
    assert await booth.broken() == {}


async def test_put_inventory_lets_an_area_shrink_to_what_is_taken(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(100))
    await booth.units("ann", 8)
    assert (await refused(booth.internal.PutInventory(floor(7, version=3))))[1] == "INVENTORY_CONFLICT"
    assert await booth.areas() == {1: {"available": 92, "held": 8}}
    await booth.internal.PutInventory(floor(8, version=3))
    assert await booth.areas() == {1: {"held": 8}}
    await booth.internal.PutInventory(floor(2000, version=4))
    assert len(await counters(booth)) == 16
    assert (await refused(booth.internal.PutInventory(inventory(version=5))))[1] == "INVENTORY_CONFLICT"
    assert (await refused(booth.internal.PutInventory(floor(9, version=5, area=2))))[1] == "INVENTORY_CONFLICT"
    assert await booth.areas() == {1: {"available": 1992, "held": 8}}
    assert await booth.broken() == {}


async def test_hold_area_holds_units_and_replays(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(100))
    held = await booth.units("ann", 3, key="k")
    assert (held.area.area_id, held.area.name, held.area.quantity) == (1, "Floor", 3)
    assert (held.area.price.amount_minor, held.area.price.currency_code) == (PRICE, "EUR")
    assert (held.total.amount_minor, held.fees.amount_minor) == (3 * (PRICE + FEE), 3 * FEE)
    assert list(held.seats) == []
    assert await booth.units("ann", 3, key="k") == held
    assert (await refused(booth.units("ann", 2, key="k")))[1] == "IDEMPOTENCY_KEY_REUSED"
    assert (await refused(booth.hold("ann", 1, key="k")))[1] == "IDEMPOTENCY_KEY_REUSED"
    hold = await booth.get_hold("ann", held.hold_id)
    assert (hold.area, hold.total, hold.state) == (held.area, held.total, pb.HOLD_STATE_ACTIVE)
    assert await booth.areas() == {1: {"available": 97, "held": 3}}
    assert await booth.seats() == {"available": 20}
    assert await booth.broken() == {}


async def test_hold_area_refuses_what_it_must(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(100, tickets_per_account=8))
    assert (await refused(booth.units("ann", 1, area=2)))[:2] == (Code.NOT_FOUND, "AREA_NOT_FOUND")
    for quantity in (0, 51, -1):
        assert (await refused(booth.units("ann", quantity)))[0] == Code.INVALID_ARGUMENT
    both = pb.HoldSeatsRequest(
        event_id=EVENT, seat_ids=[1], general_admission=pb.GeneralAdmission(area_id=1, quantity=1)
    )
    assert (await refused(booth.public.HoldSeats(both, metadata=caller("ann", key="k"))))[0] == Code.INVALID_ARGUMENT
    one = pb.HoldSeatsRequest(event_id=EVENT, general_admission=pb.GeneralAdmission(area_id=1, quantity=1))
    assert (await refused(booth.public.HoldSeats(one, metadata=caller("ann"))))[1] == "IDEMPOTENCY_KEY_REQUIRED"
    await booth.hold("ann", 1, 2, 3)
    await booth.units("ann", 4)
    code, reason, metadata = await refused(booth.units("ann", 2))
    assert (code, reason, metadata) == (Code.ABORTED, "TOO_MANY_TICKETS", {"limit": "8", "used": "7"})
    assert (await refused(booth.hold("ann", 4, 5)))[2] == {"limit": "8", "used": "7"}
    await booth.execute("UPDATE event SET sale_end_time = clock_timestamp()")
    assert (await refused(booth.units("bob", 2)))[1] == "NOT_ON_SALE"
    assert (await booth.units("ann", 4)).area.quantity == 4  # a replay is answered at any time


async def test_hold_area_counts_for_the_budget(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(100, holds_per_account=2))
    for number in range(2):
        held = await booth.units("ann", 1, key=f"k{number}")
        await booth.release("ann", held.hold_id)
    code, reason, metadata = await refused(booth.units("ann", 1, key="k2"))
    assert (code, reason) == (Code.RESOURCE_EXHAUSTED, "HOLD_BUDGET_SPENT")
    assert datetime.fromisoformat(metadata["retryTime"].replace("Z", "+00:00")) > datetime.now(UTC) + timedelta(
        minutes=9
    )
    assert (await booth.units("ann", 1, key="k1")).hold_id == held.hold_id


async def test_hold_area_is_shorter_in_the_onsale_window(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(100, onsale_hold_seconds=60, onsale_window_seconds=7200))
    short = await booth.units("ann", 1)
    await booth.execute("UPDATE event SET onsale_end_time = clock_timestamp()")
    long = await booth.units("bob", 1)
    assert 530 < long.expires_at.seconds - short.expires_at.seconds < 570


async def test_an_area_says_whether_something_may_come_back(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(5))
    held = await booth.units("ann", 3)
    code, reason, metadata = await refused(booth.units("bob", 3))
    assert (code, reason, metadata) == (Code.ABORTED, "NO_BLOCK", {"largest": "2"})
    bob = await booth.units("bob", 2)
    assert (await refused(booth.units("cid", 1)))[:2] == (Code.ABORTED, "TEMPORARILY_UNAVAILABLE")
    for account, hold in (("ann", held), ("bob", bob)):
        order_id = await booth.order(account, hold.hold_id)
        assert (await refused(booth.units("cid", 1)))[1] == "TEMPORARILY_UNAVAILABLE"
        await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    assert (await refused(booth.units("cid", 1)))[:2] == (Code.ABORTED, "SOLD_OUT")
    assert await booth.areas() == {1: {"sold": 5}}
    assert await booth.broken() == {}


async def test_the_last_units_can_be_bought_wherever_they_are(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(800, tickets_per_account=50))
    await booth.execute("UPDATE area_counter SET available = CASE WHEN counter IN (2, 9, 13) THEN 3 ELSE 0 END")
    await booth.execute("UPDATE area SET capacity = 9")
    held = await booth.units("ann", 7)
    assert sorted(await counters(booth)) == [0] * 15 + [2]  # what was left is gathered
    assert await booth.broken() == {}
    assert (await booth.units("bob", 2)).area.quantity == 2
    assert await booth.areas() == {1: {"held": 9}}
    await booth.release("ann", held.hold_id)
    assert sorted(await counters(booth))[-3:] == [1, 3, 3]
    assert await booth.broken() == {}


async def test_an_expired_hold_of_an_area_gives_back_once(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(8))
    old = await booth.units("ann", 8)
    await booth.age(old.hold_id, 1)
    assert await booth.areas() == {1: {"available": 8}}
    new = await booth.units("bob", 5)  # no worker runs: the hold itself finds them
    for _ in range(2):
        assert (await booth.release("ann", old.hold_id)).state == pb.HOLD_STATE_EXPIRED
        assert await sweep_holds(booth.shards["s1"], grace=NOTHING) == 0
    assert (await refused(booth.order("ann", old.hold_id)))[1] == "HOLD_EXPIRED"  # though its grace is not over
    assert await booth.areas() == {1: {"available": 3, "held": 5}}
    await booth.age(new.hold_id, 6)
    await watch_overdue(booth.shards["s1"], grace=GRACE)
    assert OVERDUE.labels("s1")._value.get() == 1
    assert 0.9 < OVERDUE_SECONDS.labels("s1")._value.get() < 10
    assert await sweep_holds(booth.shards["s1"], grace=GRACE) == 1
    await watch_overdue(booth.shards["s1"], grace=GRACE)
    assert OVERDUE.labels("s1")._value.get() == OVERDUE_SECONDS.labels("s1")._value.get() == 0
    assert await counters(booth) == [8]
    assert await booth.broken() == {}


async def test_an_order_of_units_from_hold_to_tickets(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(100))
    held = await booth.units("ann", 3)
    await booth.execute("UPDATE tier SET price = 1")
    order_id = await booth.order("ann", held.hold_id)
    order = await booth.get_order("ann", order_id)
    assert (order.area, order.total, order.fees, list(order.seats)) == (held.area, held.total, held.fees, [])
    assert await booth.areas() == {1: {"available": 97, "pending_payment": 3}}
    await booth.workers.relays["s1"].run_once()
    assert booth.charges.asked[0][1].payload["amount_minor"] == 3 * (PRICE + FEE)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    assert await issue_tickets(booth.shards["s1"]) == 1
    await booth.execute("UPDATE orders SET ticket_time = NULL")  # as if the issuer had died half way
    await issue_tickets(booth.shards["s1"])
    request = pb.ListTicketsRequest(order_id=order_id)
    tickets = (await booth.public.ListTickets(request, metadata=caller("ann"))).tickets
    assert len({ticket.ticket_id for ticket in tickets}) == len(tickets) == 3
    assert {(t.area.area_id, t.area.name, t.area.quantity, t.area.price.amount_minor) for t in tickets} == {
        (1, "Floor", 1, PRICE)
    }
    assert not any(ticket.HasField("seat") for ticket in tickets)
    listed = await booth.public.ListOrders(pb.ListOrdersRequest(), metadata=caller("ann"))
    assert [found.area for found in listed.orders] == [held.area]
    assert await booth.areas() == {1: {"available": 97, "sold": 3}}
    assert await booth.broken() == {}


@pytest.mark.parametrize("left", ["enough", "too few"])
async def test_late_money_takes_units_again_if_there_are_as_many(booth: Booth, left: str) -> None:
    await booth.internal.PutInventory(floor(100, tickets_per_account=50))
    order_id = await booth.order("ann", (await booth.units("ann", 3)).hold_id)
    for _ in range(2):
        assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "TIMED_OUT") == pb.ORDER_STATE_FAILED
        assert await booth.areas() == {1: {"available": 100}}
    await booth.units("bob", 49)
    await booth.units("cid", 48 if left == "enough" else 49)
    if left == "enough":
        for _ in range(2):
            assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED) == pb.ORDER_STATE_CONFIRMED
        assert await booth.areas() == {1: {"held": 97, "sold": 3}}
    else:
        for _ in range(2):
            assert (await refused(booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)))[1] == "OUTCOME_CONFLICT"
        rows = await booth.execute("SELECT amount, currency FROM refund_due")
        assert [tuple(row) for row in rows] == [(3 * (PRICE + FEE), "EUR")]
        assert await booth.areas() == {1: {"available": 2, "held": 98}}
    assert await booth.broken() == {}


@pytest.mark.parametrize("resale", [True, False])
async def test_cancel_order_gives_units_back_if_they_may_be_sold_again(booth: Booth, resale: bool) -> None:
    end = timestamp(datetime.now(UTC) + timedelta(hours=1))
    await booth.internal.PutInventory(floor(10, resale=resale, cancel_end_time=end))
    order_id = await booth.order("ann", (await booth.units("ann", 4)).hold_id)
    await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    for _ in range(2):
        assert (await booth.cancel("ann", order_id)).state == pb.ORDER_STATE_CANCELLED
    assert await booth.areas() == {1: {"available": 10} if resale else {"available": 6, "blocked": 4}}
    assert await booth.broken() == {}
