"""Holds of the best seats that are left: a picture proposes, the guarded statement decides, a lost race tries again."""

import asyncio
from binascii import crc32
from contextlib import suppress
from weakref import WeakValueDictionary

from prometheus_client import Counter

from chassis.errors import Contended, InvalidArgument, Refusal, Unavailable
from chassis.telemetry import span
from services.booking.best_available import Party, candidates, largest
from services.booking.errors import (
    EventNotFound,
    IdempotencyKeyReused,
    NoBlock,
    PlanChanged,
    SeatUnavailable,
    SectionNotFound,
    SoldOut,
    TemporarilyUnavailable,
    TierNotFound,
    TooManyTickets,
)
from services.booking.holds import MOST_SEATS, Holds
from services.booking.picture import Look, Picture, Watch, Watches
from services.booking.requests import check_account, check_key, fingerprint
from services.booking.rows import Ask, Hold
from services.booking.steps import Steps, Turns
from services.booking.store import picture as store
from services.booking.store.shards import Shard

MOST_RACES = 12  # lost by one call before it gives up: each is a hold that others made, so the sale goes on meanwhile
RACES_PER_PICTURE = 3  # after so many lost races the picture is too old to go by
MOST_LOOKS = 4  # at a picture that has nothing, while seats are in the hands of other calls of this process
MOST_SPREAD = 64  # candidates among which a crowd is spread; finding more would cost more than the races it saved

RACES = Counter("booking_best_available_lost_total", "Candidates that somebody else was faster with")
ASKED = Counter("booking_hold_best_available_total", "Requests for the best available seats", ["result"])


class _OverCap(TooManyTickets):
    """Found before `hold_seats`, which looks for a replay first, was asked."""


class BestSeats:
    """`spread`: the most candidates among which buyers at the same event are spread; 1 gives everybody the best."""

    def __init__(self, *, holds: Holds, spread: int = MOST_SPREAD) -> None:
        self.holds, self.spread = holds, spread
        self.watches = Watches()
        self.long_work = Turns()
        self.turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def hold(self, *, account: str, event_id: str, ask: Ask, key: str) -> Hold:
        """The hold, new or replayed; a refusal of booking's errors otherwise, and then nothing is held."""
        check_account(account)
        check_key(key)
        if not 1 <= ask.quantity <= MOST_SEATS or not 0 <= ask.accessible <= ask.quantity:
            raise InvalidArgument(f"A party is of 1 to {MOST_SEATS}, and no more of them need an accessible seat.")
        located = self.holds.shards.locate_event(event_id)
        if located is None:
            raise EventNotFound()
        call = _Call(self.holds, account, event_id, ask, key)
        watch = self._watch(*located)
        # An account's calls take turns, as they do in the database: no account has more than one party's seats in hand
        # here, and a request that is sent twice at once is a replay.
        turn = self.turns.setdefault((event_id, account), asyncio.Lock())
        with span("booking.hold_best_available"):
            watch.calls += 1
            try:
                async with turn:
                    await call.check_cap(*located)
                    hold = await self._hold(watch, call)
            except (_OverCap, NoBlock, SoldOut, TemporarilyUnavailable, SectionNotFound, TierNotFound) as refusal:
                hold = await call.replay(*located, refusal)
            except Refusal as refusal:
                if watch.picture is None:
                    self.watches.forget((located[0].name, located[1]))
                ASKED.labels(refusal.reason).inc()
                raise
            finally:
                watch.calls -= 1
        ASKED.labels("HELD").inc()
        return hold

    async def _hold(self, watch: Watch, call: "_Call") -> Hold:
        """The function finds a replay by its key before it looks at seats, so a key is not looked up beforehand."""
        began, looks, races = asyncio.get_running_loop().time(), 0, 0
        picture = await watch.get()
        while races < MOST_RACES:
            look, party = await self._choose(watch, picture, call, races)
            if party:
                races += 1
                with suppress(PlanChanged):  # then by a newer picture
                    hold = await call.try_party(picture, party)
                    if hold:
                        return hold
                    watch.raced()
                    if races % RACES_PER_PICTURE:
                        continue
            elif look.began >= began and (looks >= MOST_LOOKS or not look.in_hand):
                raise await self._why_not(picture, look, call.ask)
            else:
                looks += 1
            picture = await watch.get_since(asyncio.get_running_loop().time() if party or looks > 1 else began)
        raise Contended("Others were faster each time; try again.")

    async def _choose(self, watch: Watch, picture: Picture, call: "_Call", races: int) -> tuple[Look, Party]:
        """The best for a lone buyer. In a crowd one of the best, chosen by the account: what other processes have in
        hand is not known here, and everybody would run for the same seats.

        The party is free when this returns, though others of this process choose while it is looked for."""
        plan, ask = picture.plan, call.ask
        if ask.section and ask.section not in plan.sections:
            raise SectionNotFound()
        if ask.tier is not None and ask.tier not in plan.tiers:
            raise TierNotFound()
        most = min(self.spread, watch.crowd())
        for _ in range(MOST_RACES):
            look, found = await self.long_work.run(lambda: _look(picture, ask, most))
            party = found[crc32(f"{call.account}:{races}".encode()) % len(found)] if found else ()
            if picture.has(party):
                return look, party
        raise Contended("Others of this process were faster each time; try again.")

    async def _why_not(self, picture: Picture, look: Look, ask: Ask) -> Refusal:
        """Three things that a buyer answers differently: come as fewer, try again, give up."""
        free = await self.long_work.run(lambda: largest(picture.plan, look.free, ask))
        if free:
            return NoBlock(free)
        waiting = await self.long_work.run(lambda: largest(picture.plan, picture.unsold(), ask))
        return TemporarilyUnavailable() if waiting else SoldOut()

    def _watch(self, shard: Shard, event: int) -> Watch:
        return self.watches.get(
            (shard.name, event),
            lambda: Watch(lambda: store.get_placed_seats(shard, event), lambda: store.get_states(shard, event)),
        )


