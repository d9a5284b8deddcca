"""Booking, as a process: `python -m services.booking`."""

from datetime import timedelta
from functools import partial

from chassis.client import open_channel
from chassis.postgres import finished
from chassis.server import Server, run_main
from chassis.settings import load_settings, parse_shards
from chassis.telemetry import start_telemetry
from services.booking.areas import Areas
from services.booking.best_seats import BestSeats
from services.booking.holds import Holds
from services.booking.inventory import Inventories
from services.booking.orders import Orders
from services.booking.peers import Payments, WaitingRoom
from services.booking.sales import Sales
from services.booking.server import add_servicers
from services.booking.settings import Settings
from services.booking.store.shards import open_shards
from services.booking.store.stream import OrderStream
from services.booking.tickets import Tickets
from services.booking.workers import Workers


async def main() -> None:
    """Until SIGTERM."""
    settings = load_settings(Settings)
    start_telemetry("booking", settings)
    dsns = parse_shards(settings.shards)
    open_them = partial(open_shards, dsns, statements=settings.statement_cache_size)
    shards = await open_them(pool_size=settings.pool_size)
    backstage = await open_them(pool_size=settings.worker_pool_size, purpose="workers")
    grace, sales = timedelta(seconds=settings.confirm_grace_seconds), Sales()
    waitingroom = WaitingRoom(open_channel(settings.waitingroom_target)) if settings.waitingroom_target else None
    payments = Payments(open_channel(settings.payments_target))
    stream = OrderStream(settings.redis_url) if settings.redis_url else None
    workers = Workers(
        shards=backstage, sales=sales, payments=payments, waitingroom=waitingroom, settings=settings, stream=stream
    )
    holds = Holds(shards=shards, sales=sales, grace=grace)
    best, areas = BestSeats(holds=holds), Areas(shards=shards, sales=sales, grace=grace)
    orders = Orders(
        shards=shards, sales=sales, grace=grace, created=workers.order_created, confirmed=workers.order_confirmed
    )
    tickets, inventories = Tickets(shards=shards, orders=orders), Inventories(shards=shards)
    server = Server(settings, "booking")
    add_servicers(
        server,
        shards=shards,
        holds=holds,
        best=best,
        areas=areas,
        orders=orders,
        tickets=tickets,
        inventories=inventories,
    )
    await server.run(workers.all())
    await finished()
    if stream:
        await stream.close()
    await shards.close()
    await backstage.close()


if __name__ == "__main__":
    run_main(main)
