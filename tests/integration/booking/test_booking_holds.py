"""Holds, one caller at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.ids import format_id
from services.booking.expiry import sweep_holds
from tests.integration.booking.booth import EVENT, FEE, PRICE, Booth, caller, inventory, refused, timestamp
from tests.integration.booking.schedules import guarded_or_not, take_out

GRACE = timedelta(seconds=5)
WITHIN_GRACE = "expires_at > clock_timestamp() - p_grace"  # of `account_at_event`
Code = grpc.StatusCode


async def test_hold_seats_prices_and_names_each_seat(booth: Booth) -> None:
    hold = await booth.hold("ann", 3, 2, 3)
    assert [seat.seat_id for seat in hold.seats] == [2, 3]
    assert (hold.seats[0].section, hold.seats[0].row, hold.seats[0].number) == ("A", "1", "2")
    assert hold.total.amount_minor == 2 * (PRICE + FEE)
    assert (hold.fees.amount_minor, hold.fees.currency_code) == (2 * FEE, "EUR")
    assert hold.state == pb.HOLD_STATE_ACTIVE
    (row,) = await booth.execute("SELECT extract(epoch FROM expires_at - create_time)::int AS seconds FROM hold")
    assert row["seconds"] == 600
    assert await booth.seats() == {"available": 18, "held": 2}
    assert await booth.broken() == {}


async def test_hold_seats_names_the_lost_ones_and_holds_nothing(booth: Booth) -> None:
    await booth.hold("ann", 4, 6)
    code, reason, metadata = await refused(booth.hold("bob", 3, 4, 5, 6))
    assert (code, reason, metadata) == (Code.ABORTED, "SEAT_UNAVAILABLE", {"lostSeatIds": "4,6"})
    assert await booth.seats() == {"available": 18, "held": 2}
    assert (await booth.hold("bob", 3, 5, key="again")).hold_id


async def test_hold_seats_replays_the_same_hold(booth: Booth) -> None:
    first = await booth.hold("ann", 1, 2, key="k")
    again = await booth.hold("ann", 2, 1, key="k")
    assert again == first
    code, reason, _ = await refused(booth.hold("ann", 1, key="k"))
    assert (code, reason) == (Code.ABORTED, "IDEMPOTENCY_KEY_REUSED")
    assert (await booth.hold("bob", 3, key="k")).hold_id != first.hold_id  # a key belongs to its account
    await booth.age(first.hold_id, 1)
    assert (await booth.hold("ann", 1, 2, key="k")).state == pb.HOLD_STATE_EXPIRED


async def test_hold_seats_replays_after_the_sale(booth: Booth) -> None:
    first = await booth.hold("ann", 1)
    await booth.execute("UPDATE event SET sale_end_time = clock_timestamp() - interval '1 s'")
    assert (await booth.hold("ann", 1)).hold_id == first.hold_id
    code, reason, metadata = await refused(booth.hold("bob", 2))
    assert (code, reason, set(metadata)) == (Code.ABORTED, "NOT_ON_SALE", {"saleStartTime", "saleEndTime"})
    assert metadata["saleEndTime"].endswith("Z")


async def test_hold_seats_refuses_before_the_sale(open_booth: Callable[..., Awaitable[Booth]]) -> None:
    booth = await open_booth("s1")
    await booth.internal.PutInventory(inventory(sale_start_time=timestamp(datetime.now(UTC) + timedelta(hours=1))))
    assert (await refused(booth.hold("ann", 1)))[1] == "NOT_ON_SALE"
    assert await booth.seats() == {"available": 20}


async def test_hold_seats_keeps_the_cap_over_holds_and_orders(booth: Booth) -> None:
    order = await booth.order("ann", (await booth.hold("ann", 1, 2, 3)).hold_id)
    await booth.hold("ann", 4, 5, 6)
    code, reason, metadata = await refused(booth.hold("ann", 7, 8, 9))
    assert (code, reason, metadata) == (Code.ABORTED, "TOO_MANY_TICKETS", {"limit": "8", "used": "6"})
    await booth.outcome(order, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
    await booth.hold("ann", 7, 8, 9)  # a declined order is not held against the account
    assert await booth.broken() == {}


@guarded_or_not
async def test_the_cap_counts_a_hold_until_its_grace_is_over(
    database: Callable[..., Awaitable[str]], open_replica: Callable[..., Awaitable[Booth]], guarded: bool
) -> None:
    """For so long it may still become an order. The control counts it until its expiry. The graces are long and the
    times far from their ends, so that no slow machine comes to the other side."""
    booth = await open_replica({"s1": await database("booking")}, confirm_grace_seconds=30)
    areas = [pb.InventoryArea(area_id=1, name="Floor", capacity=20, tier=1)]
    await booth.internal.PutInventory(inventory(areas=areas))
    if not guarded:
        await take_out(booth, "account_at_event", WITHIN_GRACE, instead="expires_at > clock_timestamp()")
    held = await booth.hold("ann", *range(1, 9))
    await booth.age(held.hold_id, 5)
    if not guarded:
        assert (await booth.hold("ann", 9)).hold_id
        return
    full = (Code.ABORTED, "TOO_MANY_TICKETS", {"limit": "8", "used": "8"})
    assert await refused(booth.hold("ann", 9)) == full
    assert await refused(booth.units("ann", 1)) == full
    await booth.age(held.hold_id, 31)
    assert (await booth.hold("ann", 9)).hold_id
    assert (await booth.units("ann", 1)).hold_id
    assert await booth.broken() == {}


async def test_the_cap_counts_a_hold_no_more_once_it_was_taken_over(
    database: Callable[..., Awaitable[str]], open_replica: Callable[..., Awaitable[Booth]]
) -> None:
    """Within its grace; but it can become no order any more."""
    booth = await open_replica({"s1": await database("booking")}, confirm_grace_seconds=30)
    await booth.internal.PutInventory(inventory())
    held = await booth.hold("ann", *range(1, 9))
    await booth.age(held.hold_id, 5)
    assert (await refused(booth.hold("ann", 9)))[1] == "TOO_MANY_TICKETS"
    await booth.hold("bob", 1)
    assert (await booth.hold("ann", 9)).hold_id
    assert await booth.broken() == {}


@pytest.mark.parametrize("seats", [(), tuple(range(1, 52)), tuple(range(1, 1001))])
async def test_hold_seats_refuses_no_seats_and_too_many(booth: Booth, seats: tuple[int, ...]) -> None:
    assert (await refused(booth.hold("ann", *seats, key="k")))[:2] == (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT")


async def test_hold_seats_tells_seats_that_are_not_there_from_lost_ones(booth: Booth) -> None:
    await booth.hold("ann", 1)
    code, reason, metadata = await refused(booth.hold("bob", 1, 2, 999, 2147483647))
    assert (code, reason, metadata) == (Code.NOT_FOUND, "SEAT_NOT_FOUND", {"seatIds": "999,2147483647"})
    assert (await refused(booth.hold("bob", -5)))[1] == "SEAT_NOT_FOUND"
    assert await booth.seats() == {"available": 19, "held": 1}


async def test_hold_seats_needs_key_account_and_the_right_event(booth: Booth) -> None:
    request = pb.HoldSeatsRequest(event_id=EVENT, seat_ids=[1])
    assert (await refused(booth.public.HoldSeats(request, metadata=caller("ann"))))[1] == "IDEMPOTENCY_KEY_REQUIRED"
    long = caller("ann", key="k" * 256)
    assert (await refused(booth.public.HoldSeats(request, metadata=long)))[1] == "IDEMPOTENCY_KEY_REQUIRED"
    assert (await refused(booth.public.HoldSeats(request)))[0] == Code.UNAUTHENTICATED
    elsewhere = caller("ann", event=format_id("evt", "s1", 8), key="k")
    assert (await refused(booth.public.HoldSeats(request, metadata=elsewhere)))[:2] == (
        Code.PERMISSION_DENIED,
        "TOKEN_FOR_ANOTHER",
    )
    assert (await refused(booth.hold("a" * 256, 1)))[0] == Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "event", [format_id("evt", "s1", 8), format_id("evt", "s9", 7), "evt_s1_", "x", "evt_s1_" + "z" * 26]
)
async def test_hold_seats_of_an_unknown_event(booth: Booth, event: str) -> None:
    assert (await refused(booth.hold("ann", 1, event=event)))[:2] == (Code.NOT_FOUND, "EVENT_NOT_FOUND")


async def test_release_hold_gives_the_seats_back_once(booth: Booth) -> None:
    hold = await booth.hold("ann", 1, 2)
    request = pb.ReleaseHoldRequest(hold_id=hold.hold_id)
    assert (await refused(booth.public.ReleaseHold(request, metadata=caller("bob"))))[:2] == (
        Code.NOT_FOUND,
        "HOLD_NOT_FOUND",
    )
    for _ in range(2):
        released = await booth.public.ReleaseHold(request, metadata=caller("ann"))
        assert released.hold.state == pb.HOLD_STATE_RELEASED
    assert await booth.seats() == {"available": 20}
    assert (await booth.hold("bob", 1)).hold_id
    assert (await booth.public.ReleaseHold(request, metadata=caller("ann"))).hold.state == pb.HOLD_STATE_RELEASED
    assert await booth.seats() == {"available": 19, "held": 1}


async def test_release_hold_of_one_that_became_an_order(booth: Booth) -> None:
    hold = await booth.hold("ann", 1)
    order = await booth.order("ann", hold.hold_id)
    released = await booth.public.ReleaseHold(pb.ReleaseHoldRequest(hold_id=hold.hold_id), metadata=caller("ann"))
    assert (released.hold.state, released.hold.order_id) == (pb.HOLD_STATE_CONFIRMED, order)
    assert await booth.seats() == {"available": 19, "pending_payment": 1}


@pytest.mark.parametrize("hold_id", ["", "hld_s1_1", "hld_s9_1", "ord_s1_1", "hld_s1_" + "z" * 26, "hld_s1_01"])
async def test_get_hold_refuses_what_is_not_the_callers(booth: Booth, hold_id: str) -> None:
    assert (await refused(booth.get_hold("ann", hold_id)))[:2] == (Code.NOT_FOUND, "HOLD_NOT_FOUND")


async def test_a_hold_ends_by_the_clock_with_no_worker(booth: Booth) -> None:
    old = await booth.hold("ann", 1, 2)
    await booth.age(old.hold_id, 0)
    assert (await booth.get_hold("ann", old.hold_id)).state == pb.HOLD_STATE_EXPIRED
    assert await booth.seats() == {"available": 20}
    new = await booth.hold("bob", 1)
    assert await booth.seats() == {"available": 19, "held": 1}
    assert (await booth.get_hold("ann", old.hold_id)).state == pb.HOLD_STATE_EXPIRED
    assert (await booth.get_hold("bob", new.hold_id)).state == pb.HOLD_STATE_ACTIVE
    assert await booth.broken() == {}


async def test_sweep_holds_frees_what_a_takeover_left_and_nothing_else(booth: Booth) -> None:
    old, live = await booth.hold("ann", 1, 2, 3), await booth.hold("cid", 9)
    await booth.age(old.hold_id, 6)
    await booth.hold("bob", 1)
    assert await sweep_holds(booth.shards["s1"], grace=GRACE) == 1
    assert await sweep_holds(booth.shards["s1"], grace=GRACE) == 0
    rows = await booth.execute("SELECT seat_id FROM seat WHERE state = 'HELD' ORDER BY seat_id")
    assert [row["seat_id"] for row in rows] == [1, 9]
    assert (await booth.get_hold("cid", live.hold_id)).state == pb.HOLD_STATE_ACTIVE
    assert await booth.broken() == {}


async def test_sweep_holds_waits_for_the_grace(booth: Booth) -> None:
    hold = await booth.hold("ann", 1)
    await booth.age(hold.hold_id, 40)
    assert await sweep_holds(booth.shards["s1"], grace=timedelta(minutes=1)) == 0
    await booth.age(hold.hold_id, 60)
    assert await sweep_holds(booth.shards["s1"], grace=timedelta(minutes=1)) == 1


async def test_sweep_holds_works_in_bounded_batches(booth: Booth) -> None:
    await booth.internal.PutInventory(inventory(seats=450, version=2))
    for number in range(1, 451):
        await booth.hold(f"fan-{number}", number)
    await booth.execute("UPDATE hold SET expires_at = expires_at - interval '1 hour'")
    await booth.execute("UPDATE seat SET hold_expires_at = hold_expires_at - interval '1 hour'")
    assert set(await booth.broken()) == {"hold_overdue"}
    rounds = [await sweep_holds(booth.shards["s1"], grace=GRACE) for _ in range(4)]
    assert rounds == [200, 200, 50, 0]
    assert await booth.seats() == {"available": 450}
    assert await booth.broken() == {}


async def test_every_change_of_a_seat_is_a_hot_update(booth: Booth) -> None:
    for seat in range(1, 9):
        order = await booth.order(f"fan-{seat}", (await booth.hold(f"fan-{seat}", seat)).hold_id)
        await booth.outcome(order, pb.PAYMENT_OUTCOME_SUCCEEDED)
    await booth.shards.close()  # a session tells its counts when it ends
    sql = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'seat'"
    for _ in range(100):
        (row,) = await booth.execute(sql)
        if row["n_tup_upd"] == 3 * 8:
            break
        await asyncio.sleep(0.05)
    assert (row["n_tup_upd"], row["n_tup_hot_upd"]) == (3 * 8, 3 * 8)