class _Call:
    """One request."""

    def __init__(self, holds: Holds, account: str, event_id: str, ask: Ask, key: str) -> None:
        self.holds, self.account, self.event_id, self.ask, self.key = holds, account, event_id, ask, key
        self.fingerprint = fingerprint("best_available", ask)

    async def check_cap(self, shard: Shard, event: int) -> None:
        """A party over the event's cap is refused before anybody looks for its seats: that would cost the process, and
        the caller nothing. The offer in memory says that it may be so, the database whether it is."""
        offer = await self.holds.offers.get(shard.name, event)
        if offer is None or self.ask.quantity <= offer.sale.tickets_per_account:
            return
        cap = await store.get_cap(shard, event, self.account, self.holds.grace)
        if cap and cap[0] < self.ask.quantity:
            raise _OverCap(*cap)

    async def try_party(self, picture: Picture, party: Party) -> Hold | None:
        """None when somebody was faster. Whatever else comes of it, the picture knows. Raises PlanChanged when that is
        of an older version."""
        seats = [seat for block in party for seat in block.seats(picture.plan)]
        gone: tuple[int, ...] | list[int] = seats  # until it is known to be otherwise
        picture.take(party)
        try:
            hold = await self.holds.hold_seats(
                account=self.account,
                event_id=self.event_id,
                seat_ids=seats,
                key=self.key,
                fingerprint=self.fingerprint,
                plan=picture.plan.version,
            )
            gone = [seat.seat for seat in hold.seats if seat.seat in seats]  # none, when an older hold is replayed
            return hold
        except SeatUnavailable as lost:
            RACES.inc()
            gone = lost.lost_seats
            return None
        except Unavailable:
            raise
        except Refusal:
            gone = ()
            raise
        finally:
            picture.mark(gone)
            picture.give_back(party)

    async def replay(self, shard: Shard, event: int, refusal: Refusal) -> Hold:
        """A refusal, unless the key has made a hold before: then that. The same key for something else is refused."""
        found = await store.get_replay(shard, event, self.account, self.key)
        if found is None:
            ASKED.labels(refusal.reason).inc()
            raise refusal
        hold, content = found
        if content != self.fingerprint:
            raise IdempotencyKeyReused()
        return await self.holds.get_hold(account=self.account, hold_id=shard.id_of("hld", hold))


def _look(picture: Picture, ask: Ask, most: int) -> Steps[tuple[Look, list[Party]]]:
    look = picture.look()
    return look, (yield from candidates(picture.plan, look.free, ask, most=most))
