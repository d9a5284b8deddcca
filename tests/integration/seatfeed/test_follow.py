"""One process that reads what another one stores, however late or early its readings come."""

import asyncio

import pytest

from services.seatfeed.errors import PictureLost, PictureMissing
from services.seatfeed.follow import IDLE_SECONDS, LOADS_AT_ONCE, Follower
from services.seatfeed.ingest import Ingester
from services.seatfeed.rows import StoredPicture
from tests.integration.seatfeed.house import EVENT, Booking, Client, House, follow, lead, tick


async def sell_and_tick(booking: Booking, ingester: Ingester, *seats: int) -> None:
    await booking.set_state("SOLD", *seats)
    await tick(ingester)


async def test_a_picture_newer_than_what_was_read_takes_no_delta_twice(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    await sell_and_tick(booking, ingester, 1)
    await sell_and_tick(booking, ingester, 2)
    view = await follower.view(EVENT)  # as of the second tick, which was not read yet
    client = Client("A")
    await follower.subscribe(EVENT, "A", client)
    client.fetch(view.snapshot("A"))
    await sell_and_tick(booking, ingester, 3)
    await follow(follower)
    assert [len(update.seats) for update in client.updates] == [1]
    assert not client.must_fetch
    assert client.counts == await booking.counts()


async def test_a_picture_older_than_what_was_read_gets_what_it_lacks(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    on_its_way, arrived = asyncio.Event(), asyncio.Event()
    load = follower.store.load_picture

    async def slow(epoch: str, event: int) -> StoredPicture | None:
        stored = await load(epoch, event)
        on_its_way.set()
        await arrived.wait()
        return stored

    follower.store.load_picture = slow  # type: ignore[method-assign]
    loading = asyncio.create_task(follower.view(EVENT))
    await on_its_way.wait()
    await sell_and_tick(booking, ingester, 1)
    await sell_and_tick(booking, ingester, 2, 21)
    await follow(follower)
    arrived.set()
    view = await loading
    client = Client("A")
    client.fetch(view.snapshot("A"))
    assert client.counts == await booking.counts()
    await follower.subscribe(EVENT, "A", client)
    await sell_and_tick(booking, ingester, 4)
    await follow(follower)
    assert client.counts == await booking.counts()


async def test_ticks_that_were_trimmed_before_they_were_read_are_a_resync(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    client = Client()
    await follower.subscribe(EVENT, "", client)
    await sell_and_tick(booking, ingester, 1)
    await sell_and_tick(booking, ingester, 2)
    await house.redis.xtrim(follower.store.log_key, maxlen=1, approximate=False)
    await follow(follower)
    assert client.updates[-1].resync
    assert (await follower.view(EVENT)).picture.counts("A") == ("A", 18, 0, 2)


async def test_a_new_process_resumes_the_clients_of_an_old_one(booking: Booking, house: House) -> None:
    ingester, old = house.ingester(), house.follower()
    await lead(ingester)
    await follow(old)
    seen = (await old.view(EVENT)).watermark
    await sell_and_tick(booking, ingester, 1)
    await sell_and_tick(booking, ingester, 2)
    new = house.follower()
    await follow(new)
    _, first = await new.subscribe(EVENT, "A", Client("A"), seen)
    assert first is not None
    assert not first.resync
    assert [seat for seat, _ in first.seats] == [1, 2]


async def test_many_changes_at_once_are_a_resync_and_not_a_delta(
    booking: Booking, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.seatfeed.ingest.MOST_SEATS_OF_A_DELTA", 5)
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    client = Client()
    await follower.subscribe(EVENT, "", client)
    await sell_and_tick(booking, ingester, *range(1, 7))
    await follow(follower)
    assert [update.resync for update in client.updates] == [True]
    assert (await follower.view(EVENT)).picture.counts("A") == ("A", 14, 0, 6)


async def test_an_arena_is_published_in_one_transaction(booking: Booking, house: House) -> None:
    """Beyond what one call of the script's commands may carry."""
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await booking.connection.execute(
        "INSERT INTO seat (event_id, seat_id, tier, section, row_name, number)"
        " SELECT 8, 1000 + n, 1, 'S' || n % 60, '1', n::text FROM generate_series(1, 18000) AS n"
    )
    await tick(ingester)
    await follow(follower)
    view = await follower.view(8)
    assert len(view.picture.section_of) == 18_000
    assert {counts.open for counts in view.picture.all_counts()} == {300}


async def test_pictures_that_nobody_looks_at_are_dropped(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await booking.add_event(8, {"Z": [100]})
    await tick(ingester)
    await follow(follower)
    await follower.subscribe(EVENT, "", Client())
    await follower.view(8)
    for view in follower.views.values():
        view.used -= IDLE_SECONDS + 1
    for live in ingester.live.values():
        live.changed -= IDLE_SECONDS + 1
    await tick(ingester)
    await follow(follower)
    assert set(follower.views) == {EVENT}  # it has a subscriber
    assert not ingester.live
    assert (await follower.view(8)).picture.counts("Z") == ("Z", 1, 0, 0)


async def test_pictures_are_loaded_a_few_at_a_time(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    for event in range(100, 130):
        await booking.add_event(event, {"Z": [event]})
    await lead(ingester)
    await follow(follower)
    load, under_way, most = follower.store.load_picture, 0, 0

    async def counted(epoch: str, event: int) -> StoredPicture | None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await load(epoch, event)
        finally:
            under_way -= 1

    follower.store.load_picture = counted  # type: ignore[method-assign]
    await asyncio.gather(*(follower.view(event) for event in range(100, 130)))
    assert most == LOADS_AT_ONCE


async def test_view_before_the_first_epoch_and_when_the_epoch_ends_is_unavailable(
    booking: Booking, house: House
) -> None:
    follower: Follower = house.follower()
    with pytest.raises(PictureMissing):
        await follower.view(EVENT)
    await lead(house.ingester())
    await follow(follower)
    await house.redis.hset(follower.store.head_key, "epoch", "another")
    with pytest.raises(PictureMissing) as refused:
        await follower.view(EVENT)
    assert isinstance(refused.value.__cause__, PictureLost)
