"""The shards that this process follows, found by an event's public id."""

from collections.abc import Mapping

from chassis.ids import parse_id
from services.seatfeed.errors import EventNotFound
from services.seatfeed.follow import Follower
from services.seatfeed.rows import Snapshot, Update
from services.seatfeed.views import Subscriber, View


class Feeds:
    """What servers call."""

    def __init__(self, followers: Mapping[str, Follower]) -> None:
        self.followers = followers

    async def get_seats(self, event_id: str, section: str) -> Snapshot:
        """The same object for all callers until the next tick."""
        follower, event = self._find(event_id)
        return (await follower.view(event)).snapshot(section)

    async def subscribe(
        self, event_id: str, section: str, subscriber: Subscriber, last_seen: str = ""
    ) -> tuple[View, Update | None]:
        """Where to unsubscribe, and what the subscriber is told first."""
        follower, event = self._find(event_id)
        return await follower.subscribe(event, section, subscriber, last_seen)

    def _find(self, event_id: str) -> tuple[Follower, int]:
        parsed = parse_id("evt", event_id)
        if parsed is None or parsed[0] not in self.followers:
            raise EventNotFound
        return self.followers[parsed[0]], parsed[1]
