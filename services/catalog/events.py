"""Events: written once, found by anybody once they are published."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from opentelemetry import trace

from chassis.errors import InvalidArgument
from chassis.ids import random_number
from services.catalog.errors import EventNotFound, TierMissing, VenueNotFound
from services.catalog.rows import Event, EventFilter, NewEvent, PlanCategories, Position, Tier
from services.catalog.store.events import EventStore
from services.catalog.store.venues import VenueStore
from services.catalog.texts import LONGEST_DESCRIPTION, optional, required

LONGEST_REQUEST_ID = 100
DEFAULT_TICKETS_PER_ACCOUNT, MOST_TICKETS_PER_ACCOUNT = 8, 50  # 50 seats are the most of one hold
DEFAULT_HOLD_SECONDS, LONGEST_HOLD_SECONDS = 600, 3_600
DEFAULT_LINE_CAPACITY, LARGEST_LINE_CAPACITY = 200, 1_000_000
LARGEST_AMOUNT = 1_000_000_000_000  # minor units: a seat for ten billion is a typing error in any currency
CURRENCY_CODE = re.compile("[A-Z]{3}")

BEGINNING = Position(datetime(1, 1, 2, tzinfo=UTC), 0)

tracer = trace.get_tracer("rowlock")


@dataclass(frozen=True, slots=True)
class Price:
    """What a category costs at an event. An empty fee currency means no fee."""

    category: str
    currency_code: str
    amount_minor: int
    fee_currency_code: str
    fee_minor: int


@dataclass(frozen=True, slots=True)
class EventDraft:
    """What an organiser asks for. Numbers that are 0 stand for the default, a missing sale end for the start."""

    request_id: str
    name: str
    performer: str
    description: str
    venue_id: int
    start_time: datetime | None
    sale_start_time: datetime | None
    sale_end_time: datetime | None
    prices: Sequence[Price]
    tickets_per_account: int
    hold_seconds: int
    line: bool
    line_capacity: int


async def create_event(draft: EventDraft, *, events: EventStore, venues: VenueStore, shards: Sequence[str]) -> Event:
    """Writes the event with a shard for ever; the request heard before returns its event, whatever else it says now.

    Refuses with VENUE_NOT_FOUND, TIER_MISSING, INVALID_ARGUMENT.
    """
    with tracer.start_as_current_span("catalog.create_event"):
        request_id = required("request_id", draft.request_id, LONGEST_REQUEST_ID)
        known = await events.get_event_by_request(request_id)
        if known:
            return known
        plan = await venues.get_newest_plan(draft.venue_id)
        if plan is None:
            raise VenueNotFound
        shard = least_used(shards, await events.count_events_by_shard())
        return await events.add_event(_new_event(draft, request_id, plan, shard))


async def get_event(events: EventStore, key: tuple[str, int]) -> Event:
    """A published event. Refuses with EVENT_NOT_FOUND."""
    event = await events.get_event(*key)
    if event is None or event.published_time is None:
        raise EventNotFound
    return event


async def list_events(
    events: EventStore, conditions: EventFilter, after: Position | None, page_size: int
) -> tuple[list[Event], Position | None]:
    """A page of published events, soonest first, and where the next one begins, if there is one."""
    with tracer.start_as_current_span("catalog.list_events"):
        found = await events.list_events(conditions, after or BEGINNING, page_size + 1)
        page = found[:page_size]
        more = len(found) > page_size
        return page, Position(page[-1].start_time, page[-1].event_id) if more else None


def least_used(shards: Sequence[str], events: Mapping[str, int]) -> str:
    """The shard with the fewest events; the first of equals, so that a fresh catalog goes round them in order."""
    return min(shards, key=lambda shard: events.get(shard, 0))


def _new_event(draft: EventDraft, request_id: str, plan: PlanCategories, shard: str) -> NewEvent:
    start, sale_start, sale_end = _times(draft)
    currency, tiers = _tiers(draft.prices, plan)
    return NewEvent(
        event_id=random_number(),
        shard=shard,
        request_id=request_id,
        name=required("name", draft.name),
        performer=required("performer", draft.performer),
        description=optional("description", draft.description, LONGEST_DESCRIPTION),
        plan_id=plan.plan_id,
        start_time=start,
        sale_start_time=sale_start,
        sale_end_time=sale_end,
        currency_code=currency,
        tickets_per_account=_within(
            "tickets_per_account", draft.tickets_per_account or DEFAULT_TICKETS_PER_ACCOUNT, MOST_TICKETS_PER_ACCOUNT
        ),
        hold_seconds=_within("hold_seconds", draft.hold_seconds or DEFAULT_HOLD_SECONDS, LONGEST_HOLD_SECONDS),
        line=draft.line,
        line_capacity=_within("line_capacity", draft.line_capacity or DEFAULT_LINE_CAPACITY, LARGEST_LINE_CAPACITY),
        tiers=tiers,
    )


def _times(draft: EventDraft) -> tuple[datetime, datetime, datetime]:
    if draft.start_time is None or draft.sale_start_time is None:
        raise InvalidArgument("start_time and sale_start_time must both be given.")
    sale_end = draft.sale_end_time or draft.start_time
    if not draft.sale_start_time < draft.start_time:
        raise InvalidArgument("The sale must start before the event does.", field="sale_start_time")
    if not draft.sale_start_time < sale_end:
        raise InvalidArgument("The sale must end after it starts.", field="sale_end_time")
    return draft.start_time, draft.sale_start_time, sale_end


def _tiers(prices: Sequence[Price], plan: PlanCategories) -> tuple[str, tuple[Tier, ...]]:
    by_category = {price.category: price for price in prices}
    if len(by_category) < len(prices):
        raise InvalidArgument("A category has two prices.", field="prices")
    unknown = by_category.keys() - set(plan.categories)
    if unknown:
        raise InvalidArgument(f"The plan has no category {', '.join(sorted(unknown))}.", field="prices")
    missing = [category for category in plan.categories if category not in by_category]
    if missing:
        raise TierMissing(missing)
    currencies = {price.currency_code for price in prices} | {price.fee_currency_code for price in prices} - {""}
    if len(currencies) != 1 or not all(CURRENCY_CODE.fullmatch(currency) for currency in currencies):
        raise InvalidArgument("Prices and fees are in one currency, three capital letters like EUR.", field="prices")
    tiers = []
    for number, (category, color) in enumerate(zip(plan.categories, plan.colors, strict=True), 1):
        price = by_category[category]
        amount = _within("prices.price", price.amount_minor, LARGEST_AMOUNT, least=0)
        fee = _within("prices.fee", price.fee_minor, LARGEST_AMOUNT, least=0)
        tiers.append(Tier(number, category, amount, fee, color))
    return currencies.pop(), tuple(tiers)


def _within(field: str, number: int, most: int, least: int = 1) -> int:
    if not least <= number <= most:
        raise InvalidArgument(f"{field} is {least:,} to {most:,}.", field=field)
    return number
