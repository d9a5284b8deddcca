"""The plan for drawing."""

from pathlib import Path

import grpc
from rowlock.catalog.v1 import catalog_pb2 as pb2
from rowlock.catalog.v1 import catalog_pb2_grpc

from cli.halls import HALLS
from services.catalog.plan_cache import CACHED
from tests.integration.catalog.house import Catalog, price, refusal

LONG_REFUSALS = [("grpc.max_metadata_size", 2**20), ("grpc.absolute_max_metadata_size", 2**20)]


async def test_plan_adds_positions_up(catalog: Catalog) -> None:
    event = await catalog.publish((await catalog.import_venue()).venue_id)
    answer = await catalog.browse.GetEventPlan(pb2.GetEventPlanRequest(event_id=event.event_id))
    parterre, boxes = answer.plan.sections
    assert (parterre.section, boxes.section) == ("Parterre", "Boxes")
    (row,) = parterre.rows
    assert [(seat.number, seat.x, seat.y, seat.tier) for seat in row.seats] == [
        ("1", 35, 27, 1),
        ("2", 55, 27, 1),
        ("3", 75, 27, 1),
        ("4", 95, 27, 1),
    ]
    assert (answer.plan.focal_point.x, answer.plan.focal_point.y) == (150, 10)
    assert (answer.plan.width, answer.plan.height) == (300, 200)
    assert answer.tiers == event.tiers
    ids = [seat.seat_id for section in answer.plan.sections for each in section.rows for seat in each.seats]
    assert ids == list(range(ids[0], ids[0] + 6))


async def test_plan_version_is_equal_for_equal_plans(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    one, other = await catalog.publish(venue.venue_id), await catalog.publish(venue.venue_id)
    answers = [
        await catalog.browse.GetEventPlan(pb2.GetEventPlanRequest(event_id=event.event_id)) for event in (one, other)
    ]
    assert answers[0].plan_version == answers[1].plan_version
    assert answers[0].plan == answers[1].plan


async def test_plan_of_an_arena_is_built_once(catalog: Catalog) -> None:
    make, seats = HALLS["arena"]
    venue = await catalog.import_venue("Arena", plan=make(seats).to_json())
    assert venue.seat_count == 18_000
    event = await catalog.publish(venue.venue_id, prices=[price(category, 5000) for category in venue.categories])
    assert len(catalog.booking.taken[0].seats) == 18_000
    request = pb2.GetEventPlanRequest(event_id=event.event_id)
    built = _asked_of_the_cache("miss"), _asked_of_the_cache("hit")
    for _ in range(5):
        answer = await catalog.browse.GetEventPlan(request)
    assert sum(len(row.seats) for section in answer.plan.sections for row in section.rows) == 18_000
    assert (_asked_of_the_cache("miss"), _asked_of_the_cache("hit")) == (built[0] + 1, built[1] + 4)


def _asked_of_the_cache(result: str) -> float:
    return float(CACHED.labels(result)._value.get())


async def test_stadium_is_refused_with_every_fault_and_taken_with_repair(catalog: Catalog, shared_data: Path) -> None:
    plan = (shared_data / "pretix" / "stadium.json").read_bytes()
    async with grpc.aio.insecure_channel(catalog.address, options=LONG_REFUSALS) as channel:
        admin = catalog_pb2_grpc.CatalogAdminServiceStub(channel)
        venue = pb2.Venue(name="Stadium", city="Lisbon", country_code="PT", time_zone="Europe/Lisbon")
        _, reason, metadata = await refusal(admin.ImportVenue(pb2.ImportVenueRequest(venue=venue, pretix_plan=plan)))
    faults = metadata["faults"].split("\n")
    assert reason == "PLAN_INVALID"
    assert faults[:2] == [
        "zones[0].areas[0].rectangle.width: is 846.8843, not a whole number",
        "zones[0].areas[0].rectangle.height: is 349.7701, not a whole number",
    ]
    assert sum(".seat_guid: " in fault and "repeats at" in fault for fault in faults) == 126
    stored = await catalog.import_venue("Stadium", plan=plan, repair=True)
    assert (stored.version, stored.seat_count, len(stored.repairs)) == (1, 738, len(faults))
    event = await catalog.publish(stored.venue_id, prices=[price(category, 100) for category in stored.categories])
    seats = catalog.booking.taken[0].seats
    assert len({seat.seat_id for seat in seats}) == event.seat_count == 738
    assert len({(seat.section, seat.row, seat.number) for seat in seats}) == 738
