"""Orders."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from chassis.queries import load_queries
from services.booking.rows import CancelVerdict, EventOrder, Order, OrderRequest, OrderVerdict, OutcomeVerdict
from services.booking.store.holds import held_area, priced_seats
from services.booking.store.shards import Shard

queries = load_queries(Path(__file__).parent / "orders.sql")


class OrderCalls:
    """`create_orders` on a connection kept for it, and `create_order` for what that one leaves."""

    def __init__(self, shard: Shard, *, grace: timedelta) -> None:
        self.shard, self.grace = shard, grace
        self.batch = shard.keep_connection("orders")

    async def together(self, requests: Sequence[OrderRequest]) -> list[OrderVerdict]:
        """One call for 1 to 64 requests of which no two share an account or a hold. CREATED, or BUSY: to be run alone.

        May raise anything that a database may. For one caller at a time.
        """
        row = await self.batch.run(
            lambda connection: connection.fetchrow(
                queries.create_orders.sql,
                [request.account for request in requests],
                [request.hold for request in requests],
                [request.key for request in requests],
                [request.fingerprint for request in requests],
                [request.email for request in requests],
                [request.payment_token for request in requests],
                self.grace,
            )
        )
        return [
            OrderVerdict("CREATED" if order else "BUSY", order, event)
            for order, event in zip(row["order_id"], row["event_id"], strict=True)
        ]

    async def alone(self, requests: Sequence[OrderRequest]) -> list[OrderVerdict]:
        """Waits for locks. Raises Contended, or Unavailable."""
        return [await create_order(self.shard, request, grace=self.grace) for request in requests]


async def create_order(shard: Shard, request: OrderRequest, *, grace: timedelta) -> OrderVerdict:
    """Turns a hold into an order with its charge in the outbox; see functions/orders.sql for the words."""
    row = await shard.write(
        lambda connection: queries.create_order(
            connection,
            account=request.account,
            hold=request.hold,
            key=request.key,
            fingerprint=request.fingerprint,
            email=request.email,
            payment_token=request.payment_token,
            grace=grace,
        )
    )
    return OrderVerdict(row["verdict"], row["order_id"], row["event_id"])


async def record_payment_outcome(
    shard: Shard, order: UUID, *, outcome: str, reason: str, grace: timedelta
) -> OutcomeVerdict:
    """See functions/orders.sql for the words."""
    row = await shard.write(
        lambda connection: queries.record_payment_outcome(
            connection, order=order, outcome=outcome, reason=reason, grace=grace
        )
    )
    return OutcomeVerdict(row["verdict"], row["order_state"], row["event_id"], row["account"])


async def cancel_order(shard: Shard, order: UUID, *, account: str) -> CancelVerdict:
    """Ends the account's confirmed order; see functions/orders.sql for the words."""
    row = await shard.write(lambda connection: queries.cancel_order(connection, account=account, order=order))
    return CancelVerdict(row["verdict"], row["order_state"] or "")


async def get_order(shard: Shard, order: UUID) -> Order | None:
    """Anybody's order: whose it is, is the caller's to compare."""
    row = await shard.read(lambda connection: queries.get_order(connection, order=order))
    return _order(shard, row) if row else None


async def list_orders(shard: Shard, account: str, *, before: UUID, most: int) -> list[Order]:
    """The account's orders with ids under `before`, newest first."""

    async def fetch(connection: Any) -> list[Order]:
        rows = queries.list_orders(connection, account=account, before=before, most=most)
        return [_order(shard, row) async for row in rows]

    return await shard.read(fetch)


async def list_event_orders(shard: Shard, event: int, *, after: UUID, most: int) -> list[EventOrder]:
    """The event's orders with ids over `after`, by id."""

    async def fetch(connection: Any) -> list[EventOrder]:
        rows = queries.list_event_orders(connection, event=event, after=after, most=most)
        return [_event_order(shard, row) async for row in rows]

    return await shard.read(fetch)


def _order(shard: Shard, row: Any) -> Order:
    return Order(
        shard=shard.name,
        order=row["order_id"],
        event=row["event_id"],
        hold=row["hold_id"],
        account=row["account"],
        state=row["state"],
        payment_state=row["payment_state"],
        tickets_state=row["tickets_state"],
        seats=priced_seats(row),
        currency=row["currency_code"],
        total=row["total_amount"],
        fees=row["fee_amount"],
        create_time=row["create_time"],
        failure_reason=row["failure_reason"] or "",
        area=held_area(row, row["ticket_count"], row["unit_price"]),
    )


def _event_order(shard: Shard, row: Any) -> EventOrder:
    return EventOrder(
        shard=shard.name,
        order=row["order_id"],
        account=row["account"],
        state=row["state"],
        payment_state=row["payment_state"],
        seats=tuple(row["seats"]),
        currency=row["currency_code"],
        total=row["total_amount"],
        ticket_count=row["ticket_count"],
        quantity=row["quantity"],
    )
