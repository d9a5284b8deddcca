"""Events: written once, found by anybody once they are published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from chassis.errors import InvalidArgument
from chassis.ids import random_number
from chassis.telemetry import span
from services.catalog.errors import EventNotFound, VenueNotFound
from services.catalog.prices import AreaDraft, Price, price_event
from services.catalog.rows import Event, EventFilter, NewEvent, PlanCategories, Position, SaleRules
from services.catalog.sale_rules import complete_rules, require_time_to_cancel
from services.catalog.store.events import EventStore
from services.catalog.store.venues import VenueStore
from services.catalog.texts import LONGEST_DESCRIPTION, optional, required

LONGEST_REQUEST_ID = 100

BEGINNING = Position(datetime(1, 1, 2, tzinfo=UTC), 0)


@dataclass(frozen=True, slots=True)
class EventDraft:
    """What an organiser asks for. A missing sale end stands for the start."""

    request_id: str
    name: str
    performer: str
    description: str
    venue_id: int
    start_time: datetime | None
    sale_start_time: datetime | None
    sale_end_time: datetime | None
    prices: Sequence[Price]
    areas: Sequence[AreaDraft]
    rules: SaleRules


async def create_event(draft: EventDraft, *, events: EventStore, venues: VenueStore, shards: Sequence[str]) -> Event:
    """Writes the event with a shard for ever; the request heard before returns its event, whatever else it says now.

    Refuses with VENUE_NOT_FOUND, TIER_MISSING, INVALID_ARGUMENT.
    """
    with span("catalog.create_event"):
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
    with span("catalog.list_events"):
        found = await events.list_events(conditions, after or BEGINNING, page_size + 1)
        page = found[:page_size]
        more = len(found) > page_size
        return page, Position(page[-1].start_time, page[-1].event_id) if more else None


def least_used(shards: Sequence[str], events: Mapping[str, int]) -> str:
    """The shard with the fewest events; the first of equals, so that a fresh catalog goes round them in order."""
    return min(shards, key=lambda shard: events.get(shard, 0))


def _new_event(draft: EventDraft, request_id: str, plan: PlanCategories, shard: str) -> NewEvent:
    start, sale_start, sale_end = _times(draft)
    priced, rules = price_event(draft.prices, draft.areas, plan), complete_rules(draft.rules)
    require_time_to_cancel(rules, start, sale_start)
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
        currency_code=priced.currency_code,
        rules=rules,
        tiers=priced.tiers,
        areas=priced.areas,
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
