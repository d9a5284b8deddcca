"""Between the contract's messages and catalog's rows."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.catalog.v1 import catalog_pb2 as pb2
from rowlock.invariant.v1 import invariant_pb2
from rowlock.money.v1 import money_pb2

from chassis.errors import InvalidArgument
from services.catalog.events import EventDraft, Price
from services.catalog.ids import event_text, venue_key, venue_text
from services.catalog.paging import day_of
from services.catalog.peers import timestamp
from services.catalog.rows import Event, EventFilter, Invariant, Plan, SeatRow, Tier, Venue, VenueSummary
from services.catalog.texts import LONGEST_NAME, optional


def event_message(event: Event) -> pb2.Event:
    return pb2.Event(
        event_id=event_text(event.shard, event.event_id),
        name=event.name,
        performer=event.performer,
        venue=venue_message(event.venue),
        start_time=timestamp(event.start_time),
        sale_start_time=timestamp(event.sale_start_time),
        sale_end_time=timestamp(event.sale_end_time),
        tiers=tier_messages(event),
        seat_count=event.seat_count,
        line=event.line,
        description=event.description,
    )


def venue_message(venue: Venue) -> pb2.Venue:
    return pb2.Venue(
        venue_id=venue_text(venue.venue_id),
        name=venue.name,
        city=venue.city,
        country_code=venue.country_code,
        time_zone=venue.time_zone,
    )


def tier_messages(event: Event) -> list[pb2.Tier]:
    return [_tier(tier, event.currency_code) for tier in event.tiers]


def _tier(tier: Tier, currency: str) -> pb2.Tier:
    return pb2.Tier(
        tier=tier.tier,
        name=tier.name,
        price=money_pb2.Money(currency_code=currency, amount_minor=tier.price_minor),
        fee=money_pb2.Money(currency_code=currency, amount_minor=tier.fee_minor),
        color=tier.color,
    )


def plan_message(plan: Plan) -> pb2.SeatPlan:
    """Sections in the plan's order; the rows of a section stand together in it."""
    sections: dict[str, list[pb2.Row]] = {}
    for row in plan.rows:
        sections.setdefault(row.section, []).append(_row(row))
    return pb2.SeatPlan(
        width=plan.width,
        height=plan.height,
        focal_point=pb2.Point(x=plan.focal_x, y=plan.focal_y),
        sections=[pb2.Section(section=name, rows=rows) for name, rows in sections.items()],
    )


def _row(row: SeatRow) -> pb2.Row:
    lists = zip(row.numbers, row.xs, row.ys, row.categories, row.accessible, strict=True)
    seats = [
        pb2.Seat(seat_id=row.first_seat_id + index, number=number, x=x, y=y, tier=tier, accessible=accessible)
        for index, (number, x, y, tier, accessible) in enumerate(lists)
    ]
    return pb2.Row(row=row.row_name, seats=seats)


def summary_message(summary: VenueSummary) -> pb2.VenueSummary:
    return pb2.VenueSummary(
        venue=venue_message(summary.venue),
        version=summary.version,
        seat_count=summary.seat_count,
        categories=summary.categories,
    )


def invariant_message(invariant: Invariant) -> invariant_pb2.Invariant:
    return invariant_pb2.Invariant(
        name=invariant.name,
        description=invariant.description,
        violations=invariant.violations,
        examples=invariant.examples,
    )


def venue_of(venue: pb2.Venue) -> Venue:
    """`venue_id` is not read: a venue is known by its name here."""
    return Venue(0, venue.name, venue.city, venue.country_code, venue.time_zone)


def filter_of(request: pb2.ListEventsRequest) -> EventFilter:
    return EventFilter(
        words=optional("q", request.q, LONGEST_NAME) or None,
        city=optional("city", request.city, LONGEST_NAME) or None,
        date_from=day_of("date_from", request.date_from),
        date_to=day_of("date_to", request.date_to),
    )


def draft_of(request: pb2.CreateEventRequest) -> EventDraft:
    rules = request.rules
    return EventDraft(
        request_id=request.request_id,
        name=request.name,
        performer=request.performer,
        description=request.description,
        venue_id=venue_key(request.venue_id),
        start_time=_time(request, "start_time"),
        sale_start_time=_time(request, "sale_start_time"),
        sale_end_time=_time(request, "sale_end_time"),
        prices=[_price(price) for price in request.prices],
        tickets_per_account=rules.tickets_per_account,
        hold_seconds=rules.hold_seconds,
        line=rules.line,
        line_capacity=rules.line_capacity,
    )


def _price(price: pb2.CategoryPrice) -> Price:
    return Price(
        price.category,
        price.price.currency_code,
        price.price.amount_minor,
        price.fee.currency_code,
        price.fee.amount_minor,
    )


def _time(request: pb2.CreateEventRequest, field: str) -> datetime | None:
    if not request.HasField(field):  # type: ignore[arg-type]
        return None
    value: Timestamp = getattr(request, field)
    try:
        return value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(f"{field} is beyond what a calendar has.", field=field) from None
