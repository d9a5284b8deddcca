"""Events as organisers write them."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import grpc
from rowlock.catalog.v1 import catalog_pb2 as pb2

from chassis.ids import parse_id
from tests.integration.catalog.house import SOON, Catalog, area, price, refusal, small_plan, timestamp


async def test_create_event_returns_it_with_venue_and_prices(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    event = await catalog.create_event(venue.venue_id, description="A night.", rules=pb2.SaleRules(line=True))
    assert parse_id("evt", event.event_id)
    assert (event.name, event.performer, event.description) == ("Night Trains", "The Sleepers", "A night.")
    assert (event.venue.name, event.venue.time_zone, event.seat_count) == ("Teatro Novo", "Europe/Lisbon", 6)
    assert event.line
    assert event.sale_end_time == event.start_time == timestamp(SOON)
    assert [(tier.tier, tier.name, tier.price.amount_minor, tier.fee.amount_minor) for tier in event.tiers] == [
        (2, "Box", 9000, 500),
        (1, "Stalls", 2500, 0),
    ]
    assert [tier.color for tier in event.tiers] == ["#996633", "#336699"]


async def test_create_event_says_every_rule_that_it_was_not_told(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    plain = await catalog.create_event(venue.venue_id)
    assert plain.rules == pb2.SaleRules(
        tickets_per_account=8,
        hold_seconds=600,
        onsale_hold_seconds=120,
        holds_per_account=20,
        line_capacity=200,
    )
    told = pb2.SaleRules(
        tickets_per_account=4,
        hold_seconds=300,
        onsale_hold_seconds=60,
        onsale_window_seconds=1_800,
        best_available_only=True,
        holds_per_account=5,
        no_resale=True,
        cancel_seconds=86_400,
        line=True,
        line_capacity=50,
    )
    assert (await catalog.create_event(venue.venue_id, rules=told)).rules == told


async def test_create_event_gives_areas_ids_and_prices_of_their_own(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    areas = [area(" Standing ", 400, 3000, 150), area("Terrace", 50, 1000)]
    event = await catalog.publish(venue.venue_id, areas=areas)
    assert [(each.area_id, each.name, each.capacity, each.tier) for each in event.areas] == [
        (1, "Standing", 400, 3),
        (2, "Terrace", 50, 4),
    ]
    assert [(tier.tier, tier.name, tier.price.amount_minor, tier.fee.amount_minor) for tier in event.tiers] == [
        (2, "Box", 9000, 500),
        (3, "Standing", 3000, 150),
        (1, "Stalls", 2500, 0),
        (4, "Terrace", 1000, 0),
    ]
    assert event.seat_count == 6
    listed = (await catalog.browse.ListEvents(pb2.ListEventsRequest())).events
    assert list(listed) == [event]


async def test_create_event_takes_as_many_areas_as_the_contract_says(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    areas = [area(f"Pen {number}", 1, 100) for number in range(1_000)]
    assert len((await catalog.create_event(venue.venue_id, areas=areas)).areas) == 1_000


async def test_create_event_twice_with_a_request_id_is_one_event(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    calls = [catalog.create_event(venue.venue_id, request_id="tour-1") for _ in range(8)]
    events = await asyncio.gather(*calls)
    assert len({event.event_id for event in events}) == 1
    later = await catalog.create_event(venue.venue_id, request_id="tour-1", start=SOON + timedelta(days=1))
    assert later == events[0]
    assert await catalog.pool.fetchval("SELECT count(*) FROM tier") == 2


async def test_create_event_goes_round_the_shards(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    events = [await catalog.create_event(venue.venue_id) for _ in range(6)]
    shards = [(parse_id("evt", event.event_id) or ("", 0))[0] for event in events]
    assert Counter(shards) == {"s1": 3, "s2": 3}


async def test_create_event_takes_the_newest_plan_and_keeps_it(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    old = await catalog.publish(venue.venue_id)
    await catalog.import_venue(plan=small_plan(boxes=5))
    new = await catalog.create_event(venue.venue_id)
    again = (await catalog.browse.GetEvent(pb2.GetEventRequest(event_id=old.event_id))).event
    assert (again.seat_count, new.seat_count) == (6, 9)


NOT_SELLABLE: list[tuple[dict[str, Any], str]] = [
    ({"venue_id": "ven_99"}, "VENUE_NOT_FOUND"),
    ({"venue_id": "ven_01"}, "VENUE_NOT_FOUND"),
    ({"venue_id": "' OR 1=1"}, "VENUE_NOT_FOUND"),
    ({"request_id": ""}, "INVALID_ARGUMENT"),
    ({"name": " \t"}, "INVALID_ARGUMENT"),
    ({"name": "a\x00b"}, "INVALID_ARGUMENT"),
    ({"performer": "x" * 201}, "INVALID_ARGUMENT"),
    ({"sale_start_time": timestamp(SOON)}, "INVALID_ARGUMENT"),
    ({"sale_end_time": timestamp(SOON - timedelta(days=20))}, "INVALID_ARGUMENT"),
    ({"prices": [price("Box", 1)]}, "TIER_MISSING"),
    ({"prices": [price("Box", 1), price("Stalls", 1, currency="USD")]}, "INVALID_ARGUMENT"),
    ({"prices": [price("Box", 1, currency="eur"), price("Stalls", 1, currency="eur")]}, "INVALID_ARGUMENT"),
    ({"prices": [price("Box", -1), price("Stalls", 1)]}, "INVALID_ARGUMENT"),
    ({"prices": [price("Box", 1), price("Stalls", 1), price("Roof", 1)]}, "INVALID_ARGUMENT"),
    ({"prices": [price("Box", 1), price("Stalls", 1), price("Box", 1)]}, "INVALID_ARGUMENT"),
    ({"rules": pb2.SaleRules(tickets_per_account=-1)}, "INVALID_ARGUMENT"),
    ({"rules": pb2.SaleRules(hold_seconds=86_400)}, "INVALID_ARGUMENT"),
    ({"rules": pb2.SaleRules(onsale_hold_seconds=-1)}, "INVALID_ARGUMENT"),
    ({"rules": pb2.SaleRules(onsale_window_seconds=700_000)}, "INVALID_ARGUMENT"),
    ({"rules": pb2.SaleRules(onsale_window_seconds=-1)}, "INVALID_ARGUMENT"),
    ({"rules": pb2.SaleRules(holds_per_account=-1)}, "INVALID_ARGUMENT"),
    ({"rules": pb2.SaleRules(cancel_seconds=-1)}, "INVALID_ARGUMENT"),
    ({"rules": pb2.SaleRules(cancel_seconds=20 * 86_400)}, "INVALID_ARGUMENT"),
    ({"areas": [area("", 10, 1)]}, "INVALID_ARGUMENT"),
    ({"areas": [area("x" * 61, 10, 1)]}, "INVALID_ARGUMENT"),
    ({"areas": [area("Floor", 10, 1), area(" Floor", 10, 1)]}, "INVALID_ARGUMENT"),
    ({"areas": [area("Floor", 0, 1)]}, "INVALID_ARGUMENT"),
    ({"areas": [area("Floor", 1_000_001, 1)]}, "INVALID_ARGUMENT"),
    ({"areas": [area("Floor", 10, -1)]}, "INVALID_ARGUMENT"),
    ({"areas": [area("Floor", 10, 1, currency="USD")]}, "INVALID_ARGUMENT"),
    ({"areas": [area(f"Pen {number}", 10, 1) for number in range(1_001)]}, "INVALID_ARGUMENT"),
]


async def test_create_event_refuses_what_cannot_be_sold(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    for wrong, reason in NOT_SELLABLE:
        code, found, _ = await refusal(catalog.create_event(**({"venue_id": venue.venue_id} | wrong)))
        assert (wrong, found) == (wrong, reason)
        assert code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}
    assert await catalog.pool.fetchval("SELECT count(*) FROM event") == 0


async def test_create_event_refuses_an_event_without_times(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    request = pb2.CreateEventRequest(request_id="r", name="n", performer="p", venue_id=venue.venue_id)
    request.prices.extend([price("Stalls", 1), price("Box", 1)])
    _, reason, _ = await refusal(catalog.admin.CreateEvent(request))
    assert reason == "INVALID_ARGUMENT"
