"""Tickets: an entitlement for each seat of a confirmed order."""

from prometheus_client import Counter

from services.booking.orders import Orders
from services.booking.rows import Ticket
from services.booking.store import tickets as store
from services.booking.store.shards import Shard, Shards

ORDERS_PER_ROUND = 200  # about a thousand tickets in one transaction

TICKETS = Counter("booking_ticketed_orders_total", "Orders whose tickets were issued")


class Tickets:
    """What an account may do with its tickets."""

    def __init__(self, *, shards: Shards, orders: Orders) -> None:
        self.shards, self.orders = shards, orders

    async def list_tickets(self, *, account: str, order_id: str) -> list[Ticket]:
        """The tickets of the account's order, by seat; none until they are issued."""
        order = await self.orders.get_order(account=account, order_id=order_id)
        return await store.list_tickets(self.shards[order.shard], order.order)


async def issue_tickets(shard: Shard) -> int:
    """Issues the tickets of confirmed orders that lack them; how many orders. Safe to repeat, or run at once."""
    orders = await store.issue_tickets(shard, most=ORDERS_PER_ROUND)
    TICKETS.inc(orders)
    return orders
