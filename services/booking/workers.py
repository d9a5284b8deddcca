"""What goes on by itself: the outbox's relay, the sweeper, the issuer of tickets, the reports, the monitor."""

from datetime import timedelta
from functools import partial

from chassis.outbox import Relay
from chassis.workers import Worker
from services.booking.expiry import sweep_holds
from services.booking.monitor import watch_invariants
from services.booking.peers import Payments, WaitingRoom
from services.booking.sales import Sales
from services.booking.settings import Settings
from services.booking.store.shards import Shard, Shards
from services.booking.tickets import issue_tickets

# The relay and the issuer are woken by what this process commits; the pause is for what another one left behind.
RELAY_SECONDS = 0.5
ISSUE_SECONDS = 0.5
REPORT_SECONDS = 1.0


class Workers:
    """One relay, sweeper and issuer for each shard; any number of processes may run them."""

    def __init__(
        self, *, shards: Shards, sales: Sales, payments: Payments, waitingroom: WaitingRoom | None, settings: Settings
    ) -> None:
        self.sales, self.waitingroom = sales, waitingroom
        grace = timedelta(seconds=settings.confirm_grace_seconds)
        self.relays = {name: _relay(shard, payments) for name, shard in shards.items()}
        self.issuers = {
            name: Worker(f"issue_tickets_{name}", partial(issue_tickets, shard), ISSUE_SECONDS)
            for name, shard in shards.items()
        }
        self.sweepers = [
            Worker(f"sweep_holds_{name}", partial(sweep_holds, shard, grace=grace), settings.sweep_seconds)
            for name, shard in shards.items()
        ]
        self.others = [
            Worker("report_sales", self.report_sales, REPORT_SECONDS),
            Worker("watch_invariants", partial(watch_invariants, shards), settings.monitor_seconds),
        ]

    def all(self) -> list[Worker]:
        """For the server to run."""
        return [*self.relays.values(), *self.issuers.values(), *self.sweepers, *self.others]

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
