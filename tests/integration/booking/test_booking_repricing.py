"""A new version of an event in the middle of a hold: other prices, another currency, an end of the sale, other tiers,
another way of selling. One version judges and prices, and what a process remembers decides nothing."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from rowlock.booking.v1 import booking_pb2 as pb

from tests.integration.booking.booth import Booth, inventory, refused, timestamp
from tests.integration.booking.replicas import Replicas
from tests.integration.booking.rounds import closed_gate, put_gate, until_they_wait
from tests.integration.booking.schedules import WRITE, guarded_or_not
from tests.integration.booking.test_booking_areas import floor

ONE_VERSION = " AND e.version = hold_seats.version[q.place]"
ONE_AREA_VERSION = " AND v.version = e.version"
PICKS = "r.no_picks"
PLAN = "r.old_plan"

READ_EVENT = "IF v_counter IS NOT NULL AND NOT p_all THEN"  # of `hold_area`, behind it
BEGIN_HOLDS = "version := array_fill(0, ARRAY[n]);"

OLD, NEW = 5250, 7950  # with the fee of 250

ANY, BEST = pb.SELECTION_MODE_ANY, pb.SELECTION_MODE_BEST_AVAILABLE


async def overtaken(
    replicas: Replicas, function: str, before: str, call: Callable[[Booth], Any], new: pb.PutInventoryRequest
) -> Any:
    """What comes of a call at one booking that waits in a function while a new version is taken over at the other; the
    answer, or what `refused` tells."""
    a, b = replicas.both
    await put_gate(replicas, function, before)
    async with closed_gate(a):
        asked = asyncio.create_task(call(a))
        await until_they_wait(a)
        await asyncio.wait_for(b.internal.PutInventory(new), 10)
    return await asked


def dearer(request: pb.PutInventoryRequest, currency: str = "EUR") -> pb.PutInventoryRequest:
    """The seats' price is another, and maybe everybody's currency."""
    request.tiers[0].price.amount_minor = 7700
    for tier in request.tiers:
        tier.price.currency_code = tier.fee.currency_code = currency
    return request


@guarded_or_not
async def test_hold_seats_judges_and_prices_by_one_version(replicas: Replicas, guarded: bool) -> None:
    """The new version comes when the prices have been read. The hold is run again, by it; the control keeps the old
    price, though it is born after the new one was on sale."""
    if not guarded:
        await replicas.take_out("hold_seats", ONE_VERSION)
    new = dearer(inventory(version=2))
    held = await overtaken(replicas, "hold_seats", WRITE, lambda a: a.hold("ann", 1), new)
    assert held.total.amount_minor == (NEW if guarded else OLD)
    assert (await replicas.b.get_hold("ann", held.hold_id)).total == held.total


@guarded_or_not
async def test_hold_area_judges_and_prices_by_one_version(replicas: Replicas, guarded: bool) -> None:
    """The new version comes when the event has been read, and not yet the price: the control takes the new price in the
    old currency."""
    a, b = replicas.both
    await a.internal.PutInventory(floor(10))
    if not guarded:
        await replicas.take_out("hold_area", ONE_AREA_VERSION)
    new = dearer(floor(10, version=3), "JPY")
    held = await overtaken(replicas, "hold_area", READ_EVENT, lambda a: a.units("ann", 1), new)
    assert (held.total.amount_minor, held.total.currency_code) == (NEW, "JPY" if guarded else "EUR")
    assert (await b.get_hold("ann", held.hold_id)).total == held.total
    assert await b.areas() == {1: {"available": 9, "held": 1}}


@guarded_or_not
async def test_hold_area_is_refused_when_a_new_version_ended_the_sale(replicas: Replicas, guarded: bool) -> None:
    a, b = replicas.both
    await a.internal.PutInventory(floor(10))
    if not guarded:
        await replicas.take_out("hold_area", ONE_AREA_VERSION)
    new = floor(10, version=3)
    new.sale_end_time.CopyFrom(timestamp(datetime.now(UTC) - timedelta(minutes=1)))
    call = overtaken(replicas, "hold_area", READ_EVENT, lambda a: a.units("ann", 1), new)
    if guarded:
        assert (await refused(call))[1] == "NOT_ON_SALE"
    else:
        assert (await call).hold_id
    assert await b.areas() == {1: {"available": 10} if guarded else {"available": 9, "held": 1}}


async def test_hold_area_names_the_cap_that_it_judged_by(booth: Booth) -> None:
    await booth.internal.PutInventory(floor(20))
    await booth.units("ann", 3)
    await booth.internal.PutInventory(floor(20, version=3, tickets_per_account=2))
    assert (await refused(booth.units("ann", 1)))[1:] == ("TOO_MANY_TICKETS", {"limit": "2", "used": "3"})


@guarded_or_not
async def test_the_best_available_are_chosen_and_priced_by_one_version(replicas: Replicas, guarded: bool) -> None:
    """Seats were chosen for their tier, and are of another when the call comes to them: the house chooses again."""
    a, b = replicas.both
    await a.internal.PutInventory(_of_two_tiers(version=2, first=range(1, 11)))
    if not guarded:
        await replicas.take_out("hold_seats", PLAN, instead="false")
    new = _of_two_tiers(version=3, first=range(11, 21))
    held = await overtaken(replicas, "hold_seats", BEGIN_HOLDS, lambda a: a.best("ann", 2, tier=1), new)
    places = {seat.seat_id for seat in held.seats}
    assert places <= set(range(11, 21) if guarded else range(1, 11))
    assert held.total.amount_minor == (2 * OLD if guarded else 2 * (OLD + 1000))
    assert await b.seats() == {"available": 18, "held": 2}


def _of_two_tiers(*, version: int, first: range) -> pb.PutInventoryRequest:
    request = inventory(version=version)
    other = request.tiers.add()
    other.CopyFrom(request.tiers[0])
    other.tier = 2
    other.price.amount_minor += 1000
    for seat in request.seats:
        seat.tier = 1 if seat.seat_id in first else 2
    return request


async def test_picks_are_let_in_as_soon_as_the_event_is_open_for_them(replicas: Replicas) -> None:
    """Both bookings have heard that it was closed, and nothing but refused picks comes by to tell them otherwise."""
    a, b = replicas.both
    await a.internal.PutInventory(inventory(version=2, selection_mode=BEST))
    for booth in replicas.both:
        await booth.best(f"early-{id(booth)}", 1)  # by this version, which is now known
        assert (await refused(booth.hold("ann", 20)))[1] == "SELECTION_CLOSED"
    await b.internal.PutInventory(inventory(version=3, selection_mode=ANY))
    for booth, seat in zip(replicas.both, (19, 20), strict=True):
        held = await booth.hold(f"fan-{seat}", seat)
        assert [each.seat_id for each in held.seats] == [seat]


@guarded_or_not
async def test_picks_are_refused_as_soon_as_the_event_is_closed_to_them(replicas: Replicas, guarded: bool) -> None:
    """Both bookings remember it open. Only what was picked before is found by its key."""
    a, b = replicas.both
    picked = await a.hold("ann", 1)
    await b.hold("bob", 2)
    if not guarded:
        await replicas.take_out("hold_seats", PICKS, instead="false")
    await b.internal.PutInventory(inventory(version=2, selection_mode=BEST))
    for booth, seat in zip(replicas.both, (3, 4), strict=True):
        call = booth.hold(f"fan-{seat}", seat)
        if guarded:
            assert (await refused(call))[1] == "SELECTION_CLOSED"
        else:
            assert (await call).hold_id
    assert (await b.hold("ann", 1)).hold_id == picked.hold_id
    assert (await b.seats())["held"] == (2 if guarded else 4)


@guarded_or_not
async def test_a_pick_under_way_is_refused_when_the_event_closes(replicas: Replicas, guarded: bool) -> None:
    """It was let in by the version before, and has not written yet."""
    if not guarded:
        await replicas.take_out("hold_seats", ONE_VERSION)
    new = inventory(version=2, selection_mode=BEST)
    call = overtaken(replicas, "hold_seats", WRITE, lambda a: a.hold("ann", 1), new)
    if guarded:
        assert (await refused(call))[1] == "SELECTION_CLOSED"
    else:
        assert (await call).hold_id
    assert await replicas.b.seats() == ({"available": 20} if guarded else {"available": 19, "held": 1})
