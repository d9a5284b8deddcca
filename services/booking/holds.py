"""Holds: seats kept for an account for a limited time, all of them or none."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from prometheus_client import Counter

from chassis.errors import Contended, InvalidArgument, Refusal
from chassis.telemetry import span
from services.booking.errors import (
    EventNotFound,
    HoldBudgetSpent,
    HoldNotFound,
    IdempotencyKeyReused,
    NotOnSale,
    PlanChanged,
    SeatNotFound,
    SeatUnavailable,
    SelectionClosed,
    TooManyTickets,
)
from services.booking.gather import Gatherer
from services.booking.offers import Offers
from services.booking.requests import check_account, check_key
from services.booking.requests import fingerprint as fingerprint_of
from services.booking.rows import Hold, HoldRequest, HoldVerdict, Offer
from services.booking.sales import Sales
from services.booking.store import holds as store
from services.booking.store.shards import Shard, Shards

MOST_SEATS = 50  # of one hold: far over any cap, and small enough to lock in a millisecond

VERDICTS = (
    *("HELD", "REPLAY", "REUSED", "NO_EVENT", "NOT_ON_SALE", "SELECTION_CLOSED", "CAP", "BUDGET", "OLD_PLAN"),
    *("NO_SEAT", "LOST"),
)
HOLDS_TOTAL = Counter("booking_hold_seats_total", "Requests for a hold", ["verdict"])
HOLDS = {word: HOLDS_TOTAL.labels(word) for word in VERDICTS}
RELEASES = Counter("booking_release_hold_total", "Requests to release a hold", ["state"])


class Holds:
    """What an account does with its holds."""

    def __init__(self, *, shards: Shards, sales: Sales, grace: timedelta) -> None:
        self.shards, self.sales, self.grace = shards, sales, grace
        self.offers = Offers(lambda shard, event: store.get_offer(shards[shard], event))
        self.gatherers = {name: _gatherer(store.HoldCalls(shard, grace=grace)) for name, shard in shards.items()}

    async def pick_seats(self, *, account: str, event_id: str, seat_ids: Iterable[int], key: str) -> Hold:
        """`hold_seats` for a buyer who picked them. Refused where the house chooses, by the event as it is then: what
        is in memory may be older."""
        shard, event = self._check(account, event_id, key)
        offer = await self.offers.get(shard.name, event)
        if offer is None:
            raise EventNotFound()
        return await self._ask(shard, event_id, _request(account, event, key, seat_ids), offer)

    async def hold_seats(
        self, *, account: str, event_id: str, seat_ids: Iterable[int], key: str, fingerprint: bytes, plan: int
    ) -> Hold:
        """The hold, new or replayed; a refusal of booking's errors otherwise, and then nothing is held.

        `fingerprint`: of what the caller asked for, which is not these seats. `plan`: the version by which they were
        chosen; PlanChanged when it is the event's no longer.
        """
        shard, event = self._check(account, event_id, key)
        return await self._ask(shard, event_id, _request(account, event, key, seat_ids, fingerprint, plan))

    async def _ask(self, shard: Shard, event_id: str, request: HoldRequest, offer: Offer | None = None) -> Hold:
        verdict = await self.gatherers[shard.name].ask(request)
        HOLDS[verdict.word].inc()
        self.offers.notice(shard.name, request.event, verdict.version)
        if verdict.word == "HELD":
            self.sales.committed(event_id)
        elif verdict.word == "LOST":
            self.sales.conflicted(event_id)
        return await self._answer(shard, request, verdict, offer)

    async def get_hold(self, *, account: str, hold_id: str) -> Hold:
        """The hold as it is now. Refuses what is not the account's as if it did not exist."""
        return await self._read(*self._locate(hold_id), account)

    async def release_hold(self, *, account: str, hold_id: str) -> Hold:
        """Gives an active hold back; one that has ended stays as it ended."""
        shard, hold = self._locate(hold_id)
        with span("booking.release_hold"):
            state = await store.release_hold(shard, hold, account)
        if state is None:
            raise HoldNotFound()
        RELEASES.labels(state).inc()
        return await self._read(shard, hold, account)

    async def close(self) -> None:
        """When no call comes any more; those under way end first."""
        for gatherer in self.gatherers.values():
            await gatherer.close()

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

    def _check(self, account: str, event_id: str, key: str) -> tuple[Shard, int]:
        located = self._locate_event(event_id)
        check_account(account)
        check_key(key)
        return located

    def _locate_event(self, event_id: str) -> tuple[Shard, int]:
        located = self.shards.locate_event(event_id)
        if located is None:
            raise EventNotFound()
        return located

    async def _answer(self, shard: Shard, request: HoldRequest, verdict: HoldVerdict, offer: Offer | None) -> Hold:
        if verdict.word == "REPLAY" and verdict.hold:
            return await self._read(shard, verdict.hold, request.account)
        if verdict.word != "HELD" or verdict.hold is None or verdict.expires_at is None:
            raise await self._refusal(shard, request.event, verdict)
        if offer is None or offer.version != verdict.version:
            offer = await self.offers.get(shard.name, request.event, version=verdict.version)
        if offer is None or offer.version != verdict.version:  # a later version, and other prices
            return await self._read(shard, verdict.hold, request.account)
        return _new_hold(shard.name, request, verdict.hold, verdict.expires_at, offer)

    async def _refusal(self, shard: Shard, event: int, verdict: HoldVerdict) -> Refusal:
        if verdict.word == "LOST":
            return SeatUnavailable(verdict.lost_seats)
        if verdict.word == "NO_SEAT":
            return SeatNotFound(verdict.lost_seats)
        if verdict.word == "REUSED":
            return IdempotencyKeyReused()
        if verdict.word == "SELECTION_CLOSED":
            return SelectionClosed()
        if verdict.word == "OLD_PLAN":
            return PlanChanged()
        if verdict.word == "BUDGET" and verdict.retry_time:
            return HoldBudgetSpent(verdict.retry_time)
        offer = await self.offers.get(shard.name, event, version=verdict.version)
        if offer is None:
            return EventNotFound()
        if verdict.word == "CAP":
            return TooManyTickets(offer.sale.tickets_per_account, verdict.used)
        if verdict.word == "NOT_ON_SALE":
            return NotOnSale(offer.sale.start, offer.sale.end)
        return Contended("Others were in the way and nothing was decided; try again.")


