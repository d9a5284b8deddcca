"""Holds: seats kept for an account for a limited time, all of them or none."""

from collections.abc import Iterable
from datetime import timedelta
from typing import NoReturn
from uuid import UUID

from opentelemetry import trace
from prometheus_client import Counter

from chassis.errors import Contended, InvalidArgument
from services.booking.errors import (
    EventNotFound,
    HoldNotFound,
    IdempotencyKeyReused,
    NotOnSale,
    SeatNotFound,
    SeatUnavailable,
    TooManyTickets,
)
from services.booking.requests import check_account, check_key, fingerprint
from services.booking.rows import Hold, HoldRequest, HoldVerdict
from services.booking.sales import Sales
from services.booking.store import holds as store
from services.booking.store.shards import Shard, Shards

MOST_SEATS = 50  # of one hold: far over any cap, and small enough to lock in a millisecond

HOLDS = Counter("booking_hold_seats_total", "Requests for a hold", ["verdict"])
RELEASES = Counter("booking_release_hold_total", "Requests to release a hold", ["state"])

tracer = trace.get_tracer("rowlock")


class Holds:
    """What an account does with its holds."""

    def __init__(self, *, shards: Shards, sales: Sales, grace: timedelta) -> None:
        self.shards, self.sales, self.grace = shards, sales, grace

    async def hold_seats(self, *, account: str, event_id: str, seat_ids: Iterable[int], key: str) -> Hold:
        """The hold, new or replayed; a refusal of booking's errors otherwise, and then nothing is held."""
        shard, event = self._locate_event(event_id)
        seats = tuple(sorted(set(seat_ids)))
        check_account(account)
        check_key(key)
        if not 1 <= len(seats) <= MOST_SEATS:
            raise InvalidArgument(f"A hold is of 1 to {MOST_SEATS} seats.")
        if seats[0] < 1:
            raise SeatNotFound(seat for seat in seats if seat < 1)
        request = HoldRequest(account, event, key, fingerprint(seats), seats)
        with tracer.start_as_current_span("booking.hold_seats"):
            (verdict,) = await store.hold_seats(shard, [request], grace=self.grace, wait=True)
        HOLDS.labels(verdict.word).inc()
        self._tally(event_id, verdict)
        if verdict.hold is None:
            await self._refuse(shard, event, verdict)
        return await self._read(shard, verdict.hold, account)

    async def get_hold(self, *, account: str, hold_id: str) -> Hold:
        """The hold as it is now. Refuses what is not the account's as if it did not exist."""
        return await self._read(*self._locate(hold_id), account)

    async def release_hold(self, *, account: str, hold_id: str) -> Hold:
        """Gives an active hold back; one that has ended stays as it ended."""
        shard, hold = self._locate(hold_id)
        with tracer.start_as_current_span("booking.release_hold"):
            state = await store.release_hold(shard, hold, account)
        if state is None:
            raise HoldNotFound()
        RELEASES.labels(state).inc()
        return await self._read(shard, hold, account)

    async def _read(self, shard: Shard, hold_number: UUID, account: str) -> Hold:
        hold = await store.get_hold(shard, hold_number, account)
        if hold is None:
            raise HoldNotFound()
        return hold

    def _locate(self, hold_id: str) -> tuple[Shard, UUID]:
        located = self.shards.locate_uuid("hld", hold_id)
        if located is None:
            raise HoldNotFound()
        return located

    def _locate_event(self, event_id: str) -> tuple[Shard, int]:
        located = self.shards.locate_event(event_id)
        if located is None:
            raise EventNotFound()
        return located

    def _tally(self, event_id: str, verdict: HoldVerdict) -> None:
        if verdict.word == "HELD":
            self.sales.committed(event_id)
        elif verdict.word == "LOST":
            self.sales.conflicted(event_id)

    async def _refuse(self, shard: Shard, event: int, verdict: HoldVerdict) -> NoReturn:
        if verdict.word == "LOST":
            raise SeatUnavailable(verdict.lost_seats)
        if verdict.word == "NO_SEAT":
            raise SeatNotFound(verdict.lost_seats)
        if verdict.word == "REUSED":
            raise IdempotencyKeyReused()
        sale = await store.get_sale(shard, event)
        if sale is None:
            raise EventNotFound()
        if verdict.word == "CAP":
            raise TooManyTickets(sale.tickets_per_account, verdict.used)
        if verdict.word == "NOT_ON_SALE":
            raise NotOnSale(sale.start, sale.end)
        raise Contended("Others were in the way and nothing was decided; try again.")
