"""What best available chooses from: where an event's seats stand, and which are free."""

import sys
from array import array
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from chassis.queries import load_queries
from services.booking.rows import PlacedSeats, SeatStates
from services.booking.store.shards import Shard

queries = load_queries(Path(__file__).parent / "picture.sql")


async def get_placed_seats(shard: Shard, event: int) -> PlacedSeats | None:
    """All seats of an event, in the plan's order."""
    row = await shard.read(lambda connection: queries.get_placed_seats(connection, event=event))
    if row is None:
        return None
    seats = _numbers(row["seats"])
    ends = [*row["begins"][1:], len(seats)]
    sections: list[str] = []
    for section, end in zip(row["sections"], ends, strict=False):
        sections += [section] * (end - len(sections))
    return PlacedSeats(
        version=row["version"],
        focal=None if row["focal_x"] is None else (row["focal_x"], row["focal_y"]),
        tiers=row["tiers"],
        seats=seats,
        seat_tiers=_numbers(row["seat_tiers"]),
        sections=sections,
        row_indexes=_numbers(row["row_indexes"]),
        x=_numbers(row["x"]),
        y=_numbers(row["y"]),
        accessible=row["accessible"],
        companion=row["companion"],
    )


async def get_states(shard: Shard, event: int) -> SeatStates | None:
    """What may be had of an event's seats at this moment."""
    row = await shard.read(lambda connection: queries.get_states(connection, event=event))
    return row and SeatStates(row["version"], (row["states"] or "").encode())


async def get_replay(shard: Shard, event: int, account: str, key: str) -> tuple[UUID, bytes] | None:
    """The hold that an account's key has made, and the fingerprint of what was asked for."""
    row = await shard.write(lambda connection: queries.get_replay(connection, event=event, account=account, key=key))
    return row and (row["hold_id"], row["fingerprint"])


async def get_cap(shard: Shard, event: int, account: str, grace: timedelta) -> tuple[int, int] | None:
    """How many tickets an account may have, and has at this moment; None when the event is not on sale."""
    row = await shard.read(lambda connection: queries.get_cap(connection, event=event, account=account, grace=grace))
    return row and (row["cap"], row["used"])


def _numbers(sent: bytes) -> Sequence[int]:
    """Postgres sends four bytes for each, the highest first."""
    numbers = array("i", sent)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
