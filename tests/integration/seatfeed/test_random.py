"""Whatever happens to the seats, snapshot and deltas end at the table, for every client that keeps to the rule."""

import asyncio
import random
from contextlib import AsyncExitStack

import asyncpg
import pytest

from services.seatfeed.follow import Follower
from services.seatfeed.rows import Standing
from services.seatfeed.views import View
from tests.integration.seatfeed.house import EVENT, PUBLIC, Booking, Client, House, follow, lead, tick

STATES = ["AVAILABLE", "HELD", "PENDING_PAYMENT", "SOLD", "BLOCKED"]
WRITERS = 3
ROUNDS = 25


async def buy_and_sell(booking: Booking, seed: int) -> None:
    """Transactions of random length, that overlap with those of other writers; some roll back."""
    chance = random.Random(seed)
    own = range(1 + seed % WRITERS, 61, WRITERS)  # writers share no seat, so none waits for another
    connection = await asyncpg.connect(booking.dsn)
    try:
        for _ in range(ROUNDS):
            transaction = connection.transaction()
            await transaction.start()
            for _ in range(chance.randint(1, 4)):
                seats = chance.sample(own, chance.randint(1, 5))
                await booking.set_state(chance.choice(STATES), *seats, connection=connection)
                await asyncio.sleep(chance.random() * 0.02)
            await (transaction.rollback() if chance.random() < 0.2 else transaction.commit())
    finally:
        await connection.close()


async def join(follower: Follower, section: str, chance: random.Random) -> tuple[Client, View]:
    """Takes a snapshot, and follows from some ticks later, with or without saying what it saw."""
    client = Client(section)
    client.fetch((await follower.view(EVENT)).snapshot(section))
    await asyncio.sleep(chance.random() * 0.2)
    view, first = await follower.subscribe(EVENT, section, client, client.watermark if chance.random() < 0.5 else "")
    if first is not None:
        client.deliver(first)
    return client, view


@pytest.mark.parametrize("seed", range(4))
async def test_snapshot_and_deltas_end_at_the_table(booking: Booking, house: House, seed: int) -> None:
    chance = random.Random(seed)
    ingester, follower, other = house.ingester(), house.follower(), house.follower()
    await lead(ingester)
    await follow(follower)
    writers = [asyncio.create_task(buy_and_sell(booking, seed * WRITERS + number)) for number in range(WRITERS)]
    clients: list[tuple[Client, View]] = []
    async with AsyncExitStack() as stack:
        stack.callback(lambda: [writer.cancel() for writer in writers])
        while len(clients) <= 5 or not all(writer.done() for writer in writers):
            await tick(ingester)
            await follow(follower)
            clients.append(await join(follower, chance.choice(["", "A", "B", "C"]), chance))
        await asyncio.gather(*writers)
    # A process that has just begun: what it read from the store lets the clients of the first one go on.
    await follow(other)
    moved = [await other.subscribe(EVENT, client.section, client, client.watermark) for client, _ in clients[:5]]
    for (client, view), (_, first) in zip(clients[:5], moved, strict=True):
        view.unsubscribe(client.section, client)
        if first is not None:
            client.deliver(first)
    await tick(ingester)
    for one in (follower, other):
        await follow(one)

    states = await booking.states()
    for client, _ in clients:
        assert not client.must_fetch
        assert client.counts == await booking.counts()
        shown = {seat: PUBLIC.get(state, Standing.TAKEN) for seat, (name, state) in states.items()}
        assert client.seats == {seat: shown[seat] for seat in client.seats}
        assert bool(client.seats) == bool(client.section)
    assert any(update.sections for client, _ in clients for update in client.updates)
