"""Between the contract's messages and catalog's rows."""

from dataclasses import asdict
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.catalog.v1 import catalog_pb2 as pb2
from rowlock.money.v1 import money_pb2

from chassis.errors import InvalidArgument
from services.catalog.events import EventDraft
from services.catalog.ids import event_text, venue_key, venue_text
from services.catalog.paging import day_of
from services.catalog.peers import timestamp
from services.catalog.prices import Amount, AreaDraft, Price
from services.catalog.rows import (
    Area,
    Event,
    EventFilter,
    Plan,
    SaleRules,
    SeatRow,
    Tier,
    Venue,
    VenueSummary,
)
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
        line=event.rules.line,
        description=event.description,
        areas=[_area(area) for area in event.areas],
        rules=pb2.SaleRules(**asdict(event.rules)),
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


def _area(area: Area) -> pb2.Area:
    return pb2.Area(area_id=area.area_id, name=area.name, capacity=area.capacity, tier=area.tier)


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
    lists = zip(row.numbers, row.xs, row.ys, row.categories, row.accessible, row.companion, strict=True)
    seats = [
        pb2.Seat(seat_id=seat_id, number=number, x=x, y=y, tier=tier, accessible=accessible, companion=companion)
        for seat_id, (number, x, y, tier, accessible, companion) in enumerate(lists, row.first_seat_id)
    ]
    return pb2.Row(row=row.row_name, seats=seats)


def summary_message(summary: VenueSummary) -> pb2.VenueSummary:
    return pb2.VenueSummary(
        venue=venue_message(summary.venue),
        version=summary.version,
        seat_count=summary.seat_count,
        categories=summary.categories,
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
    """Rules as asked for: what is 0 has no default yet."""
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
        areas=[AreaDraft(area.name, area.capacity, _amount(area)) for area in request.areas],
        rules=SaleRules(
            tickets_per_account=rules.tickets_per_account,
            hold_seconds=rules.hold_seconds,
            onsale_hold_seconds=rules.onsale_hold_seconds,
            onsale_window_seconds=rules.onsale_window_seconds,
            best_available_only=rules.best_available_only,
            holds_per_account=rules.holds_per_account,
            no_resale=rules.no_resale,
            cancel_seconds=rules.cancel_seconds,
            line=rules.line,
            line_capacity=rules.line_capacity,
        ),
    )


def _price(price: pb2.CategoryPrice) -> Price:
    return Price(price.category, _amount(price))


def _amount(priced: pb2.CategoryPrice | pb2.NewArea) -> Amount:
    return Amount(
        priced.price.currency_code, priced.price.amount_minor, priced.fee.currency_code, priced.fee.amount_minor
    )


def _time(request: pb2.CreateEventRequest, field: str) -> datetime | None:
    if not request.HasField(field):  # type: ignore[arg-type]
        return None
    value: Timestamp = getattr(request, field)
    try:
        return value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(f"{field} is beyond what a calendar has.", field=field) from None