def _request(
    account: str, event: int, key: str, seat_ids: Iterable[int], fingerprint: bytes = b"", plan: int = 0
) -> HoldRequest:
    """Refuses what no event can have."""
    seats = tuple(sorted(set(seat_ids)))
    if not 1 <= len(seats) <= MOST_SEATS:
        raise InvalidArgument(f"A hold is of 1 to {MOST_SEATS} seats.")
    if seats[0] < 1:
        raise SeatNotFound(seat for seat in seats if seat < 1)
    return HoldRequest(account, event, key, fingerprint or fingerprint_of(seats), seats, plan)


def _gatherer(calls: store.HoldCalls) -> Gatherer[HoldRequest, HoldVerdict]:
    """No two holds of a call share an account at an event (and so a key), or a seat."""

    def touched(request: HoldRequest) -> list[tuple[int, int | str]]:
        event = request.event
        return [(event, request.account), *[(event, seat) for seat in request.seats]]

    return Gatherer("hold_seats", calls.together, calls.alone(), touched)


def _new_hold(shard: str, request: HoldRequest, hold: UUID, expires_at: datetime, offer: Offer) -> Hold:
    seats, fees = offer.price(request.seats)
    total = sum(seat.price for seat in seats) + fees
    return Hold(shard, hold, request.event, "ACTIVE", expires_at, seats, offer.currency, total, fees)
