"""What an event offers, kept in memory: a hold's answer names and prices its seats without asking the database again.

An offer never changes: a change is a new version. `hold_seats` tells the version by which it judged and priced, so an
old offer is noticed with the first hold by the new one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from prometheus_client import Counter

from services.booking.rows import Offer

MOST_SEATS = 2_000_000  # over all offers: at some 40 bytes a seat, 80 MB

MISSES = Counter("booking_offer_misses_total", "Offers that were not in memory")

Key = tuple[str, int]  # shard and event


class Offers:
    """The least recently used go first. `load` reads one; callers that want the same one at once wait for one to do
    it."""

    def __init__(self, load: Callable[[str, int], Awaitable[Offer | None]], most_seats: int = MOST_SEATS) -> None:
        self.load, self.most_seats = load, most_seats
        self.offers: OrderedDict[Key, Offer] = OrderedDict()
        self.loading: dict[Key, asyncio.Task[Offer | None]] = {}

    async def get(self, shard: str, event: int, *, version: int = 0) -> Offer | None:
        """The newest offer known, if it is of `version` or later, else as it is stored now. None: no such event."""
        key = (shard, event)
        offer = self.offers.get(key)
        if offer is not None and offer.version >= version:
            self.offers.move_to_end(key)
            return offer
        MISSES.inc()
        if key in self.loading:  # it may have begun before the version was there
            offer = await asyncio.shield(self.loading[key])
            if offer is not None and offer.version >= version:
                return offer
        if key not in self.loading:
            self.loading[key] = asyncio.create_task(self._load(key))
        return await asyncio.shield(self.loading[key])  # one caller that leaves does not end it for the others

    def notice(self, shard: str, event: int, version: int) -> None:
        """Forgets an offer that is older: a call has just judged by another."""
        offer = self.offers.get((shard, event))
        if offer is not None and offer.version < version:
            del self.offers[shard, event]

    async def _load(self, key: Key) -> Offer | None:
        try:
            offer = await self.load(*key)
        finally:
            del self.loading[key]
        if offer is not None:
            self.offers[key] = offer
            self.offers.move_to_end(key)
        while len(self.offers) > 1 and sum(len(kept.seats) for kept in self.offers.values()) > self.most_seats:
            self.offers.popitem(last=False)
        return offer
