"""The sample catalog: venues and events to try Rowlock with. Dates are counted from the day of loading."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rowlock.catalog.v1 import catalog_pb2 as pb2

from cli.errors import CliError
from cli.events import Events, areas_of, prices_of
from cli.output import working
from cli.sample_events import SAMPLE_EVENTS, SAMPLE_VENUES, SampleEvent, SampleVenue
from cli.services import Refused
from cli.times import timestamp, zone_of
from cli.venues import Venues, make_plan

REQUEST_PREFIX = "sample-catalog-1:"  # the number grows when the samples change so much that they are other events


class Stay(NamedTuple):
    """A venue as catalog knows it."""

    venue: pb2.Venue
    categories: list[str]


def load_samples(*, quiet: bool) -> list[pb2.Event]:
    """Adds what is missing and publishes it; the events, in the order of the list."""
    venues, events = Venues(), Events()
    known = {summary.venue.name: summary for summary in venues.list()}
    stays: dict[str, Stay] = {}
    for venue in SAMPLE_VENUES:
        with working(f"venue: {venue.name}", quiet=quiet):
            stays[venue.name] = _add_venue(venues, venue, known.get(venue.name))
    loaded = []
    for number, event in enumerate(SAMPLE_EVENTS, 1):
        with working(f"event {number} of {len(SAMPLE_EVENTS)}: {event.name}", quiet=quiet):
            loaded.append(_add_event(events, event, stays[event.venue]))
    return loaded


def _add_venue(venues: Venues, sample: SampleVenue, known: pb2.VenueSummary | None) -> Stay:
    """One that is there stays as it is, with a plan that somebody may have replaced meanwhile."""
    if known:
        return Stay(known.venue, list(known.categories))
    venue = pb2.Venue(name=sample.name, city=sample.city, country_code=sample.country_code, time_zone=sample.time_zone)
    stored = venues.store(make_plan(sample.kind, sample.seats), venue)
    venue.venue_id = stored.venue_id
    return Stay(venue, list(stored.categories))


def _add_event(events: Events, sample: SampleEvent, stay: Stay) -> pb2.Event:
    event = events.create(_request(sample, stay))
    try:
        shown: pb2.Event = events.service.ask(
            events.browse.GetEvent, pb2.GetEventRequest(event_id=event.event_id)
        ).event
        return shown
    except Refused as error:
        if error.reason != "EVENT_NOT_FOUND":
            raise
    return events.publish(event.event_id)


def _request(sample: SampleEvent, stay: Stay) -> pb2.CreateEventRequest:
    zone = zone_of(stay.venue.time_zone)
    hour, minute = sample.at
    day = datetime.now(zone) + timedelta(days=sample.days)
    start = day.replace(hour=hour, minute=minute, second=0, microsecond=0).astimezone(UTC)
    sale_start = datetime.now(UTC) + timedelta(minutes=sample.sale_minutes)
    unpriced = [category for category in stay.categories if category not in sample.prices]
    if unpriced:
        raise CliError(f"{stay.venue.name} has categories without a sample price: {', '.join(unpriced)}.")
    prices = [f"{category}={sample.currency} {sample.prices[category]}" for category in stay.categories]
    return pb2.CreateEventRequest(
        request_id=REQUEST_PREFIX + sample.request_id,
        name=sample.name,
        performer=sample.performer,
        description=sample.description,
        venue_id=stay.venue.venue_id,
        start_time=timestamp(start),
        sale_start_time=timestamp(sale_start),
        prices=prices_of(prices, f"{sample.currency} {sample.fee}", stay.categories),
        areas=areas_of(list(sample.areas), f"{sample.currency} {sample.fee}"),
        rules=pb2.SaleRules(
            line=sample.line_capacity > 0,
            line_capacity=sample.line_capacity,
            hold_seconds=sample.hold_seconds,
            onsale_window_seconds=sample.onsale_window_seconds,
            best_available_only=sample.best_available_only,
            cancel_seconds=sample.cancel_hours * 3600,
        ),
    )
