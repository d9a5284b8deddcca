"""`rowlock event …`"""

import re
import uuid
from typing import Annotated

import typer
from rowlock.catalog.v1 import catalog_pb2 as pb2
from rowlock.catalog.v1.catalog_pb2_grpc import CatalogAdminServiceStub, CatalogServiceStub
from rowlock.money.v1.money_pb2 import Money

from cli.errors import CliError
from cli.money import format_money, parse_money
from cli.options import AsJson
from cli.output import print_json, print_table, working
from cli.services import Service
from cli.times import format_time, parse_duration, parse_time, timestamp
from cli.venues import Venues

PAGE_SIZE = 100
EVERY_CATEGORY = "*"

app = typer.Typer(help="What happens at a venue, when, and what it costs.", no_args_is_help=True)


class Events:
    """Catalog's events."""

    def __init__(self) -> None:
        self.service = Service("catalog")
        self.browse = CatalogServiceStub(self.service.channel)
        self.admin = CatalogAdminServiceStub(self.service.channel)

    def list(self, query: pb2.ListEventsRequest) -> list[pb2.Event]:
        """All pages."""
        found: list[pb2.Event] = []
        query.page_size = PAGE_SIZE
        while True:
            page = self.service.ask(self.browse.ListEvents, query)
            found.extend(page.events)
            query.page_token = page.next_page_token
            if not page.next_page_token:
                return found

    def create(self, request: pb2.CreateEventRequest) -> pb2.Event:
        """Unpublished; the same request is the same event."""
        event: pb2.Event = self.service.ask(self.admin.CreateEvent, request).event
        return event

    def publish(self, event_id: str) -> pb2.Event:
        """May be repeated."""
        event: pb2.Event = self.service.ask(self.admin.PublishEvent, pb2.PublishEventRequest(event_id=event_id)).event
        return event


