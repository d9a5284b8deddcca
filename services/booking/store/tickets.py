"""Tickets."""

from pathlib import Path
from typing import Any
from uuid import UUID

from chassis.queries import load_queries
from services.booking.rows import PricedSeat, Ticket
from services.booking.store.holds import held_area
from services.booking.store.shards import Shard

queries = load_queries(Path(__file__).parent / "tickets.sql")


async def issue_tickets(shard: Shard, *, most: int) -> int:
    """Issues what is due; how many orders had been without."""
    orders: int = await shard.write(lambda connection: queries.issue_tickets(connection, most=most))
    return orders


async def list_tickets(shard: Shard, order: UUID) -> list[Ticket]:
    """The order's tickets, by seat, or by number."""

    async def fetch(connection: Any) -> list[Ticket]:
        return [_ticket(shard, row) async for row in queries.list_tickets(connection, order=order)]

    return await shard.read(fetch)


def _ticket(shard: Shard, row: Any) -> Ticket:
    return Ticket(
        shard=shard.name,
        ticket=row["ticket_id"],
        order=row["order_id"],
        event=row["event_id"],
        state=row["state"],
        seat=PricedSeat(row["seat_id"], row["section"], row["row_name"], row["number"], row["price"])
        if row["seat_id"] is not None
        else None,
        area=held_area(row, 1, row["unit_price"]),
        currency=row["currency_code"],
    )
