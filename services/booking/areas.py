"""General admission: units of an area, held for a limited time like seats."""

from datetime import timedelta
from typing import NoReturn

from prometheus_client import Counter

from chassis.errors import InvalidArgument
from chassis.telemetry import span
from services.booking.errors import (
    AreaNotFound,
    EventNotFound,
    HoldBudgetSpent,
    HoldNotFound,
    IdempotencyKeyReused,
    NoBlock,
    NotOnSale,
    SoldOut,
    TemporarilyUnavailable,
    TooManyTickets,
)
from services.booking.requests import check_account, check_key, fingerprint
from services.booking.rows import AreaCounts, AreaVerdict, Hold
from services.booking.sales import Sales
from services.booking.store import areas as store
from services.booking.store.holds import get_hold
from services.booking.store.shards import Shard, Shards

MOST_UNITS = 50  # of one hold, as of seats

HOLDS = Counter("booking_hold_area_total", "Requests for units of an area", ["verdict"])


class Areas:
    """What an account does with areas. Its holds end like those of seats."""

    def __init__(self, *, shards: Shards, sales: Sales, grace: timedelta) -> None:
        self.shards, self.sales, self.grace = shards, sales, grace

    async def hold(self, *, account: str, event_id: str, area: int, quantity: int, key: str) -> Hold:
        """The hold, new or replayed; a refusal of booking's errors otherwise, and then nothing is held."""
        located = self.shards.locate_event(event_id)
        if located is None:
            raise EventNotFound()
        check_account(account)
        check_key(key)
        if not 1 <= quantity <= MOST_UNITS:
            raise InvalidArgument(f"A hold is of 1 to {MOST_UNITS} units.")
        shard, event = located
        with span("booking.hold_area"):
            verdict = await store.hold_area(
                shard,
                event=event,
                account=account,
                key=key,
                fingerprint=fingerprint("area", area, quantity),
                area=area,
                quantity=quantity,
                grace=self.grace,
            )
        HOLDS.labels(verdict.word).inc()
        self._tally(event_id, verdict.word)
        if verdict.word not in ("HELD", "REPLAY") or verdict.hold is None:
            await self._refuse(shard, event, verdict)
        hold = await get_hold(shard, verdict.hold, account)
        if hold is None:
            raise HoldNotFound()
        return hold

    async def count_areas(self, event_id: str) -> tuple[AreaCounts, ...]:
        """Units by what has them, at one moment."""
        located = self.shards.locate_event(event_id)
        if located is None:
            raise EventNotFound()
        return await store.count_areas(*located)

    def _tally(self, event_id: str, word: str) -> None:
        if word == "HELD":
            self.sales.committed(event_id)
        elif word in ("FEW", "ALL_HELD"):
            self.sales.conflicted(event_id)

    async def _refuse(self, shard: Shard, event: int, verdict: AreaVerdict) -> NoReturn:
        if verdict.word == "REUSED":
            raise IdempotencyKeyReused()
        if verdict.word == "NO_AREA":
            raise AreaNotFound()
        if verdict.word == "FEW":
            raise NoBlock(verdict.few)
        if verdict.word == "ALL_HELD":
            raise TemporarilyUnavailable()
        if verdict.word == "SOLD_OUT":
            raise SoldOut()
        if verdict.retry_time is not None:
            raise HoldBudgetSpent(verdict.retry_time)
        if verdict.word == "CAP":
            raise TooManyTickets(verdict.few, verdict.used)
        sale = await store.get_sale(shard, event)
        if sale is None:
            raise EventNotFound()
        raise NotOnSale(sale.start, sale.end)
