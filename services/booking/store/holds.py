"""Holds."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any
from uuid import UUID

from chassis.queries import load_queries
from services.booking.rows import Hold, HoldRequest, HoldVerdict, PricedSeat, Sale
from services.booking.store.shards import Shard

queries = load_queries(Path(__file__).parent / "holds.sql")


async def hold_seats(
    shard: Shard, requests: Sequence[HoldRequest], *, grace: timedelta, wait: bool
) -> list[HoldVerdict]:
    """One call for 1 to 64 requests of which no two share a seat or an account; a verdict for each.

    `wait`: a request alone, which waits for locks. Otherwise one that meets a lock is BUSY and to be run again alone.
    """
    flat = [(number, request.event, seat) for number, request in enumerate(requests, 1) for seat in request.seats]
    arguments = {
        "wait": wait,
        "grace": grace,
        "accounts": [request.account for request in requests],
        "events": [request.event for request in requests],
        "keys": [request.key for request in requests],
        "fingerprints": [request.fingerprint for request in requests],
        "ends": list(accumulate(len(request.seats) for request in requests)),
        "seat_requests": [number for number, _, _ in flat],
        "seat_events": [event for _, event, _ in flat],
        "seats": [seat for _, _, seat in flat],
    }
    row = await shard.write(lambda connection: queries.hold_seats(connection, **arguments))
    lost = list(zip(row["lost_request"] or (), row["lost_seat"] or (), strict=True))
    return [
        HoldVerdict(word, hold, used, tuple(sorted(seat for owner, seat in lost if owner == number)))
        for number, (word, hold, used) in enumerate(zip(row["verdict"], row["hold_id"], row["used"], strict=True), 1)
    ]


async def get_hold(shard: Shard, hold: UUID, account: str) -> Hold | None:
    """The account's hold as it is now."""
    row = await shard.read(lambda connection: queries.get_hold(connection, hold=hold, account=account))
    if row is None:
        return None
    return Hold(
        shard=shard.name,
        hold=row["hold_id"],
        event=row["event_id"],
        state=row["state"],
        expires_at=row["expires_at"],
        seats=priced_seats(row),
        currency=row["currency_code"],
        total=sum(row["prices"]) + sum(row["fees"]),
        fees=sum(row["fees"]),
        order=row["order_id"],
    )


async def release_hold(shard: Shard, hold: UUID, account: str) -> str | None:
    """The state in which the hold is now ended; None for no such hold of the account's."""
    state: str | None = await shard.write(lambda c: queries.release_hold(c, account=account, hold=hold))
    return state


async def sweep_holds(shard: Shard, *, most: int, grace: timedelta) -> int:
    """Frees the seats of overdue holds; how many holds."""
    swept: int = await shard.write(lambda connection: queries.sweep_holds(connection, most=most, grace=grace))
    return swept


async def get_sale(shard: Shard, event: int) -> Sale | None:
    """When an event is on sale, and how much of it an account may have."""
    row = await shard.read(lambda connection: queries.get_sale(connection, event=event))
    return row and Sale(row["sale_start_time"], row["sale_end_time"], row["tickets_per_account"])


def priced_seats(row: Any) -> tuple[PricedSeat, ...]:
    """Seats from the parallel arrays of a view."""
    columns = (row[name] for name in ("seats", "sections", "row_names", "numbers", "prices"))
    return tuple(PricedSeat(*seat) for seat in zip(*columns, strict=True))
