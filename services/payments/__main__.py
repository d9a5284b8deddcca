"""`python -m services.payments`."""

from functools import partial

from chassis.client import open_channel
from chassis.outbox import Keeper, Relay
from chassis.outbox.keeper import KEEPER_SECONDS
from chassis.postgres import BY_INDEX_ONLY, close_pool, finished, open_pool
from chassis.server import Server, run_main
from chassis.settings import load_settings
from chassis.telemetry import start_telemetry
from chassis.workers import Worker
from services.payments.charging import Charger
from services.payments.peers import Booking
from services.payments.processor import StripeProcessor
from services.payments.server import DATABASE, add_servicers
from services.payments.settings import PaymentsSettings
from services.payments.store.attempts import Attempts
from services.payments.store.invariants import check_invariants
from services.payments.workers import MEASURE_SECONDS, ChargeWorker, measure_once


async def main() -> None:
    """Until SIGTERM; then charges under way have two thirds of `close_seconds`, which leaves time to write down what
    came of them. The others are left to the next process."""
    s = load_settings(PaymentsSettings)
    start_telemetry("payments", s)
    pool = await open_pool(
        s.database_url,
        name="payments",
        max_size=s.database_connections,
        statements=s.statement_cache_size,
        expect=BY_INDEX_ONLY,
    )
    attempts = Attempts(pool, ambiguity_seconds=s.ambiguity_seconds, claim_seconds=s.claim_seconds)
    key = s.processor_api_key.get_secret_value()
    processor = StripeProcessor(url=s.processor_url, api_key=key, timeout_seconds=s.processor_timeout_seconds)
    booking = open_channel(s.booking_target)
    relay = Worker("outcomes", Relay(pool, "booking", Booking(booking).record_payment_outcome).run_once, s.poll_seconds)
    charger = Charger(attempts=attempts, processor=processor, told=relay.wake.set)
    charging = ChargeWorker(attempts=attempts, charger=charger, slots=s.charges_at_once)
    charges = Worker("charges", charging.run_once, s.poll_seconds)
    keeper = Worker("keep_outbox", Keeper(pool, DATABASE, sinks=["booking"]).run_once, KEEPER_SECONDS)
    measure = Worker("measure", partial(measure_once, attempts), MEASURE_SECONDS)
    server = Server(s, "payments")
    checks = partial(check_invariants, pool)
    add_servicers(server, attempts=attempts, invariants=checks, taken=charges.wake.set)
    await server.run([charges, relay, keeper, measure])
    await charging.settle(s.close_seconds * 2 / 3)
    await finished()
    await booking.close(None)
    await processor.close()
    await close_pool(pool)


if __name__ == "__main__":
    run_main(main)
