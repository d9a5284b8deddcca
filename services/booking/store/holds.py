"""Holds."""

from array import array
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from chassis.postgres import KeptConnection, with_retries
from chassis.queries import load_queries
from services.booking.rows import HeldArea, Hold, HoldRequest, HoldVerdict, Offer, Overdue, PricedSeat, Sale
from services.booking.store.shards import Shard

RERUN_CONNECTIONS = 2  # a wait for a lock is short and rare; more connections only cost

queries = load_queries(Path(__file__).parent / "holds.sql")


async def hold_seats(
    shard: Shard, requests: Sequence[HoldRequest], *, grace: timedelta, wait: bool
) -> list[HoldVerdict]:
    """One call for 1 to 64 requests of which no two share a seat or an account; a verdict for each.

    `wait`: a request alone, which waits for locks. Otherwise one that meets a lock is BUSY and to be run again alone.
    """
    return await shard.write(lambda connection: _call_hold_seats(connection, requests, grace, wait))


class HoldCalls:
    """`hold_seats` on connections kept for it: one for calls of many requests that wait for no lock, and some for those
    of one that waits. Each is for one user at a time."""

    def __init__(self, shard: Shard, *, grace: timedelta) -> None:
        self.grace = grace
        self.batch = shard.keep_connection("holds")
        self.reruns = [shard.keep_connection("holds-again") for _ in range(RERUN_CONNECTIONS)]

    async def together(self, requests: Sequence[HoldRequest]) -> list[HoldVerdict]:
        """May raise anything that a database may: which request is to blame is not known."""
        return await self.batch.run(lambda connection: _call_hold_seats(connection, requests, self.grace, wait=False))

    def alone(self) -> list[Callable[[Sequence[HoldRequest]], Awaitable[list[HoldVerdict]]]]:
        """Each for itself. Raises Contended, or Unavailable."""
        return [partial(self._alone, connection) for connection in self.reruns]

    async def _alone(self, kept: KeptConnection, requests: Sequence[HoldRequest]) -> list[HoldVerdict]:
        return await with_retries(
            lambda: kept.run(lambda connection: _call_hold_seats(connection, requests, self.grace, wait=True))
        )


async def _call_hold_seats(
    connection: Any, requests: Sequence[HoldRequest], grace: timedelta, wait: bool
) -> list[HoldVerdict]:
    owners: list[int] = []
    events: list[int] = []
    seats: list[int] = []
    ends: list[int] = []
    for number, request in enumerate(requests, 1):
        count = len(request.seats)
        owners += [number] * count
        events += [request.event] * count
        seats += request.seats
        ends.append(len(seats))
    row = await connection.fetchrow(
        queries.hold_seats.sql,
        wait,
        grace,
        [request.account for request in requests],
        [request.event for request in requests],
        [request.key for request in requests],
        [request.fingerprint for request in requests],
        ends,
        owners,
        events,
        seats,
        [request.plan for request in requests],
    )
    lost: defaultdict[int, list[int]] = defaultdict(list)
    for number, seat in zip(row["lost_request"] or (), row["lost_seat"] or (), strict=True):
        lost[number].append(seat)
    columns = (row[name] for name in ("verdict", "version", "hold_id", "expires_at", "used", "retry_time"))
    return [
        HoldVerdict(word, version, hold, expiry, used, retry, tuple(sorted(lost[number])) if number in lost else ())
        for number, (word, version, hold, expiry, used, retry) in enumerate(zip(*columns, strict=True), 1)
    ]


async def get_hold(shard: Shard, hold: UUID, account: str) -> Hold | None:
    """The account's hold as it is now."""
    row = await shard.read(lambda connection: queries.get_hold(connection, hold=hold, account=account))
    if row is None:
        return None
    units = row["ticket_count"] if row["area_id"] is not None else 1  # that each of the prices is for
    fees = sum(row["fees"]) * units
    return Hold(
        shard=shard.name,
        hold=row["hold_id"],
        event=row["event_id"],
        state=row["state"],
        expires_at=row["expires_at"],
        seats=priced_seats(row),
        currency=row["currency_code"],
        total=sum(row["prices"]) * units + fees,
        fees=fees,
        order=row["order_id"],
        area=held_area(row, row["ticket_count"], row["prices"][0]),
    )


async def release_hold(shard: Shard, hold: UUID, account: str) -> str | None:
    """The state in which the hold is now ended; None for no such hold of the account's."""
    state: str | None = await shard.write(lambda c: queries.release_hold(c, account=account, hold=hold))
    return state


async def sweep_holds(shard: Shard, *, most: int, grace: timedelta) -> int:
    """Frees the seats of overdue holds; how many holds."""
    swept: int = await shard.write(lambda connection: queries.sweep_holds(connection, most=most, grace=grace))
    return swept


async def count_overdue(shard: Shard, *, grace: timedelta) -> Overdue:
    """What is still to be swept."""
    row = await shard.read(lambda connection: queries.count_overdue(connection, grace=grace))
    return Overdue(row["holds"], row["seconds"])


async def get_offer(shard: Shard, event: int) -> Offer | None:
    """All that an event has to sell, as it is now."""
    row = await shard.read(lambda connection: queries.get_offer(connection, event=event))
    if row is None:
        return None
    known: dict[str, str] = {}
    sections, row_names, numbers = (
        [known.setdefault(text, text) for text in row[name] or ()] for name in ("sections", "row_names", "numbers")
    )
    return Offer(
        version=row["version"],
        sale=Sale(row["sale_start_time"], row["sale_end_time"], row["tickets_per_account"]),
        currency=row["currency_code"],
        prices=dict(zip(row["tiers"], row["prices"], strict=True)),
        fees=dict(zip(row["tiers"], row["fees"], strict=True)),
        seats=array("i", row["seats"] or ()),
        tiers=array("i", row["seat_tiers"] or ()),
        sections=sections,
        row_names=row_names,
        numbers=numbers,
    )


def priced_seats(row: Any) -> tuple[PricedSeat, ...]:
    """Seats from the parallel arrays of a view; none of an area's."""
    if row["area_id"] is not None:
        return ()
    columns = (row[name] for name in ("seats", "sections", "row_names", "numbers", "prices"))
    return tuple(PricedSeat(*seat) for seat in zip(*columns, strict=True))


def held_area(row: Any, quantity: int, price: int) -> HeldArea | None:
    """Units of the row's area, if it has one."""
    return HeldArea(row["area_id"], row["area_name"], quantity, price) if row["area_id"] is not None else None
