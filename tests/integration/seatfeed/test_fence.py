"""An ingester that was paused between reading and writing wakes after its successor has written."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from services.seatfeed.errors import PictureLost
from services.seatfeed.ingest import Ingester
from services.seatfeed.rows import Head, Standing
from services.seatfeed.store import pictures
from services.seatfeed.store.pictures import PictureStore
from tests.integration.seatfeed.house import EVENT, Booking, House, lead, tick

GUARD = "stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2]"


async def pause_between_reading_and_writing(booking: Booking, house: House, paused: Ingester) -> Ingester:
    """`paused` has read that seat 1 is sold; its successor, returned, has stored that it is on sale again."""
    await lead(paused)
    await booking.set_state("SOLD", 1)
    async with asyncio.timeout(10):
        while not paused.pending:
            await paused.read_log()
    await end_connections(house)
    successor = house.ingester()
    await lead(successor)
    await booking.set_state("AVAILABLE", 1)
    await tick(successor)
    return successor


async def end_connections(house: House) -> None:
    """As the server does with a client that is silent for too long."""
    log = house.open_log()
    admin = await asyncpg.connect(log.dsn)
    try:
        await admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE usename = current_user AND pid <> pg_backend_pid() AND datname = current_database()"
        )
    finally:
        await admin.close()


async def stored_standing(store: PictureStore) -> Standing:
    """Of seat 1."""
    head = await store.read_head()
    assert head is not None
    picture = await store.load_picture(head.epoch, EVENT)
    assert picture is not None
    return picture.seats[1].standing


async def test_a_paused_ingester_cannot_overwrite_its_successor(booking: Booking, house: House) -> None:
    paused = house.ingester()
    successor = await pause_between_reading_and_writing(booking, house, paused)
    with pytest.raises(PictureLost):
        await paused.write_tick()
    assert await stored_standing(successor.store) is Standing.OPEN
    await tick(successor)  # and goes on


async def test_control_without_the_fence_it_does(booking: Booking, house: House) -> None:
    script = Path(pictures.__file__).with_name("store_tick.lua").read_text()
    assert script.count(GUARD) == 1
    store = PictureStore(house.redis, "s1")
    store._store_tick = house.redis.register_script(script.replace(GUARD, "false"))
    paused = house.ingester(store)
    successor = await pause_between_reading_and_writing(booking, house, paused)
    await paused.write_tick()
    assert await stored_standing(successor.store) is Standing.TAKEN  # for ever: the log says nothing more of it


async def test_a_builder_of_an_epoch_that_was_overtaken_is_refused(booking: Booking, house: House) -> None:
    first = house.ingester()
    await lead(first)
    old = first.head
    assert old is not None
    await tick(first)
    with pytest.raises(PictureLost):
        await first.store.start_epoch(old, Head("late", 1, 0, 0))
