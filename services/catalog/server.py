"""Catalog's servicers: the contract in, a rule, the contract out."""

import hashlib
from typing import Any

from rowlock.catalog.v1 import catalog_pb2 as pb2
from rowlock.catalog.v1 import catalog_pb2_grpc

from services.catalog import events, messages, publishing, venues
from services.catalog.ids import event_key, venue_text
from services.catalog.paging import format_token, page_size_of, parse_token
from services.catalog.plan_cache import PlanCache
from services.catalog.store.events import EventStore
from services.catalog.store.venues import VenueStore

LIST_CACHE = "public, max-age=5, s-maxage=15, stale-while-revalidate=60"
EVENT_CACHE = "public, max-age=15, s-maxage=60, stale-while-revalidate=300"
PLAN_CACHE = "public, max-age=300, s-maxage=3600, stale-while-revalidate=86400"


class CachedPlan:
    """A plan as it is sent, and how much of the cache it takes."""

    def __init__(self, message: pb2.SeatPlan, seat_count: int) -> None:
        self.message, self.seat_count = message, seat_count


class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """What anybody may browse."""

    def __init__(self, *, events: EventStore, venues: VenueStore) -> None:
        self.events, self.venues = events, venues
        self.plans = PlanCache(self._build_plan)

    async def ListEvents(self, request: pb2.ListEventsRequest, context: Any) -> pb2.ListEventsResponse:
        page, following = await events.list_events(
            self.events,
            messages.filter_of(request),
            parse_token(request.page_token),
            page_size_of(request.page_size),
        )
        response = pb2.ListEventsResponse(
            events=[messages.event_message(event) for event in page],
            next_page_token=format_token(following) if following else "",
        )
        await _cacheable(context, LIST_CACHE, response.SerializeToString(deterministic=True))
        return response

    async def GetEvent(self, request: pb2.GetEventRequest, context: Any) -> pb2.GetEventResponse:
        event = await events.get_event(self.events, event_key(request.event_id))
        response = pb2.GetEventResponse(event=messages.event_message(event))
        await _cacheable(context, EVENT_CACHE, response.SerializeToString(deterministic=True))
        return response

    async def GetEventPlan(self, request: pb2.GetEventPlanRequest, context: Any) -> pb2.GetEventPlanResponse:
        event = await events.get_event(self.events, event_key(request.event_id))
        plan = await self.plans.get(event.plan_id)
        version = f"{venue_text(event.venue.venue_id)}.{event.plan_version}"
        await _cacheable(context, PLAN_CACHE, f"{request.event_id} {event.version} {version}".encode())
        return pb2.GetEventPlanResponse(plan_version=version, plan=plan.message, tiers=messages.tier_messages(event))

    async def _build_plan(self, plan_id: int) -> CachedPlan:
        plan = await self.venues.get_plan(plan_id)
        return CachedPlan(messages.plan_message(plan), plan.seat_count)


class CatalogAdminServicer(catalog_pb2_grpc.CatalogAdminServiceServicer):
    """What organisers do."""

    def __init__(
        self,
        *,
        events: EventStore,
        venues: VenueStore,
        peers: publishing.Peers,
        shards: tuple[str, ...],
    ) -> None:
        self.events, self.venues, self.peers, self.shards = events, venues, peers, shards

    async def ImportVenue(self, request: pb2.ImportVenueRequest, context: Any) -> pb2.ImportVenueResponse:
        done = await venues.import_venue(
            self.venues, messages.venue_of(request.venue), request.pretix_plan, repair=request.repair
        )
        return pb2.ImportVenueResponse(
            venue_id=venue_text(done.venue_id),
            version=done.version,
            seat_count=done.seat_count,
            categories=done.categories,
            repairs=done.repairs,
        )

    async def ListVenues(self, request: pb2.ListVenuesRequest, context: Any) -> pb2.ListVenuesResponse:
        summaries = await venues.list_venues(self.venues)
        return pb2.ListVenuesResponse(venues=[messages.summary_message(summary) for summary in summaries])

    async def CreateEvent(self, request: pb2.CreateEventRequest, context: Any) -> pb2.CreateEventResponse:
        event = await events.create_event(
            messages.draft_of(request), events=self.events, venues=self.venues, shards=self.shards
        )
        return pb2.CreateEventResponse(event=messages.event_message(event))

    async def PublishEvent(self, request: pb2.PublishEventRequest, context: Any) -> pb2.PublishEventResponse:
        event = await publishing.publish_event(
            event_key(request.event_id), events=self.events, venues=self.venues, peers=self.peers
        )
        return pb2.PublishEventResponse(event=messages.event_message(event))


async def _cacheable(context: Any, policy: str, content: bytes) -> None:
    """Headers of the HTTP answer. The tag is weak: the gateway writes the JSON, so bytes may differ."""
    tag = hashlib.sha256(content).hexdigest()[:32]
    await context.send_initial_metadata((("cache-control", policy), ("etag", f'W/"{tag}"')))
