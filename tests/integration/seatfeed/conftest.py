"""A booking database with seats, and seatfeed's parts around it, driven tick by tick."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import asyncpg
import pytest

from services.seatfeed.feeds import Feeds
from services.seatfeed.follow import Follower
from services.seatfeed.ingest import Ingester
from services.seatfeed.store.pictures import PictureStore, open_redis
from services.seatfeed.store.seats import SeatLog
from tests.integration.seatfeed.house import EVENT, Booking, House


@pytest.fixture
async def booking(database: Callable[..., Awaitable[str]]) -> AsyncIterator[Booking]:
    """A migrated booking database with one event of three sections."""
    dsn = await database("booking")
    connection = await asyncpg.connect(dsn)
    made = Booking(dsn, connection)
    await made.add_event(EVENT, {"A": range(1, 21), "B": range(21, 41), "C": range(41, 61)})
    yield made
    await connection.close()


@pytest.fixture
async def house(booking: Booking, feed_dsn: Callable[[str], str], redis_url: str) -> AsyncIterator[House]:
    """Makes ingesters and followers of that database; every one is closed in the end."""
    client = open_redis(redis_url)
    slot = f"feed_{booking.dsn.rpartition('/')[2]}"

    def open_log() -> SeatLog:
        return SeatLog(feed_dsn(booking.dsn), slot=slot, publication="rowlock_seats")

    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.aclose)

        def ingester(store: PictureStore | None = None) -> Ingester:
            made = Ingester("s1", open_log(), store or PictureStore(client, "s1"))
            stack.push_async_callback(made.step_down)
            return made

        def follower() -> Follower:
            return Follower("s1", PictureStore(client, "s1"))

        yield House(client, slot, open_log, ingester, follower, lambda one: Feeds({"s1": one}))
