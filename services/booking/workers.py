"""What goes on by itself: the outbox's relays and keeper, sweeper, issuer of tickets, reports, monitor."""

from datetime import timedelta
from functools import partial

from chassis.outbox import Keeper, Relay
from chassis.outbox.keeper import KEEPER_SECONDS
from chassis.workers import Worker
from services.booking.abandon import Abandoner
from services.booking.expiry import sweep_holds, watch_overdue
from services.booking.monitor import watch_invariants
from services.booking.orders import Orders
from services.booking.peers import Payments, WaitingRoom
from services.booking.sales import Sales
from services.booking.settings import Settings
from services.booking.store.shards import Shard, Shards
from services.booking.store.stream import SINK as ORDERS_SINK
from services.booking.store.stream import OrderStream
from services.booking.tickets import issue_tickets

# The relay and the issuer are woken by what this process commits; the pause is for what another one left behind.
RELAY_SECONDS = 0.5
ISSUE_SECONDS = 0.5
REPORT_SECONDS = 1.0
OVERDUE_SECONDS = 5.0
ABANDON_SECONDS = 5.0


class Workers:
    """Relays, sweeper, issuer and keeper for each shard; any number of processes may run them.

    Without `stream` the messages to `booking.orders` wait for a relay, seven days at most.
    """

    def __init__(
        self,
        *,
        shards: Shards,
        sales: Sales,
        payments: Payments,
        waitingroom: WaitingRoom | None,
        settings: Settings,
        stream: OrderStream | None = None,
    ) -> None:
        self.sales, self.waitingroom = sales, waitingroom
        grace = timedelta(seconds=settings.confirm_grace_seconds)
        self.relays = {name: _relay(shard, payments) for name, shard in shards.items()}
        self.streams = [_stream(shard, stream) for shard in shards.values() if stream]
        self.keepers = [_keeper(shard, read=bool(stream)) for shard in shards.values()]
        self.issuers = {
            name: Worker(f"issue_tickets_{name}", partial(issue_tickets, shard), ISSUE_SECONDS)
            for name, shard in shards.items()
        }
        self.sweepers = [
            Worker(f"sweep_holds_{name}", partial(sweep_holds, shard, grace=grace), settings.sweep_seconds)
            for name, shard in shards.items()
        ]
        orders = Orders(
            shards=shards, sales=sales, grace=grace, created=self.order_created, confirmed=self.order_confirmed
        )
        bound = timedelta(seconds=settings.payment_bound_seconds)
        self.abandoners = [_abandoner(shard, orders, payments, bound) for shard in shards.values()]
        self.others = [
            *(
                Worker(f"watch_overdue_{name}", partial(watch_overdue, shard, grace=grace), OVERDUE_SECONDS)
                for name, shard in shards.items()
            ),
            Worker("report_sales", self.report_sales, REPORT_SECONDS),
            Worker("watch_invariants", partial(watch_invariants, shards), settings.monitor_seconds),
        ]

    def all(self) -> list[Worker]:
        """For the server to run."""
        outbox = [*self.relays.values(), *self.streams, *self.keepers]
        return [*outbox, *self.issuers.values(), *self.sweepers, *self.abandoners, *self.others]

    def order_created(self, shard: str) -> None:
        """There is a charge to deliver."""
        self.relays[shard].wake.set()

    def order_confirmed(self, shard: str) -> None:
        """There are tickets to issue."""
        self.issuers[shard].wake.set()

    async def report_sales(self) -> None:
        """What happened since the last report; taken also when nobody listens, so that it does not pile up."""
        sales = self.sales.take()
        if sales and self.waitingroom:
            await self.waitingroom.report_sales(sales)


def _relay(shard: Shard, payments: Payments) -> Worker:
    relay = Relay(shard.pool, "payments", partial(payments.charge_order, shard.name))
    return Worker(f"relay_payments_{shard.name}", relay.run_once, RELAY_SECONDS)


def _abandoner(shard: Shard, orders: Orders, payments: Payments, bound: timedelta) -> Worker:
    abandoner = Abandoner(shard=shard, orders=orders, payments=payments, bound=bound)
    return Worker(f"abandon_orders_{shard.name}", abandoner.run_once, ABANDON_SECONDS)


def _stream(shard: Shard, stream: OrderStream) -> Worker:
    relay = Relay(shard.pool, ORDERS_SINK, partial(stream.publish_order, shard.name))
    return Worker(f"relay_orders_{shard.name}", relay.run_once, RELAY_SECONDS)


def _keeper(shard: Shard, *, read: bool) -> Worker:
    keeper = Keeper(shard.pool, shard.name, sinks=["payments", ORDERS_SINK], unread=[] if read else [ORDERS_SINK])
    return Worker(f"keep_outbox_{shard.name}", keeper.run_once, KEEPER_SECONDS)
