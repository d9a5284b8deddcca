"""From real seat rows through the real log to the stored pictures, and out again."""

import asyncio

import asyncpg
import pytest

from services.seatfeed.rows import Standing
from tests.integration.seatfeed.house import EVENT, EVENT_ID, PUBLIC, Booking, Client, House, follow, lead, tick


async def test_get_seats_shows_the_table_after_a_first_start(booking: Booking, house: House) -> None:
    await booking.set_state("HELD", 1, 2)
    await booking.set_state("SOLD", 21)
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    snapshot = await house.feeds(follower).get_seats(EVENT_ID, "A")
    assert {name: tuple(rest) for name, *rest in snapshot.sections} == await booking.counts()
    assert dict(snapshot.seats) == dict.fromkeys(range(1, 21), Standing.OPEN)


async def test_a_tick_is_one_delta_with_absolute_values(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    client = Client("A")
    view, first = await follower.subscribe(EVENT, "A", client)
    assert first is not None
    client.fetch(view.snapshot("A"))
    await booking.set_state("HELD", 1, 2)
    await booking.set_state("PENDING_PAYMENT", 1)
    await booking.set_state("SOLD", 1)
    await tick(ingester)
    await follow(follower)
    (update,) = client.updates
    assert [tuple(counts) for counts in update.sections] == [("A", 18, 1, 1)]
    assert update.seats == ((1, Standing.TAKEN),)  # the held seat is not shown
    assert not client.must_fetch


async def test_held_counts_alone_are_a_delta_and_name_no_seat(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    client = Client("A")
    await follower.subscribe(EVENT, "A", client)
    await booking.set_state("HELD", 3)
    await tick(ingester)
    await follow(follower)
    (update,) = client.updates
    assert [tuple(counts) for counts in update.sections] == [("A", 19, 1, 0)]
    assert update.seats == ()


async def test_a_tick_without_change_moves_only_the_age(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    before = await house.feeds(follower).get_seats(EVENT_ID, "")
    await tick(ingester)
    await follow(follower)
    after = await house.feeds(follower).get_seats(EVENT_ID, "")
    assert after.as_of > before.as_of
    assert after.watermark == before.watermark


async def test_changes_while_no_ingester_lives_are_not_lost(booking: Booking, house: House) -> None:
    first = house.ingester()
    await lead(first)
    await tick(first)
    assert first.head is not None
    epoch = first.head.epoch
    await first.step_down()
    await booking.set_state("SOLD", 1, 2, 3)
    second, follower = house.ingester(), house.follower()
    await lead(second)
    await tick(second)
    await follow(follower)
    assert second.head is not None
    assert second.head.epoch == epoch
    snapshot = await house.feeds(follower).get_seats(EVENT_ID, "A")
    assert {name: tuple(rest) for name, *rest in snapshot.sections} == await booking.counts()


async def test_overlapping_transactions_come_whole_and_in_the_order_of_their_commits(
    booking: Booking, house: House
) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    client = Client("A")
    view, _ = await follower.subscribe(EVENT, "A", client)
    client.fetch(view.snapshot("A"))
    early = await asyncpg.connect(booking.dsn)
    try:
        transaction = early.transaction()
        await transaction.start()
        await booking.set_state("SOLD", 1, 2, connection=early)
        await booking.set_state("SOLD", 3)  # began later, commits first
        await tick(ingester)
        await booking.set_state("SOLD", 4, connection=early)
        await tick(ingester)
        await follow(follower)
        assert [update.seats for update in client.updates] == [((3, Standing.TAKEN),)]
        await transaction.commit()
    finally:
        await early.close()
    await tick(ingester)
    await follow(follower)
    assert client.updates[1].seats == ((1, Standing.TAKEN), (2, Standing.TAKEN), (4, Standing.TAKEN))
    assert client.updates[1].prev == client.updates[0].watermark
    assert not client.must_fetch


async def test_only_what_is_stored_is_acknowledged(booking: Booking, house: House) -> None:
    ingester = house.ingester()
    await lead(ingester)
    await tick(ingester)
    assert ingester.head is not None
    covered = ingester.head.covered
    await booking.set_state("SOLD", 5)
    async with asyncio.timeout(10):
        while not ingester.pending:
            await ingester.read_log()
    slot = await ingester.seat_log.get_slot()
    assert slot is not None
    assert slot.confirmed <= covered
    assert ingester.position > covered


async def test_a_seat_that_comes_or_goes_voids_the_picture(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    client = Client()
    await follower.subscribe(EVENT, "", client)
    await booking.connection.execute("DELETE FROM seat WHERE seat_id = 60")
    await booking.add_event(8, {"Z": [100, 101]})
    await tick(ingester)
    await follow(follower)
    assert [update.resync for update in client.updates] == [True]
    assert (await follower.view(EVENT)).picture.counts("C") == ("C", 19, 0, 0)
    assert (await follower.view(8)).picture.counts("Z") == ("Z", 2, 0, 0)


async def test_a_stored_picture_that_is_missing_starts_an_epoch(booking: Booking, house: House) -> None:
    first, follower = house.ingester(), house.follower()
    await lead(first)
    await follow(follower)
    client = Client()
    await follower.subscribe(EVENT, "", client)
    assert first.head is not None
    epoch = first.head.epoch
    await house.redis.flushall()
    await booking.set_state("SOLD", 1)
    await first.run_once()  # refused: the head is not its own
    assert first.stream is None
    old = await house.feeds(follower).get_seats(EVENT_ID, "")  # served on, as old as it is
    assert old.watermark.startswith(epoch)
    await first.run_once()
    assert first.head is not None
    assert first.head.epoch != epoch
    await follow(follower)
    assert client.updates[-1].resync
    assert (await follower.view(EVENT)).picture.counts("A") == ("A", 19, 0, 1)


async def test_a_stored_picture_older_than_the_slot_starts_an_epoch(booking: Booking, house: House) -> None:
    first = house.ingester()
    await lead(first)
    await tick(first)
    assert first.head is not None
    old, epoch = first.head, first.head.epoch
    await booking.set_state("SOLD", 1)
    await tick(first)
    await first.step_down()
    log = house.open_log()
    await log.connect()
    for _ in range(400):  # the acknowledgement may be on its way
        slot = await log.get_slot()
        if slot is not None and slot.confirmed > old.covered:
            break
        await asyncio.sleep(0.05)
    await log.close()
    await house.redis.hset(first.store.head_key, mapping={"seq": old.seq, "covered": old.covered})
    second = house.ingester()
    await lead(second)
    assert second.head is not None
    assert second.head.epoch != epoch
    assert await house.redis.smembers(second.store.epochs_key) == {second.head.epoch}


async def test_a_second_ingester_waits_and_takes_over(booking: Booking, house: House) -> None:
    first, second = house.ingester(), house.ingester()
    await first.run_once()
    await second.run_once()
    assert first.stream is not None
    assert second.stream is None
    await first.step_down()
    await lead(second)


async def test_a_truncated_table_starts_an_epoch(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await booking.connection.execute("TRUNCATE seat")
    await booking.add_event(9, {"N": [1]})
    async with asyncio.timeout(10):
        while ingester.stream is not None:
            await ingester.run_once()
    await lead(ingester)
    await follow(follower)
    assert follower.events == {9}


@pytest.mark.parametrize("state", ["AVAILABLE", "HELD", "PENDING_PAYMENT", "SOLD", "BLOCKED"])
async def test_every_state_is_shown_as_one_of_two(booking: Booking, house: House, state: str) -> None:
    ingester, follower = house.ingester(), house.follower()
    await booking.set_state(state, 1)
    await lead(ingester)
    await follow(follower)
    snapshot = await house.feeds(follower).get_seats(EVENT_ID, "A")
    assert dict(snapshot.seats)[1] == PUBLIC.get(state, Standing.TAKEN)
