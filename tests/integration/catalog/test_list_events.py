"""Finding events."""

from datetime import UTC, datetime, timedelta

import pytest
from rowlock.catalog.v1 import catalog_pb2 as pb2

from tests.integration.catalog.house import SOON, Catalog, refusal


@pytest.fixture
async def season(catalog: Catalog) -> Catalog:
    """Events in three cities, soonest first."""
    novo = await catalog.import_venue()
    opera = await catalog.import_venue("Opéra-Comique", city="Besançon", country_code="FR", time_zone="Europe/Paris")
    łódź = await catalog.import_venue("Hala", city="Łódź", country_code="PL", time_zone="Europe/Warsaw")
    for days, venue, name, performer in (
        (1, novo, "Night Trains", "Björk & Friends"),
        (2, opera, "La Bohème", "Chœur de Besançon"),
        (3, łódź, "Straße der Lieder", "ΣΟΦΙΑ"),
        (4, novo, "100% Jazz_Night", "The Sleepers"),
    ):
        await catalog.publish(venue.venue_id, name=name, performer=performer, start=SOON + timedelta(days=days))
    return catalog


FOUND_BY_WORDS = [
    ("", ["Night Trains", "La Bohème", "Straße der Lieder", "100% Jazz_Night"]),
    ("boheme", ["La Bohème"]),
    ("BOHÈME besancon", ["La Bohème"]),
    ("bohe\u0300me", ["La Bohème"]),
    ("choeur", ["La Bohème"]),
    ("BJORK", ["Night Trains"]),
    ("strasse", ["Straße der Lieder"]),
    ("lodz", ["Straße der Lieder"]),
    ("Σοφια", ["Straße der Lieder"]),
    ("night", ["Night Trains", "100% Jazz_Night"]),
    ("nig", ["Night Trains", "100% Jazz_Night"]),
    ("night sleepers", ["100% Jazz_Night"]),
    ("night boheme", []),
    ("ight", []),
    ("100%", ["100% Jazz_Night"]),
    ("%", []),
    ("teatro novo lisbon", ["Night Trains", "100% Jazz_Night"]),
    ("' | 'x':* \\", []),
]


async def test_list_events_finds_all_words(season: Catalog) -> None:
    assert [(q, await season.names(q=q)) for q, _ in FOUND_BY_WORDS] == FOUND_BY_WORDS


async def test_list_events_by_city_takes_the_whole_name(season: Catalog) -> None:
    found = {"lisbon": 2, "LODZ": 1, "Besancon": 1, "Lis": 0, "Porto": 0}
    assert {city: len(await season.names(city=city)) for city in found} == found


async def test_list_events_counts_days_as_the_venue_does(catalog: Catalog) -> None:
    auckland = await catalog.import_venue("Pier", city="Auckland", country_code="NZ", time_zone="Pacific/Auckland")
    honolulu = await catalog.import_venue("Bay", city="Honolulu", country_code="US", time_zone="Pacific/Honolulu")
    year = datetime.now(UTC).year + 1
    noon = datetime(year, 7, 10, 12, 30, tzinfo=UTC)  # 00:30 on the 11th in Auckland, 02:30 on the 10th in Honolulu
    await catalog.publish(auckland.venue_id, name="South", start=noon)
    await catalog.publish(honolulu.venue_id, name="North", start=noon + timedelta(minutes=1))
    tenth, eleventh = f"{year}-07-10", f"{year}-07-11"
    assert await catalog.names(date_from=tenth, date_to=tenth) == ["North"]
    assert await catalog.names(date_from=eleventh, date_to=eleventh) == ["South"]
    assert await catalog.names(date_from=tenth, date_to=eleventh) == ["South", "North"]
    assert await catalog.names(date_to=tenth) == ["North"]


async def test_list_events_begins_now_unless_told(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    await catalog.publish(venue.venue_id, name="Gone", start=datetime.now(UTC) - timedelta(days=3))
    await catalog.publish(venue.venue_id, name="Coming")
    assert await catalog.names() == ["Coming"]
    day = (datetime.now(UTC) - timedelta(days=4)).date().isoformat()
    assert await catalog.names(date_from=day) == ["Gone", "Coming"]


async def test_list_events_pages_over_equal_times_without_loss_or_repeat(catalog: Catalog) -> None:
    venue = await catalog.import_venue()
    for number in range(7):
        await catalog.publish(venue.venue_id, name=f"Event {number}", start=SOON + timedelta(hours=number // 3))
    names, token, pages = [], "", 0
    while token or not pages:
        page = await catalog.browse.ListEvents(pb2.ListEventsRequest(page_size=2, page_token=token))
        names += [event.name for event in page.events]
        token = page.next_page_token
        pages += 1
    assert pages == 4
    assert sorted(names) == [f"Event {number}" for number in range(7)]
    assert names == await catalog.names()


async def test_list_events_last_full_page_has_no_token(season: Catalog) -> None:
    assert not (await season.browse.ListEvents(pb2.ListEventsRequest(page_size=4))).next_page_token
    assert len((await season.browse.ListEvents(pb2.ListEventsRequest(page_size=101))).events) == 4


NONSENSE: list[dict[str, str | int]] = [
    {"page_size": -1},
    {"page_token": "abc"},
    {"page_token": "A" * 27},
    {"page_token": "é"},
    {"date_from": "2027-02-30"},
    {"date_to": "20270230"},
    {"date_from": "today"},
    {"date_from": "0001-01-01"},
    {"q": "x" * 201},
    {"q": "a\0b"},
]


async def test_list_events_refuses_nonsense(catalog: Catalog) -> None:
    for wrong in NONSENSE:
        _, reason, metadata = await refusal(catalog.browse.ListEvents(pb2.ListEventsRequest(**wrong)))  # type: ignore[arg-type]
        assert (wrong, reason, metadata) == (wrong, "INVALID_ARGUMENT", {"field": next(iter(wrong))})


async def test_answers_say_how_long_they_may_be_kept(season: Catalog) -> None:
    event = (await season.browse.ListEvents(pb2.ListEventsRequest(page_size=1))).events[0]
    tags = []
    for call in (
        season.browse.ListEvents(pb2.ListEventsRequest()),
        season.browse.GetEvent(pb2.GetEventRequest(event_id=event.event_id)),
        season.browse.GetEvent(pb2.GetEventRequest(event_id=event.event_id)),
        season.browse.GetEventPlan(pb2.GetEventPlanRequest(event_id=event.event_id)),
    ):
        headers = dict(await call.initial_metadata())
        assert "stale-while-revalidate" in headers["cache-control"]
        tags.append(headers["etag"])
    assert tags[1] == tags[2]
    assert len(set(tags)) == 3
