"""Starts seatfeed: for each shard an ingester, of which one anywhere leads, and a follower; two listeners."""

from functools import partial

from chassis.invariants import invariant_service
from chassis.server import Server, run_main
from chassis.settings import load_settings
from chassis.telemetry import start_telemetry
from chassis.workers import Worker
from services.seatfeed.feeds import Feeds
from services.seatfeed.follow import AGAIN_SECONDS, Follower
from services.seatfeed.ingest import Ingester
from services.seatfeed.invariants import Checks
from services.seatfeed.listener import StreamListener
from services.seatfeed.server import SERVICE, SeatFeed, add_seat_feed_to_server
from services.seatfeed.settings import Settings
from services.seatfeed.store.pictures import PictureStore, open_redis
from services.seatfeed.store.seats import SeatLog


async def main() -> None:
    settings = load_settings(Settings)
    start_telemetry("seatfeed", settings)
    client = open_redis(settings.redis_url)
    logs = {
        shard: partial(SeatLog, dsn, slot=f"{settings.slot_prefix}_{shard}", publication=settings.publication)
        for shard, dsn in settings.dsns.items()
    }
    followers = {shard: Follower(shard, PictureStore(client, shard)) for shard in logs}
    ingesters = [Ingester(shard, logs[shard](), follower.store) for shard, follower in followers.items()]
    workers = [Worker(f"follow.{shard}", one.run_once, AGAIN_SECONDS) for shard, one in followers.items()]
    workers += [Worker(f"ingest.{one.shard}", one.run_once, settings.tick_seconds) for one in ingesters]
    feeds = Feeds(followers)
    listener = StreamListener(feeds, settings.stream_listen, settings.most_subscribers, settings.write_buffer_bytes)
    server = Server(settings, "seatfeed")
    server.add(SERVICE, add_seat_feed_to_server, SeatFeed(feeds))
    server.add(*invariant_service(Checks(followers, logs).check_invariants))
    try:
        await server.run(workers, [listener.run])
    finally:
        for ingester in ingesters:
            await ingester.step_down()
        await client.aclose()


if __name__ == "__main__":
    run_main(main)
