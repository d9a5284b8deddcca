"""Booking, as a process: `python -m services.booking`."""

from datetime import timedelta
from functools import partial

from chassis.client import open_channel
from chassis.server import Server, run_main
from chassis.settings import load_settings, parse_shards
from chassis.telemetry import start_telemetry
from services.booking.peers import Payments, WaitingRoom
from services.booking.rules import make_rules
from services.booking.sales import Sales
from services.booking.server import add_servicers
from services.booking.settings import Settings
from services.booking.store.shards import open_shards
from services.booking.store.stream import OrderStream
from services.booking.workers import Workers


async def main() -> None:
    """Until SIGTERM; then what is under way ends, and the connections last."""
    s = load_settings(Settings)
    start_telemetry("booking", s)
    open_them = partial(open_shards, parse_shards(s.shards), statements=s.statement_cache_size)
    shards = await open_them(pool_size=s.pool_size)
    backstage = await open_them(pool_size=s.worker_pool_size, purpose="workers")
    grace, sales = timedelta(seconds=s.confirm_grace_seconds), Sales()
    payments = Payments(open_channel(s.payments_target))
    waitingroom = WaitingRoom(open_channel(s.waitingroom_target)) if s.waitingroom_target else None
    stream = OrderStream(s.redis_url) if s.redis_url else None
    workers = Workers(
        shards=backstage, sales=sales, payments=payments, waitingroom=waitingroom, settings=s, stream=stream
    )
    rules = make_rules(
        shards=shards, sales=sales, grace=grace, created=workers.order_created, confirmed=workers.order_confirmed
    )
    server = Server(s, "booking")
    add_servicers(server, shards=shards, **vars(rules))
    try:
        await server.run(workers.all())
    finally:  # after a defect too, what is under way ends first
        await rules.close()
    if stream:
        await stream.close()
    await shards.close()
    await backstage.close()


if __name__ == "__main__":
    run_main(main)
