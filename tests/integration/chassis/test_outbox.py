import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from chassis import outbox
from chassis.outbox import Message, Relay, SinkUnavailable
from chassis.postgres import finished


@pytest.fixture
async def pool(database: Callable[..., Awaitable[str]]) -> AsyncIterator[asyncpg.Pool]:
    made = await asyncpg.create_pool(await database("payments"), min_size=1, max_size=8)
    yield made
    await made.close()


async def put(pool: asyncpg.Pool, aggregate: str, kind: str = "charge") -> None:
    async with pool.acquire() as connection, connection.transaction():
        await outbox.put(connection, sink="tried", aggregate_id=aggregate, kind=kind, payload={"order": aggregate})


class Sink:
    """Remembers what it was given; raises `fault` instead while it is set."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str]] = []
        self.fault: Exception | None = None
        self.faults = 0

    async def __call__(self, message: Message) -> None:
        if self.fault:
            self.faults += 1
            raise self.fault
        self.got.append((message.aggregate_id, message.kind))


async def drain(relay: Relay) -> int:
    """Runs until there is nothing to claim; rounds that worked."""
    rounds = 0
    while await relay.run_once():
        rounds += 1
    return rounds


async def test_messages_of_one_aggregate_go_in_order_and_once(pool: asyncpg.Pool) -> None:
    for kind in ("first", "second", "third"):
        await put(pool, "a", kind)
        await put(pool, "b", kind)
    sink = Sink()
    await drain(Relay(pool, "tried", sink))
    assert [kind for who, kind in sink.got if who == "a"] == ["first", "second", "third"]
    assert len(sink.got) == 6


async def test_several_relays_deliver_each_message_once(pool: asyncpg.Pool) -> None:
    for number in range(200):
        await put(pool, f"order {number}")
    sink = Sink()
    await asyncio.gather(*(drain(Relay(pool, "tried", sink)) for _ in range(4)))
    assert sorted(sink.got) == sorted((f"order {n}", "charge") for n in range(200))


async def test_a_sink_that_is_away_spends_no_tries(pool: asyncpg.Pool) -> None:
    await put(pool, "a")
    sink = Sink()
    sink.fault = SinkUnavailable()
    for _ in range(outbox.MOST_REFUSALS + 2):
        assert await Relay(pool, "tried", sink).run_once() == 0
    assert sink.faults == outbox.MOST_REFUSALS + 2
    sink.fault = None
    assert await Relay(pool, "tried", sink).run_once() == 1
    assert sink.got == [("a", "charge")]


async def test_a_message_refused_too_often_is_parked_and_the_others_go_on(pool: asyncpg.Pool) -> None:
    await put(pool, "poison")
    await put(pool, "poison", "later")
    sink = Sink()
    sink.fault = ValueError("no such order")
    for _ in range(outbox.MOST_REFUSALS):
        await Relay(pool, "tried", sink).run_once()
        await pool.execute("UPDATE outbox SET claimed_until = NULL")  # its rest is over
    assert sink.faults == outbox.MOST_REFUSALS
    sink.fault = None
    await put(pool, "good")
    await drain(Relay(pool, "tried", sink))
    assert sink.got == [("good", "charge")]
    row = await pool.fetchrow(
        "SELECT parked_time, last_refusal FROM outbox WHERE kind = 'charge' AND parked_time > 'epoch'"
    )
    assert row["last_refusal"] == "ValueError: no such order"


async def test_a_claim_of_a_dead_relay_ends_by_the_databases_clock(pool: asyncpg.Pool) -> None:
    await put(pool, "a")
    dead, sink = Relay(pool, "tried", Sink()), Sink()
    assert len(await dead._claim()) == 1
    assert await Relay(pool, "tried", sink).run_once() == 0
    await pool.execute("UPDATE outbox SET claimed_until = clock_timestamp() - interval '1 ms'")
    assert await Relay(pool, "tried", sink).run_once() == 1


async def test_what_rolled_back_is_never_delivered(pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await outbox.put(connection, sink="tried", aggregate_id="a", kind="charge", payload={})
        await transaction.rollback()
    assert await Relay(pool, "tried", Sink()).run_once() == 0


async def test_a_refused_message_rests_twice_as_long_each_time(pool: asyncpg.Pool) -> None:
    await put(pool, "poison")
    sink, rests = Sink(), []
    sink.fault = ValueError("no such order")
    for _ in range(4):
        await Relay(pool, "tried", sink).run_once()
        rests.append(await pool.fetchval("SELECT extract(epoch FROM claimed_until - clock_timestamp()) FROM outbox"))
        assert await Relay(pool, "tried", sink).run_once() == 0  # it rests
        await pool.execute("UPDATE outbox SET claimed_until = NULL")
    assert sink.faults == 4
    assert 0.5 < rests[0] <= 2
    assert 7 < rests[3] <= 16


async def test_what_is_left_is_counted_also_while_there_is_work(pool: asyncpg.Pool) -> None:
    for kind in ("first", "second", "third"):
        await put(pool, "a", kind)
    assert await Relay(pool, "tried", Sink()).run_once() == 1
    assert outbox.DEPTH.labels("tried")._value.get() == 3
    assert outbox.OLDEST.labels("tried")._value.get() > 0


async def test_a_relay_that_is_stopped_still_notes_what_it_delivered(pool: asyncpg.Pool) -> None:
    await put(pool, "a")
    delivered = asyncio.Event()

    async def deliver(_message: Message) -> None:
        delivered.set()

    async with pool.acquire() as other, other.transaction():
        task = asyncio.create_task(Relay(pool, "tried", deliver).run_once())
        await delivered.wait()
        await other.execute("SELECT FROM outbox FOR UPDATE")
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await finished()
    assert await pool.fetchval("SELECT published_time IS NOT NULL FROM outbox")
