"""Venues and the versions of their plans."""

import asyncio
import json
from typing import Any

import asyncpg
import grpc
import pytest
from rowlock.catalog.v1 import catalog_pb2 as pb2
from rowlock.invariant.v1.invariant_pb2 import CheckInvariantsRequest

from tests.integration.catalog.house import Catalog, refusal, small_plan


async def test_import_venue_tells_what_was_stored(catalog: Catalog) -> None:
    stored = await catalog.import_venue()
    assert (stored.version, stored.seat_count, list(stored.categories)) == (1, 6, ["Stalls", "Box"])
    assert not stored.repairs
    (listed,) = (await catalog.admin.ListVenues(pb2.ListVenuesRequest())).venues
    assert listed.venue.venue_id == stored.venue_id
    assert (listed.venue.city, listed.venue.time_zone, listed.seat_count) == ("Lisbon", "Europe/Lisbon", 6)


async def test_import_venue_again_is_the_same_version(catalog: Catalog) -> None:
    first = await catalog.import_venue()
    other_spelling = json.dumps(json.loads(small_plan(name="Other title")), indent=3).encode()
    assert await catalog.import_venue(plan=other_spelling) == first
    assert await catalog.import_venue(name="TEATRO NÔVO") == first


async def test_import_venue_of_another_plan_is_a_new_version(catalog: Catalog) -> None:
    first = await catalog.import_venue()
    second = await catalog.import_venue(plan=small_plan(boxes=3), city="", country_code="", time_zone="")
    assert (second.venue_id, second.version, second.seat_count) == (first.venue_id, 2, 7)


async def test_import_venue_at_once_gives_each_plan_a_version_and_seats_of_its_own(catalog: Catalog) -> None:
    plans = [small_plan(boxes=boxes) for boxes in range(1, 9)] * 2
    stored = await asyncio.gather(*(catalog.import_venue(plan=plan) for plan in plans))
    assert sorted({answer.version for answer in stored}) == list(range(1, 9))
    assert {stored[index].version == stored[index + 8].version for index in range(8)} == {True}
    blocks = await catalog.pool.fetch("SELECT lower(seat_ids) AS first, upper(seat_ids) AS after FROM plan")
    ids = [seat for block in blocks for seat in range(block["first"], block["after"])]
    assert len(ids) == len(set(ids)) == sum(4 + boxes for boxes in range(1, 9))


async def test_import_venue_refuses_a_known_name_elsewhere(catalog: Catalog) -> None:
    await catalog.import_venue()
    code, reason, _ = await refusal(catalog.import_venue(city="Porto"))
    assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "VENUE_DIFFERS")


NO_PLACES: list[dict[str, Any]] = [
    *({"name": " "}, {"name": "x" * 201}, {"city": ""}, {"city": "a\0b"}),
    *({"country_code": "pt"}, {"country_code": ""}, {"time_zone": "Lisbon"}, {"time_zone": ""}),
]


async def test_import_venue_refuses_a_venue_that_is_no_place(catalog: Catalog) -> None:
    for wrong in NO_PLACES:
        code, reason, metadata = await refusal(catalog.import_venue(**wrong))
        assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
        assert metadata["field"] == f"venue.{next(iter(wrong))}"
    assert await catalog.pool.fetchval("SELECT count(*) FROM venue") == 0


async def test_import_venue_refuses_a_plan_with_all_its_faults(catalog: Catalog) -> None:
    plan = json.loads(small_plan())
    del plan["zones"][0]["rows"][0]["seats"][0]["seat_number"]
    plan["zones"][1]["rows"][0]["seats"][1]["seat_guid"] = "Box-1-1"
    code, reason, metadata = await refusal(catalog.import_venue(plan=json.dumps(plan).encode()))
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "PLAN_INVALID")
    assert metadata["faults"].split("\n") == [
        "zones[0].rows[0].seats[0].seat_number: is missing",
        "zones[1].rows[0].seats[0].seat_guid: 'Box-1-1' repeats at zones[1].rows[0].seats[1]",
    ]
    assert await catalog.pool.fetchval("SELECT count(*) FROM venue") == 0


async def test_import_venue_repairs_what_can_be_repaired(catalog: Catalog) -> None:
    plan = json.loads(small_plan())
    plan["zones"][1]["rows"][0]["seats"][1]["seat_guid"] = "Box-1-1"
    stored = await catalog.import_venue(plan=json.dumps(plan).encode(), repair=True)
    assert stored.seat_count == 6
    assert len(stored.repairs) == 1
    assert stored.repairs[0].startswith("zones[1].rows[0].seats[0].seat_guid: 'Box-1-1' repeats")


async def test_plan_never_changes(catalog: Catalog) -> None:
    await catalog.import_venue()
    for statement in ("UPDATE plan SET width = 1", "UPDATE plan_row SET section = 'x'"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await catalog.pool.execute(statement)


async def test_seat_ids_end_with_32_bits_and_are_never_given_twice(catalog: Catalog) -> None:
    await catalog.pool.execute("SELECT setval('seat_id', 2147483640)")
    stored = await catalog.import_venue()
    code, _, _ = await refusal(catalog.import_venue(plan=small_plan(boxes=4)))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert await catalog.pool.fetchval("SELECT max(upper(seat_ids)) FROM plan") == 2147483647
    assert stored.seat_count == 6


async def test_check_invariants_tells_of_a_broken_promise(catalog: Catalog) -> None:
    request = CheckInvariantsRequest()
    await catalog.publish((await catalog.import_venue()).venue_id)
    kept = (await catalog.promises.CheckInvariants(request)).invariants
    assert len(kept) >= 4
    assert {(invariant.violations, bool(invariant.description)) for invariant in kept} == {(0, True)}
    await catalog.pool.execute("DELETE FROM plan_row WHERE ordinal = 2")
    await catalog.pool.execute("DELETE FROM tier WHERE tier = 2")
    broken = {
        found.name: found for found in (await catalog.promises.CheckInvariants(request)).invariants if found.violations
    }
    assert broken.keys() == {"plan_not_covered_by_its_rows", "seat_without_a_price"}
    assert all(found.violations == 1 and len(found.examples) == 1 for found in broken.values())
