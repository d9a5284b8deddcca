"""Publishing: peers first, then people."""

import grpc
import pytest
from rowlock.catalog.v1 import catalog_pb2 as pb2

from tests.integration.catalog.house import Catalog, refusal
from tests.integration.catalog.peers import WrongShard, lost_answer


async def test_publish_event_hands_over_all_that_is_for_sale(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    event = await catalog.publish(venue.venue_id, rules=pb2.SaleRules(line=True, line_capacity=40, hold_seconds=120))
    (inventory,), (policy,) = catalog.booking.taken, catalog.waitingroom.taken
    plan = (await catalog.browse.GetEventPlan(pb2.GetEventPlanRequest(event_id=event.event_id))).plan
    drawn = {
        (seat.seat_id, section.section, row.row, seat.number, seat.tier)
        for section in plan.sections
        for row in section.rows
        for seat in row.seats
    }
    sold = {(seat.seat_id, seat.section, seat.row, seat.number, seat.tier) for seat in inventory.seats}
    assert sold == drawn
    assert len(inventory.seats) == 6
    assert (inventory.event_id, inventory.version, inventory.name) == (event.event_id, 1, "Night Trains")
    assert (inventory.tickets_per_account, inventory.hold_seconds) == (8, 120)
    assert inventory.sale_start_time == event.sale_start_time
    assert [(tier.tier, tier.price.amount_minor, tier.fee.amount_minor) for tier in inventory.tiers] == [
        (2, 9000, 500),
        (1, 2500, 0),
    ]
    assert (policy.event_id, policy.version, policy.line, policy.capacity) == (event.event_id, 1, True, 40)
    assert (policy.sale_start_time, policy.sale_end_time) == (event.sale_start_time, event.sale_end_time)


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