@app.command()
def create(
    name: Annotated[str, typer.Option(help="Title.")],
    performer: Annotated[str, typer.Option(help="Who performs.")],
    venue: Annotated[str, typer.Option(help="Name or id of the venue.")],
    start: Annotated[str, typer.Option(help='On the venue\'s clock: "2027-03-31 20:00".')],
    price: Annotated[
        list[str], typer.Option(help='"Stalls=EUR 45.00" for each category of the plan, or "EUR 45.00" for all others.')
    ],
    fee: Annotated[str, typer.Option(help='Added to each ticket: "EUR 2.50".')] = "",
    area: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:CAPACITY:PRICE[:FEE]",
            help='An area without seats: "Standing:400:EUR 30.00"; its fee is --fee if not given.',
        ),
    ] = None,
    sale_start: Annotated[str, typer.Option(help="When the sale starts.")] = "now",
    sale_end: Annotated[str, typer.Option(help="When it ends; when the event starts if not given.")] = "",
    description: Annotated[str, typer.Option(help="A sentence or two.")] = "",
    tickets_per_account: Annotated[int, typer.Option(help="Most tickets of one account; 8 if not given.")] = 0,
    hold_seconds: Annotated[int, typer.Option(help="How long seats are held; 600 if not given.")] = 0,
    onsale_hold_seconds: Annotated[int, typer.Option(help="The same in the on-sale window; 120 if not given.")] = 0,
    onsale_window: Annotated[
        str, typer.Option(help="How long that window is, from the start of the sale: 30m. None if not given.")
    ] = "",
    best_available_only: Annotated[
        bool, typer.Option("--best-available-only", help="Nobody picks seats: buyers get the best that are left.")
    ] = False,
    holds_per_account: Annotated[
        int, typer.Option(help="How often an account may hold and let go in ten minutes; 20 if not given.")
    ] = 0,
    cancel_until: Annotated[
        str, typer.Option(help="How long before the start buyers may cancel: 24h, 7d. Never if not given.")
    ] = "",
    no_resale: Annotated[
        bool, typer.Option("--no-resale", help="Seats of a cancelled order are not sold again.")
    ] = False,
    line: Annotated[bool, typer.Option("--line", help="People wait in a line first.")] = False,
    line_capacity: Annotated[int, typer.Option(help="How many may be inside at once.")] = 0,
    request_id: Annotated[str, typer.Option(help="The same one returns the same event.")] = "",
    publish: Annotated[bool, typer.Option("--publish", help="Publish it at once.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write an event, unpublished. It stays at the plan that the venue has now."""
    place = Venues().find(venue)
    zone = place.venue.time_zone
    request = pb2.CreateEventRequest(
        request_id=request_id or uuid.uuid4().hex,
        name=name,
        performer=performer,
        description=description,
        venue_id=place.venue.venue_id,
        start_time=timestamp(parse_time(start, zone)),
        sale_start_time=timestamp(parse_time(sale_start, zone)),
        sale_end_time=timestamp(parse_time(sale_end, zone)) if sale_end else None,
        prices=prices_of(price, fee, list(place.categories)),
        areas=areas_of(area or [], fee),
        rules=pb2.SaleRules(
            tickets_per_account=tickets_per_account,
            hold_seconds=hold_seconds,
            onsale_hold_seconds=onsale_hold_seconds,
            onsale_window_seconds=_seconds(onsale_window),
            best_available_only=best_available_only,
            holds_per_account=holds_per_account,
            no_resale=no_resale,
            cancel_seconds=_seconds(cancel_until),
            line=line,
            line_capacity=line_capacity,
        ),
    )
    with working(f"writing {name}", quiet=as_json):
        events = Events()
        event = events.create(request)
        event = events.publish(event.event_id) if publish else event
    _print_event(event, as_json)


@app.command("publish")
def publish_event(
    event_id: Annotated[str, typer.Argument(help="evt_…")],
    as_json: AsJson = False,
) -> None:
    """Hand an event's seats to booking and show it. May be repeated until it succeeds."""
    with working(f"publishing {event_id}", quiet=as_json):
        event = Events().publish(event_id)
    _print_event(event, as_json)


@app.command("list")
def list_events(
    q: Annotated[str, typer.Option(help="Words, all of which occur.")] = "",
    city: Annotated[str, typer.Option(help="The venue's city.")] = "",
    date_from: Annotated[str, typer.Option(help="First day, YYYY-MM-DD.")] = "",
    date_to: Annotated[str, typer.Option(help="Last day, YYYY-MM-DD.")] = "",
    as_json: AsJson = False,
) -> None:
    """Published events, soonest first."""
    events = Events().list(pb2.ListEventsRequest(q=q, city=city, date_from=date_from, date_to=date_to))
    if as_json:
        print_json(events)
        return
    rows = [
        (
            event.event_id,
            f"{event.name} ({event.performer})",
            f"{event.venue.name}, {event.venue.city}",
            format_time(event.start_time, event.venue.time_zone),
            f"{event.seat_count:,}",
            f"{sum(area.capacity for area in event.areas):,}" if event.areas else "",
            format_money(event.tiers[-1].price),
            "line" if event.line else "",
        )
        for event in events
    ]
    print_table(f"{len(rows)} events", ("id", "event", "where", "when", "seats", "units", "from", ""), rows)


def prices_of(prices: list[str], fee: str, categories: list[str]) -> list[pb2.CategoryPrice]:
    """`Category=EUR 45.00` for one category, `EUR 45.00` for all that are not named."""
    named: dict[str, Money] = {}
    for text in prices:
        category, _, amount = text.rpartition("=")
        category = category.strip() or EVERY_CATEGORY
        if category in named:
            raise CliError(f'"{text}" is the second price of its kind.')
        if category not in {EVERY_CATEGORY, *categories}:
            raise CliError(f'The plan has no category "{category}"; it has {", ".join(categories)}.')
        named[category] = parse_money(amount)
    added = parse_money(fee) if fee else None
    found = [(category, named.get(category) or named.get(EVERY_CATEGORY)) for category in categories]
    return [pb2.CategoryPrice(category=category, price=price, fee=added) for category, price in found if price]


def areas_of(areas: list[str], fee: str) -> list[pb2.NewArea]:
    """`Standing:400:EUR 30.00`, or with a fee of its own `Standing:400:EUR 30.00:EUR 1.50`."""
    return [_area(text, fee) for text in areas]


def _area(text: str, fee: str) -> pb2.NewArea:
    parts = [part.strip() for part in text.split(":")]
    if len(parts) not in (3, 4) or not parts[0] or not re.fullmatch("[0-9]{1,9}", parts[1]):
        raise CliError(
            f'"{text}" is no area; write it like "Standing:400:EUR 30.00" or "Standing:400:EUR 30:EUR 1.50".'
        )
    name, capacity, price, own_fee = (*parts, fee)[:4]
    added = parse_money(own_fee) if own_fee else None
    return pb2.NewArea(name=name, capacity=int(capacity), price=parse_money(price), fee=added)


def _seconds(duration: str) -> int:
    return int(parse_duration(duration).total_seconds()) if duration else 0


def _print_event(event: pb2.Event, as_json: bool) -> None:
    if as_json:
        print_json(event)
        return
    when = format_time(event.start_time, event.venue.time_zone)
    print(f"{event.event_id}: {event.name}, {event.venue.name} ({event.venue.city}), {when}")
    for tier in event.tiers:
        print(f"  {tier.name}: {format_money(tier.price)} and a fee of {format_money(tier.fee)}")
    for area in event.areas:
        print(f"  {area.name}: {area.capacity:,} units without seats")
    for sentence in _rules(event.rules):
        print(f"  {sentence}")


def _rules(rules: pb2.SaleRules) -> list[str]:
    """What differs from one event to the next, in words."""
    said = {
        "buyers get the best available seats; they cannot pick": rules.best_available_only,
        f"for {rules.onsale_window_seconds} s from the start of the sale, holds last {rules.onsale_hold_seconds} s": (
            rules.onsale_window_seconds
        ),
        f"buyers may cancel until {rules.cancel_seconds / 3600:g} h before the start": rules.cancel_seconds,
        "seats of a cancelled order are not sold again": rules.no_resale and rules.cancel_seconds,
    }
    return [sentence for sentence, holds in said.items() if holds]
