"""Commands against a real catalog."""

import json
from pathlib import Path
from zoneinfo import ZoneInfo

from google.protobuf.json_format import ParseDict
from rowlock.catalog.v1 import catalog_pb2 as pb2

from cli.sample_events import SAMPLE_EVENTS, SAMPLE_VENUES
from tests.integration.catalog.house import Catalog, small_plan
from tests.integration.cli.conftest import Run, run_command


async def test_venue_import_and_event_from_the_command_line(run: Run, catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "old-mill.json"
    file.write_bytes(small_plan())
    place = ("--city", "Auckland", "--country", "NZ", "--time-zone", "Pacific/Auckland")
    imported = await run("venue", "import", str(file), *place, "--json")
    assert imported.status == 0, imported.err
    assert imported.json()["seatCount"] == 6
    listed = (await run("venue", "list", "--json")).json()
    assert [summary["venue"]["name"] for summary in listed] == ["Old mill"]
    created = await run(
        *("event", "create", "--name", "Water", "--performer", "Wheel", "--venue", "Old mill"),
        *("--start", "2031-01-15 20:00", "--price", "Box=NZD 90.50", "--price", "NZD 25", "--fee", "NZD 2"),
        *("--line", "--request-id", "water-1", "--json"),
    )
    assert created.status == 0, created.err
    event = ParseDict(created.json(), pb2.Event())
    assert event.start_time.ToDatetime(tzinfo=ZoneInfo("UTC")).isoformat() == "2031-01-15T07:00:00+00:00"
    assert [(tier.name, tier.price.amount_minor, tier.fee.amount_minor) for tier in event.tiers] == [
        ("Box", 9050, 200),
        ("Stalls", 2500, 200),
    ]
    assert (await run("event", "list", "--json")).json() == []
    published = await run("event", "publish", event.event_id)
    assert published.status == 0, published.err
    assert "Wed 15 Jan 2031 20:00" in published.out
    assert catalog.waitingroom.taken[0].line
    table = await run("event", "list", "--q", "wheel", "--city", "auckland")
    assert event.event_id in table.out
    assert "NZD 25.00" in table.out


async def test_event_create_says_how_the_sale_is_run(run: Run, catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    created = await run(
        *("event", "create", "--name", "Water", "--performer", "Wheel", "--venue", "Teatro Novo"),
        *("--start", "2031-01-15 20:00", "--price", "EUR 25", "--fee", "EUR 2", "--request-id", "water-2"),
        *("--area", "Standing:400:EUR 30.00", "--area", "Terrace:50:EUR 12:EUR 1", "--best-available-only"),
        *("--hold-seconds", "300", "--onsale-hold-seconds", "60", "--onsale-window", "30m"),
        *("--holds-per-account", "5", "--cancel-until", "24h", "--no-resale"),
    )
    assert created.status == 0, created.err
    assert "Standing: 400 units without seats" in created.out
    assert "for 1800 s from the start of the sale, holds last 60 s" in created.out
    assert "buyers may cancel until 24 h before the start" in created.out
    event = await catalog.create_event(venue.venue_id, request_id="water-2")
    assert [(area.name, area.capacity) for area in event.areas] == [("Standing", 400), ("Terrace", 50)]
    fees = {tier.name: tier.fee.amount_minor for tier in event.tiers}
    assert (fees["Standing"], fees["Terrace"]) == (200, 100)
    assert event.rules == pb2.SaleRules(
        tickets_per_account=8,
        hold_seconds=300,
        onsale_hold_seconds=60,
        onsale_window_seconds=1_800,
        best_available_only=True,
        holds_per_account=5,
        no_resale=True,
        cancel_seconds=86_400,
        line_capacity=200,
    )


async def test_venue_import_tells_faults_and_repairs(run: Run, tmp_path: Path) -> None:
    plan = json.loads(small_plan())
    plan["zones"][1]["rows"][0]["seats"][1]["seat_guid"] = "Box-1-1"
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    refused = await run("venue", "import", str(file))
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.splitlines() == [
        "The plan has one fault.",
        "  zones[1].rows[0].seats[0].seat_guid: 'Box-1-1' repeats at zones[1].rows[0].seats[1]",
    ]
    repaired = await run("venue", "import", str(file), "--repair")
    assert repaired.status == 0
    assert "repaired zones[1].rows[0].seats[0].seat_guid" in repaired.out


async def test_venue_import_of_a_stadium_names_every_fault(run: Run, shared_data: Path) -> None:
    file = shared_data / "pretix" / "stadium.json"
    refused = await run("venue", "import", str(file))
    assert refused.status == 1
    assert sum("repeats at" in line for line in refused.err.splitlines()) == 126
    repaired = await run("venue", "import", str(file), "--repair", "--json")
    assert repaired.status == 0
    assert (repaired.json()["seatCount"], len(repaired.json()["repairs"])) == (738, len(refused.err.splitlines()) - 1)


async def test_sample_catalog_makes_nothing_new_when_repeated(run: Run, catalog: Catalog) -> None:
    first = await run("sample-catalog", "--json")
    assert first.status == 0, first.err
    again = await run("sample-catalog", "--json")
    assert again.json() == first.json()
    assert len(first.json()) == len(SAMPLE_EVENTS) >= 20
    assert len(catalog.booking.taken) == len(SAMPLE_EVENTS)
    assert await catalog.pool.fetchval("SELECT count(*) FROM plan") == len(SAMPLE_VENUES)
    events = [ParseDict(event, pb2.Event()) for event in first.json()]
    assert len({event.venue.city for event in events}) >= 6
    assert len({event.venue.time_zone for event in events}) >= 6
    assert 18_000 in {event.seat_count for event in events}
    now = max(event.sale_start_time.seconds for event in events) - 7 * 24 * 3600 + 600
    on_sale = [event for event in events if event.sale_start_time.seconds < now]
    assert any(event.seat_count == 200 and not event.line for event in on_sale)
    assert sum(event.line for event in on_sale) >= 2
    assert any(event.areas and event.seat_count for event in on_sale)
    assert any(event.rules.best_available_only and event.line for event in on_sale)
    assert sum(event.rules.cancel_seconds > 0 for event in events) > len(events) / 2


async def test_sample_catalog_goes_on_where_it_was_cut_off(run: Run, catalog: Catalog) -> None:
    catalog.waitingroom.faults.append(ConnectionError("cut"))
    cut = await run("sample-catalog")
    assert cut.status == 3
    assert cut.err == "waitingroom did not answer; nothing is shown yet. Publish again.\n"
    done = await run("sample-catalog")
    assert done.status == 0
    assert await catalog.pool.fetchval("SELECT count(*) FROM event WHERE published_time IS NOT NULL") == len(
        SAMPLE_EVENTS
    )


async def test_generate_writes_a_plan_that_imports(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "hall.json"
    assert (await run("venue", "generate", "hall", "--seats", "37", "--output", str(file))).status == 0
    imported = await run("venue", "import", str(file), "--json")
    assert imported.json()["seatCount"] == 37
    assert (await run("venue", "generate", "theatre", "--json")).json()["seatCount"] == 200


async def test_invariants_asks_who_is_there_and_names_who_is_not(run: Run, catalog: Catalog) -> None:
    await catalog.publish((await catalog.import_venue()).venue_id)
    kept = await run("invariants", "--json")
    assert kept.status == 3
    assert kept.json()["errors"].keys() == {"booking", "payments", "waitingroom", "seatfeed"}
    assert {found["violations"] for found in kept.json()["invariants"]["catalog"]} == {"0"}
    await catalog.pool.execute("DELETE FROM tier WHERE tier = 2")
    broken = await run("invariants")
    assert broken.status == 1
    assert "seat_without_a_price" in broken.out


REFUSALS = [
    (("event", "publish", "evt_s1_7"), 1, "There is no such event."),
    (("venue", "import", "no-such-file.json"), 2, "no-such-file.json cannot be read: No such file or directory."),
    (("venue", "generate", "castle"), 2, 'There is no hall of kind "castle"; there are arena, theatre, hall.'),
    (("venue", "generate", "arena", "--seats", "5"), 2, "An arena has 8,000 to 60,000 seats."),
    (("event", "list", "--date-from", "soon"), 1, "date_from is not a day like 2027-03-31."),
]


async def test_refusals_are_one_sentence(run: Run) -> None:
    for arguments, status, sentence in REFUSALS:
        assert await run(*arguments) == (status, "", f"{sentence}\n")


async def test_services_that_are_not_there_are_one_sentence(tmp_path: Path) -> None:
    nowhere = await run_command("event", "list", ROWLOCK_HOME=str(tmp_path))
    assert (nowhere.status, nowhere.err.count("\n")) == (3, 1)
    assert "ROWLOCK_CLI_CATALOG" in nowhere.err
    silent = await run_command("event", "list", ROWLOCK_CLI_CATALOG="127.0.0.1:1")
    assert (silent.status, silent.err) == (3, "catalog does not answer; is the stack running (make start)?\n")
    (tmp_path / "endpoints.json").write_text("{")
    spoiled = await run_command("event", "list", ROWLOCK_HOME=str(tmp_path))
    assert (spoiled.status, spoiled.err.count("\n")) == (2, 1)
