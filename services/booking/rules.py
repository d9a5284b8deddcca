"""All that callers may ask of booking, over the same shards."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from chassis.postgres import finished
from services.booking.areas import Areas
from services.booking.best_seats import BestSeats
from services.booking.holds import Holds
from services.booking.inventory import Inventories
from services.booking.orders import Orders
from services.booking.sales import Sales
from services.booking.store.shards import Shards
from services.booking.tickets import Tickets


@dataclass(frozen=True)
class Rules:
    """One of each."""

    holds: Holds
    best: BestSeats
    areas: Areas
    orders: Orders
    tickets: Tickets
    inventories: Inventories

    async def close(self) -> None:
        """Between the last call and the end of the connections: what departed callers left under way ends first.

        A database that hangs keeps us until the process' time is over (`chassis.ending`): its connections then close
        with it, which does not cut a commit that waits for the standby, as a cancel would.
        """
        await asyncio.gather(self.holds.close(), self.orders.close())
        await finished()


def make_rules(
    *,
    shards: Shards,
    sales: Sales,
    grace: timedelta,
    created: Callable[[str], None],
    confirmed: Callable[[str], None],
) -> Rules:
    """`created` and `confirmed` as for `Orders`."""
    holds = Holds(shards=shards, sales=sales, grace=grace)
    orders = Orders(shards=shards, sales=sales, grace=grace, created=created, confirmed=confirmed)
    return Rules(
        holds=holds,
        best=BestSeats(holds=holds),
        areas=Areas(shards=shards, sales=sales, grace=grace),
        orders=orders,
        tickets=Tickets(shards=shards, orders=orders),
        inventories=Inventories(shards=shards),
    )
