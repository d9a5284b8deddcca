"""Publishing: peers first, then people."""

import json
from datetime import timedelta
from typing import Any

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2
from rowlock.catalog.v1 import catalog_pb2 as pb2

from tests.integration.catalog.house import SOON, Catalog, area, plan_row, price, refusal, small_plan, timestamp
from tests.integration.catalog.peers import WrongShard, lost_answer


async def test_publish_event_hands_over_all_that_is_for_sale(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    event = await catalog.publish(venue.venue_id, rules=pb2.SaleRules(line=True, line_capacity=40, hold_seconds=120))
    (inventory,), (policy,) = catalog.booking.taken, catalog.waitingroom.taken
    plan = (await catalog.browse.GetEventPlan(pb2.GetEventPlanRequest(event_id=event.event_id))).plan
    drawn = [
        (seat.seat_id, section.section, row.row, index, seat.number, seat.tier, seat.x, seat.y)
        for section in plan.sections
        for index, row in enumerate(section.rows)
        for seat in row.seats
    ]
    assert [(*_label(seat), seat.number, seat.tier, seat.x, seat.y) for seat in inventory.seats] == drawn
    assert (inventory.focal_point.x, inventory.focal_point.y) == (plan.focal_point.x, plan.focal_point.y)
    assert len(inventory.seats) == 6
    assert (inventory.event_id, inventory.version, inventory.name) == (event.event_id, 1, "Night Trains")
    assert (inventory.tickets_per_account, inventory.hold_seconds) == (8, 120)
    assert (inventory.onsale_hold_seconds, inventory.onsale_window_seconds, inventory.holds_per_account) == (120, 0, 20)
    assert inventory.selection_mode == booking_pb2.SELECTION_MODE_ANY
    assert inventory.resale
    assert not inventory.HasField("cancel_end_time")
    assert not inventory.areas
    assert inventory.sale_start_time == event.sale_start_time
    assert [(tier.tier, tier.price.amount_minor, tier.fee.amount_minor) for tier in inventory.tiers] == [
        (2, 9000, 500),
        (1, 2500, 0),
    ]
    assert (policy.event_id, policy.version, policy.line, policy.capacity) == (event.event_id, 1, True, 40)
    assert (policy.sale_start_time, policy.sale_end_time) == (event.sale_start_time, event.sale_end_time)


async def test_publish_event_hands_over_areas_and_rules(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    rules = pb2.SaleRules(
        onsale_hold_seconds=60,
        onsale_window_seconds=900,
        best_available_only=True,
        holds_per_account=3,
        no_resale=True,
        cancel_seconds=3_600,
    )
    await catalog.publish(venue.venue_id, rules=rules, areas=[area("Standing", 400, 3000, 150)])
    (inventory,) = catalog.booking.taken
    assert [(each.area_id, each.name, each.capacity, each.tier) for each in inventory.areas] == [
        (1, "Standing", 400, 3)
    ]
    assert [(tier.tier, tier.name, tier.price.amount_minor, tier.fee.amount_minor) for tier in inventory.tiers] == [
        (2, "Box", 9000, 500),
        (3, "Standing", 3000, 150),
        (1, "Stalls", 2500, 0),
    ]
    assert (inventory.onsale_hold_seconds, inventory.onsale_window_seconds, inventory.holds_per_account) == (60, 900, 3)
    assert inventory.selection_mode == booking_pb2.SELECTION_MODE_BEST_AVAILABLE
    assert not inventory.resale
    assert inventory.cancel_end_time == timestamp(SOON - timedelta(hours=1))


async def test_publish_event_tells_rows_of_one_name_apart_and_whose_a_seat_is(catalog: Catalog) -> None:
    document = json.loads(small_plan())
    document["categories"] += [{"name": "Wheelchair"}, {"name": "Wheelchair companion"}]
    upper = plan_row("A", 3, "Stalls", x=5, y=40)
    for number, (seat, category) in enumerate(
        zip(upper["seats"], ("Wheelchair", "Wheelchair companion", "Stalls"), strict=True), 5
    ):
        seat.update(seat_number=str(number), seat_guid=f"upper-{number}", category=category)
    document["zones"][0]["rows"].append(upper)
    venue = await catalog.import_venue(plan=json.dumps(document).encode())
    event = await catalog.publish(venue.venue_id, prices=[price(category, 100) for category in venue.categories])
    (inventory,) = catalog.booking.taken
    assert [(seat.row, seat.row_index) for seat in inventory.seats] == [("A", 0)] * 4 + [("A", 1)] * 3 + [("1", 0)] * 2
    assert [seat.number for seat in inventory.seats if seat.accessible] == ["5"]
    assert [seat.number for seat in inventory.seats if seat.companion] == ["6"]
    plan = (await catalog.browse.GetEventPlan(pb2.GetEventPlanRequest(event_id=event.event_id))).plan
    drawn = plan.sections[0].rows[1].seats
    assert [(seat.accessible, seat.companion) for seat in drawn] == [(True, False), (False, True), (False, False)]


async def test_publish_event_shows_it(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    event = await catalog.create_event(venue.venue_id)
    for call in (
        catalog.browse.GetEvent(pb2.GetEventRequest(event_id=event.event_id)),
        catalog.browse.GetEventPlan(pb2.GetEventPlanRequest(event_id=event.event_id)),
    ):
        assert (await refusal(call))[:2] == (grpc.StatusCode.NOT_FOUND, "EVENT_NOT_FOUND")
    assert await catalog.names() == []
    await catalog.admin.PublishEvent(pb2.PublishEventRequest(event_id=event.event_id))
    assert (await catalog.browse.GetEvent(pb2.GetEventRequest(event_id=event.event_id))).event == event
    assert await catalog.names() == ["Night Trains"]


@pytest.mark.parametrize("peer", ["booking", "waitingroom"])
async def test_publish_event_is_mended_by_repeating_after_a_lost_answer(catalog: Catalog, peer: str) -> None:
    venue = await catalog.import_venue()
    event = await catalog.create_event(venue.venue_id)
    request = pb2.PublishEventRequest(event_id=event.event_id)
    faulty = getattr(catalog, peer)
    faulty.faults.append(lost_answer())
    code, reason, metadata = await refusal(catalog.admin.PublishEvent(request))
    assert (code, reason, metadata) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", {"peer": peer})
    assert not faulty.faults
    assert await catalog.names() == []
    await catalog.admin.PublishEvent(request)
    assert len(faulty.taken) == 2
    assert faulty.taken[0] == faulty.taken[1]
    assert await catalog.names() == ["Night Trains"]


async def test_publish_event_again_changes_nothing(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    event = await catalog.publish(venue.venue_id)
    since = await catalog.pool.fetchval("SELECT published_time FROM event")
    again = await catalog.admin.PublishEvent(pb2.PublishEventRequest(event_id=event.event_id))
    assert again.event == event
    assert catalog.booking.taken[0] == catalog.booking.taken[1]
    assert await catalog.pool.fetchval("SELECT published_time FROM event") == since


async def test_publish_event_tells_when_a_peer_refuses(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    event = await catalog.create_event(venue.venue_id)
    catalog.booking.faults.append(WrongShard("no such shard"))
    code, reason, metadata = await refusal(catalog.admin.PublishEvent(pb2.PublishEventRequest(event_id=event.event_id)))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PEER_REFUSED")
    assert metadata == {"peer": "booking", "reason": "WRONG_SHARD"}
    assert not catalog.waitingroom.taken


async def test_event_that_is_not_there_is_not_found_anywhere(catalog: Catalog) -> None:
    for event_id in ("", "evt_s1_7", "evt_s1_07", "ven_1", "evt_s1_zzzzzzzzzzzzzzzz", "evt_s1_7'--"):
        for call in (
            catalog.browse.GetEvent(pb2.GetEventRequest(event_id=event_id)),
            catalog.browse.GetEventPlan(pb2.GetEventPlanRequest(event_id=event_id)),
            catalog.admin.PublishEvent(pb2.PublishEventRequest(event_id=event_id)),
        ):
            assert (await refusal(call))[:2] == (grpc.StatusCode.NOT_FOUND, "EVENT_NOT_FOUND")


async def test_event_is_not_found_under_another_shard(catalog: Catalog) -> None:
    event = await catalog.publish((await catalog.import_venue()).venue_id)
    assert event.event_id.startswith("evt_s1_")
    other = event.event_id.replace("evt_s1_", "evt_s2_")
    assert (await refusal(catalog.browse.GetEvent(pb2.GetEventRequest(event_id=other))))[1] == "EVENT_NOT_FOUND"


def _label(seat: Any) -> tuple[int, str, str, int]:
    return seat.seat_id, seat.section, seat.row, seat.row_index
