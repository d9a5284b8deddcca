"""What catalog hands over, and the shards that take it."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.money.v1.money_pb2 import Money

from chassis.ids import format_id
from services.booking.store.shards import open_shards
from tests.integration.booking.booth import EVENT, Booth, caller, inventory, refused, timestamp

Code = grpc.StatusCode
SECOND = format_id("evt", "s2", 9)


async def test_put_inventory_takes_a_version_once(booth: Booth) -> None:
    request = inventory()
    request.sale_start_time.CopyFrom((await _sale(booth))[0])
    request.sale_end_time.CopyFrom((await _sale(booth))[1])
    await booth.hold("ann", 1)
    assert (await booth.internal.PutInventory(request)).seat_count == 20
    assert await booth.seats() == {"available": 19, "held": 1}


CHANGES: list[Callable[[pb.PutInventoryRequest], Any]] = [
    lambda r: r.tiers[0].price.MergeFrom(Money(amount_minor=1)),
    lambda r: r.seats.reverse(),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(row_index=7)),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(x=7)),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(accessible=True)),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(companion=True)),
    lambda r: r.focal_point.MergeFrom(pb.FocalPoint(x=1)),
    lambda r: r.areas.add(area_id=1, name="Field", capacity=10, tier=1),
    lambda r: r.MergeFrom(pb.PutInventoryRequest(selection_mode=pb.SELECTION_MODE_BEST_AVAILABLE)),
    lambda r: r.MergeFrom(pb.PutInventoryRequest(onsale_window_seconds=60)),
    lambda r: r.MergeFrom(pb.PutInventoryRequest(onsale_hold_seconds=60)),
    lambda r: r.MergeFrom(pb.PutInventoryRequest(holds_per_account=6)),
    lambda r: r.MergeFrom(pb.PutInventoryRequest(resale=True)),
    lambda r: r.MergeFrom(pb.PutInventoryRequest(cancel_end_time=r.sale_start_time)),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
async def test_put_inventory_refuses_a_known_version_with_other_content(booth: Booth, number: int) -> None:
    request = inventory(format_id("evt", "s1", 8))
    request.tiers.add(tier=2, name="Box", price=Money(currency_code="EUR", amount_minor=9), fee=Money())
    await booth.internal.PutInventory(request)
    request.tiers.reverse()  # the order of tiers is no content
    assert (await booth.internal.PutInventory(request)).seat_count == 20
    request.tiers.reverse()
    CHANGES[number](request)
    code, reason, _ = await refused(booth.internal.PutInventory(request))
    assert (code, reason) == (Code.FAILED_PRECONDITION, "INVENTORY_CONFLICT")
    request.version = 2
    assert (await booth.internal.PutInventory(request)).seat_count == 20


async def test_put_inventory_keeps_rules_and_places(booth: Booth) -> None:
    request = inventory(
        version=2,
        onsale_window_seconds=60,
        onsale_hold_seconds=120,
        holds_per_account=6,
        resale=True,
        focal_point=pb.FocalPoint(x=-5, y=0),
        selection_mode=pb.SELECTION_MODE_BEST_AVAILABLE,
    )
    request.seats[1].section = "B"
    request.seats[2].MergeFrom(pb.InventorySeat(accessible=True, companion=False))
    request.seats[3].companion = True
    await booth.internal.PutInventory(request)
    (event,) = await booth.execute(
        "SELECT onsale_end_time - sale_start_time AS onsale, extract(epoch FROM onsale_hold_duration)::int AS seconds,"
        " holds_per_account, resale, cancel_end_time, focal_x, focal_y, selection_mode FROM event"
    )
    assert event["onsale"].total_seconds() == 60
    assert tuple(event)[1:] == (120, 6, True, None, -5, 0, "BEST_AVAILABLE")
    rows = await booth.execute(
        "SELECT section_index, row_index, place, x, y, accessible, companion FROM seat_place"
        " WHERE event_id = 7 AND seat_id IN (1, 2, 3, 4, 12) ORDER BY seat_id"
    )
    assert [tuple(row) for row in rows] == [
        (0, 0, 0, 20, 0, False, False),
        (1, 0, 0, 40, 0, False, False),
        (0, 0, 1, 60, 0, True, False),
        (0, 0, 2, 80, 0, False, True),
        (0, 1, 2, 40, 30, False, False),
    ]


async def test_put_inventory_may_be_of_areas_alone(booth: Booth) -> None:
    request = inventory(format_id("evt", "s1", 8), seats=0)
    request.areas.add(area_id=1, name="Field", capacity=100, tier=1)
    assert (await booth.internal.PutInventory(request)).seat_count == 0


async def test_put_inventory_of_a_later_version_adds_and_reprices(booth: Booth) -> None:
    hold = await booth.hold("ann", 1)
    later = inventory(seats=25, version=3, tickets_per_account=2)
    later.tiers.add(tier=2, name="Box", price=Money(currency_code="EUR", amount_minor=9), fee=Money())
    later.seats[1].tier = 2
    assert (await booth.internal.PutInventory(later)).seat_count == 25
    assert (await booth.internal.PutInventory(inventory(version=2))).seat_count == 25  # late, and changes nothing
    assert (await booth.hold("bob", 2, 25)).total.amount_minor == 9 + 5250
    assert (await booth.get_hold("ann", hold.hold_id)).total.amount_minor == 5250
    assert (await refused(booth.hold("bob", 3)))[2] == {"limit": "2", "used": "2"}
    assert (await refused(booth.internal.PutInventory(inventory(version=4))))[1] == "INVENTORY_CONFLICT"
    assert await booth.seats() == {"available": 22, "held": 3}


FAULTS: list[Callable[[pb.PutInventoryRequest], Any]] = [
    lambda r: r.ClearField("version"),
    lambda r: r.ClearField("seats"),
    lambda r: r.ClearField("tiers"),
    lambda r: r.ClearField("sale_end_time"),
    lambda r: r.ClearField("hold_seconds"),
    lambda r: r.ClearField("tickets_per_account"),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(seat_id=5)),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(seat_id=-5)),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(tier=2)),
    lambda r: r.tiers[0].price.MergeFrom(Money(amount_minor=-1)),
    lambda r: r.tiers[0].price.MergeFrom(Money(currency_code="EURO")),
    lambda r: r.tiers[0].fee.MergeFrom(Money(currency_code="USD")),
    lambda r: r.tiers.append(r.tiers[0]),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(row_index=-1)),
    lambda r: r.MergeFrom(pb.PutInventoryRequest(onsale_window_seconds=-1)),
    lambda r: r.MergeFrom(pb.PutInventoryRequest(onsale_hold_seconds=-1)),
    lambda r: r.MergeFrom(pb.PutInventoryRequest(holds_per_account=-1)),
    lambda r: r.areas.add(area_id=1, capacity=0, tier=1),
    lambda r: r.areas.add(area_id=1, capacity=1, tier=2),
    lambda r: r.areas.add(area_id=0, capacity=1, tier=1),
    lambda r: r.areas.extend([pb.InventoryArea(area_id=1, capacity=1, tier=1)] * 2),
    lambda r: r.tiers[0].fee.MergeFrom(Money(amount_minor=10**12 + 1)),
    lambda r: r.tiers[0].MergeFrom(pb.InventoryTier(name="x" * 201)),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(section="x" * 201)),
    lambda r: r.seats[3].MergeFrom(pb.InventorySeat(row="A\0")),
]


@pytest.mark.parametrize("number", range(len(FAULTS)))
async def test_put_inventory_refuses_what_cannot_be_sold(booth: Booth, number: int) -> None:
    request = inventory(format_id("evt", "s1", 8))
    FAULTS[number](request)
    assert (await refused(booth.internal.PutInventory(request)))[:2] == (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT")
    assert await booth.seats(request.event_id) == {}


async def test_put_inventory_of_a_stadium(booth: Booth) -> None:
    event = format_id("evt", "s1", 8)
    request = inventory(event, seats=200_000)
    assert (await booth.internal.PutInventory(request)).seat_count == 200_000
    assert (await booth.hold("ann", 200_000, event=event)).hold_id
    request.seats.add(seat_id=200_001, tier=1)
    assert (await refused(booth.internal.PutInventory(request)))[0] == Code.INVALID_ARGUMENT


async def test_an_unknown_shard_is_refused(booth: Booth) -> None:
    assert (await refused(booth.internal.PutInventory(inventory(SECOND))))[1] == "WRONG_SHARD"
    assert (await refused(booth.seats(SECOND)))[1] == "EVENT_NOT_FOUND"


async def test_a_database_under_anothers_name_is_refused(database: Callable[..., Awaitable[str]]) -> None:
    dsn = await database("booking", shard="s1")
    with pytest.raises(RuntimeError, match="configured as shard s2 is shard s1"):
        await open_shards({"s2": dsn}, pool_size=2)


async def test_two_shards_keep_apart_and_list_together(open_booth: Callable[..., Awaitable[Booth]]) -> None:
    booth = await open_booth("s1", "s2")
    for event in (EVENT, SECOND):
        await booth.internal.PutInventory(inventory(event))
    orders = []
    for number in range(1, 6):
        event = (EVENT, SECOND)[number % 2]
        hold = await booth.hold("ann", number, event=event)
        orders.append(await booth.order("ann", hold.hold_id))
        assert hold.hold_id.split("_")[1] == orders[-1].split("_")[1] == event.split("_")[1]
    found: list[str] = []
    token = ""
    while not found or token:
        request = pb.ListOrdersRequest(page_size=2, page_token=token)
        page = await booth.public.ListOrders(request, metadata=caller("ann"))
        found += [order.order_id for order in page.orders]
        token = page.next_page_token
    assert found == orders[::-1]
    nobody = await booth.public.ListOrders(pb.ListOrdersRequest(), metadata=caller("bob"))
    assert (list(nobody.orders), nobody.next_page_token) == ([], "")
    for bad in ("x", "ord_s9_1", "hld_s1_1"):
        call = booth.public.ListOrders(pb.ListOrdersRequest(page_token=bad), metadata=caller("ann"))
        assert (await refused(call))[0] == Code.INVALID_ARGUMENT
    assert await booth.broken() == {}


async def test_the_feed_may_read_what_is_published_and_no_more(booth: Booth, feed_dsn: Callable[[str], str]) -> None:
    connection = await asyncpg.connect(feed_dsn(booth.dsn))
    try:
        await connection.fetch("SELECT event_id, seat_id, section, state FROM seat")
        rows = await connection.fetch("SELECT attnames FROM pg_publication_tables WHERE pubname = 'rowlock_seats'")
        assert [set(row["attnames"]) for row in rows] == [{"event_id", "seat_id", "section", "state"}]
        for secret in ("SELECT hold_id FROM seat", "SELECT account FROM hold", "SELECT email FROM orders"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch(secret)
    finally:
        await connection.close()


async def _sale(booth: Booth) -> list[Any]:
    rows = await booth.execute("SELECT sale_start_time, sale_end_time FROM event")
    return [timestamp(time) for time in rows[0]]
