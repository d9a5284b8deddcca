"""Publishing: others are told first, then the event is shown. Nothing is open in the database while they are asked."""

from typing import Protocol

from chassis.telemetry import span
from services.catalog.errors import EventNotFound
from services.catalog.rows import Event, LinePolicy, Plan
from services.catalog.store.events import EventStore
from services.catalog.store.venues import VenueStore


class Peers(Protocol):
    """Who must know of an event before people do."""

    async def put_inventory(self, event: Event, plan: Plan) -> None:
        """Booking: seats, prices, sale rules."""

    async def put_line_policy(self, policy: LinePolicy) -> None:
        """Waitingroom: how the line is run."""


async def publish_event(key: tuple[str, int], *, events: EventStore, venues: VenueStore, peers: Peers) -> Event:
    """Hands the event over and shows it. Both peers take a version once, so a lost answer is mended by repeating all.

    Refuses with EVENT_NOT_FOUND; UNAVAILABLE or PEER_REFUSED from a peer, and then nothing is shown.
    """
    with span("catalog.publish_event"):
        event = await events.get_event(*key)
        if event is None:
            raise EventNotFound
        plan = await venues.get_plan(event.plan_id)
        await peers.put_inventory(event, plan)
        await peers.put_line_policy(event.line_policy)
        await events.publish_event(event.event_id)
        shown = await events.get_event(*key)
        assert shown is not None, "an event is never deleted"
        return shown
