"""Booking, as a process: `python -m services.booking`."""

from datetime import timedelta

from chassis.client import open_channel
from chassis.server import Server, run_main
from chassis.settings import load_settings, parse_shards
from chassis.telemetry import start_telemetry
from services.booking.holds import Holds
from services.booking.inventory import Inventories
from services.booking.orders import Orders
from services.booking.peers import Payments, WaitingRoom
from services.booking.sales import Sales
from services.booking.server import add_servicers
from services.booking.settings import Settings
from services.booking.store.shards import open_shards
from services.booking.tickets import Tickets
from services.booking.workers import Workers


async def main() -> None:
    """Until SIGTERM."""
    settings = load_settings(Settings)
    start_telemetry("booking", settings)
    dsns = parse_shards(settings.shards)
    shards = await open_shards(dsns, pool_size=settings.pool_size)
    backstage = await open_shards(dsns, pool_size=settings.worker_pool_size, purpose="workers")
    grace, sales = timedelta(seconds=settings.confirm_grace_seconds), Sales()
    waitingroom = WaitingRoom(open_channel(settings.waitingroom_target)) if settings.waitingroom_target else None
    payments = Payments(open_channel(settings.payments_target))
    workers = Workers(shards=backstage, sales=sales, payments=payments, waitingroom=waitingroom, settings=settings)
    holds = Holds(shards=shards, sales=sales, grace=grace)
    orders = Orders(
        shards=shards, sales=sales, grace=grace, created=workers.order_created, confirmed=workers.order_confirmed
    )
    tickets, inventories = Tickets(shards=shards, orders=orders), Inventories(shards=shards)
    server = Server(settings, "booking")
    add_servicers(server, shards=shards, holds=holds, orders=orders, tickets=tickets, inventories=inventories)
    await server.run(workers.all())
    await shards.close()
    await backstage.close()


if __name__ == "__main__":
    run_main(main)
