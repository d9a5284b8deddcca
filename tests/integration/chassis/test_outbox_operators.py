"""Looking, trying again, giving up, publishing again, deleting, measuring."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from prometheus_client import REGISTRY

from chassis.errors import InvalidArgument
from chassis.outbox import Keeper, MessageNotFound, Outboxes, Relay, keeper, operators
from tests.integration.chassis.outboxes import SINK, Sink, drain, put
from tests.integration.chassis.test_outbox import statement_of


@pytest.fixture
async def other(database: Callable[..., Awaitable[str]]) -> AsyncIterator[asyncpg.Pool]:
    made = await asyncpg.create_pool(await database("payments"), min_size=1, max_size=4)
    yield made
    await made.close()


async def park(pool: asyncpg.Pool, aggregate: str) -> None:
    await pool.execute(
        "UPDATE outbox SET parked_time = clock_timestamp(), refusals = 8, last_refusal = 'ValueError: no'"
        " WHERE aggregate_id = $1",
        aggregate,
    )


async def days_pass(pool: asyncpg.Pool, days: float) -> None:
    await pool.execute(
        "UPDATE outbox SET created_time = created_time - d, due_time = due_time - d,"
        " published_time = published_time - d, parked_time = parked_time - d"
        " FROM (SELECT $1 * interval '1 day' AS d) x",
        days,
    )


def ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


async def listed(outboxes: Outboxes, *, parked: bool = False, page_size: int = 3) -> list[str]:
    """Every page's aggregates."""
    found, token = [], ""
    while True:
        entries, token = await outboxes.list_outbox(parked=parked, page_size=page_size, page_token=token)
        assert len(entries) <= page_size
        found += [f"{entry.database} {entry.aggregate_id}" for entry in entries]
        if not token:
            return found


async def test_list_outbox_pages_over_databases(pool: asyncpg.Pool, other: asyncpg.Pool) -> None:
    for number in range(6):
        await put(pool, f"a{number}", payment_token="pm_secret")
    for number in range(4):
        await put(other, f"b{number}")
    await park(other, "b2")
    outboxes = Outboxes({"s1": pool, "s2": other})
    everything = [f"s1 a{n}" for n in range(6)] + [f"s2 b{n}" for n in range(4)]
    for page_size in (1, 3, 6, 10, 100):
        assert await listed(outboxes, page_size=page_size) == everything
    assert await listed(outboxes, parked=True) == ["s2 b2"]
    (entry,), _ = await outboxes.list_outbox(parked=True, page_size=0, page_token="")
    assert (entry.refusals, entry.last_refusal, entry.sink, entry.kind) == (8, "ValueError: no", SINK, "charge")
    assert "pm_secret" not in str(await outboxes.list_outbox(parked=False, page_size=0, page_token=""))
    await drain(Relay(pool, SINK, Sink()))
    assert await listed(outboxes) == everything[6:]


async def test_list_outbox_is_in_order_over_sinks(pool: asyncpg.Pool) -> None:
    """Three sinks in turn, some of whose messages are parked, or published."""
    for number in range(18):
        await put(pool, f"a{number}", sink=f"sink {number % 3}")
    for number in (1, 5, 9, 17):
        await park(pool, f"a{number}")
    await pool.execute(
        "UPDATE outbox SET published_time = clock_timestamp() WHERE aggregate_id IN ('a0', 'a10', 'a11')"
    )
    left = [f"s1 a{n}" for n in range(18) if n not in (0, 10, 11)]
    for page_size in (1, 2, 4, 15, 100):
        assert await listed(Outboxes({"s1": pool}), page_size=page_size) == left
        parked = await listed(Outboxes({"s1": pool}), parked=True, page_size=page_size)
        assert parked == [f"s1 a{n}" for n in (1, 5, 9, 17)]


@pytest.mark.parametrize("token", ["7", "msg_s9_7", "ord_s1_7", "msg_s1_" + "z" * 20])
async def test_list_outbox_refuses_tokens_that_are_not_ours(pool: asyncpg.Pool, token: str) -> None:
    with pytest.raises(InvalidArgument):
        await Outboxes({"s1": pool}).list_outbox(parked=False, page_size=0, page_token=token)
    with pytest.raises(InvalidArgument):
        await Outboxes({"s1": pool}).list_outbox(parked=False, page_size=-1, page_token="")


async def test_retry_message_gives_it_all_its_tries_again(pool: asyncpg.Pool) -> None:
    await put(pool, "a", "first")
    await put(pool, "a", "second")
    await pool.execute("UPDATE outbox SET parked_time = clock_timestamp(), refusals = 8 WHERE kind = 'first'")
    sink, outboxes = Sink(), Outboxes({"s1": pool})
    assert await drain(Relay(pool, SINK, sink)) == 0
    await outboxes.retry_message("msg_s1_1")
    await drain(Relay(pool, SINK, sink))
    assert sink.of("a") == ["first", "second"]
    with pytest.raises(MessageNotFound):
        await outboxes.retry_message("msg_s1_1")


async def test_drop_message_lets_later_ones_go_on(pool: asyncpg.Pool) -> None:
    await put(pool, "a", "first")
    await put(pool, "a", "second")
    await pool.execute("UPDATE outbox SET parked_time = clock_timestamp() WHERE kind = 'first'")
    sink, outboxes = Sink(), Outboxes({"s1": pool})
    await outboxes.drop_message("msg_s1_1")
    await drain(Relay(pool, SINK, sink))
    assert sink.of("a") == ["second"]
    with pytest.raises(MessageNotFound):
        await outboxes.drop_message("msg_s1_1")


@pytest.mark.parametrize("message_id", ["msg_s1_1", "msg_s1_99", "msg_s2_1", "1", ""])
async def test_what_is_not_parked_is_neither_retried_nor_dropped(pool: asyncpg.Pool, message_id: str) -> None:
    await put(pool, "a")
    outboxes = Outboxes({"s1": pool})
    for call in (outboxes.retry_message, outboxes.drop_message):
        with pytest.raises(MessageNotFound):
            await call(message_id)
    assert await pool.fetchval("SELECT count(*) FROM outbox") == 1


async def test_republish_sends_again_what_was_published_since(
    pool: asyncpg.Pool, other: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "REPUBLISH_BATCH", 2)
    sink, outboxes = Sink(), Outboxes({"s1": pool, "s2": other})
    await put(pool, "old")
    await drain(Relay(pool, SINK, sink))
    await days_pass(pool, 2)
    for number in range(5):
        await put(pool, "new", str(number))
    await put(pool, "elsewhere", sink="payments")
    await put(other, "new there")
    for each in (pool, other):
        await drain(Relay(each, SINK, sink))
        await drain(Relay(each, "payments", Sink()))
    sink.got.clear()
    assert await outboxes.republish(SINK, ago(1)) == 6
    assert await outboxes.republish(SINK, ago(1)) == 0  # they wait already
    for each in (pool, other):
        await drain(Relay(each, SINK, sink))
    assert sink.got == [("new", str(number)) for number in range(5)] + [("new there", "charge")]
    assert await outboxes.republish(SINK, ago(3)) == 7
    assert await outboxes.republish(SINK, ago(-1)) == 0
    assert await outboxes.republish(SINK, ago(7)) == 0
    with pytest.raises(InvalidArgument):
        await outboxes.republish(SINK, ago(7.1))


async def fill(pool: asyncpg.Pool, messages: int, *, every: int = 1) -> None:
    """Published messages, a second apart and the last of them now; one in `every` is for SINK, the others are not."""
    await pool.execute(
        "INSERT INTO outbox (sink, aggregate_id, kind, payload, created_time, due_time, published_time)"
        " SELECT CASE WHEN n % $3 = 0 THEN $1 ELSE 'payments' END, CAST(n AS text), 'charge', '{}', t, t, t"
        " FROM (SELECT n, clock_timestamp() - ($2 - n) * interval '1 s' AS t FROM generate_series(1, $2) n) x",
        SINK,
        messages,
        every,
    )


@pytest.mark.parametrize("batch", [1, 2, 7, 1000])
async def test_republish_leaves_out_nothing_between_batches(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """Batches with nothing for the sink, and many messages published in one moment."""
    monkeypatch.setattr(operators, "REPUBLISH_BATCH", batch)
    await fill(pool, 40, every=10)
    moment = await pool.fetchval("SELECT min(published_time) FROM outbox WHERE sink = $1", SINK)
    await pool.execute("UPDATE outbox SET published_time = $1 WHERE message_id BETWEEN 5 AND 20", moment)
    assert await Outboxes({"s1": pool}).republish(SINK, ago(1)) == 4
    rows = await pool.fetch("SELECT sink, published_time IS NULL AS again, count(*) FROM outbox GROUP BY 1, 2")
    assert {tuple(row) for row in rows} == {(SINK, True, 4), ("payments", False, 36)}


async def test_republish_begins_at_its_start(pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "REPUBLISH_BATCH", 2)
    await fill(pool, 9)
    start = await pool.fetchval("SELECT published_time FROM outbox WHERE message_id = 4")
    assert await Outboxes({"s1": pool}).republish(SINK, start) == 6
    assert await pool.fetchval("SELECT count(*) FROM outbox WHERE published_time IS NULL AND message_id >= 4") == 6


async def test_two_republish_at_once_publish_each_message_again_once(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "REPUBLISH_BATCH", 5)
    await fill(pool, 60)
    counts = await asyncio.gather(*(Outboxes({"s1": pool}).republish(SINK, ago(1)) for _ in range(3)))
    assert sum(counts) == 60
    assert await pool.fetchval("SELECT count(*) FROM outbox WHERE published_time IS NULL") == 60


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
async def test_a_late_batch_of_republish_reads_no_more_than_an_early_one(pool: asyncpg.Pool, mode: str) -> None:
    """The last of thirty batches, with a sink that has few of the messages: its position is where it begins."""
    await fill(pool, 30_000, every=50)
    await pool.execute("ANALYZE outbox")
    start, late, now = await pool.fetchrow(
        "SELECT min(published_time), max(published_time) - interval '500 s', now() FROM outbox"
    )
    types = {"sink": "text", "start_time": "timestamptz", "asked_time": "timestamptz"}
    types |= {"after_time": "timestamptz", "after_id": "bigint", "most": "int"}
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        prepared = await connection.prepare(statement_of("republish", **types))
        for position in (start, late):
            plan = (await prepared.explain(SINK, start, now, position, 0, 1000, analyze=True))[0]["Plan"]
            scans = [node for node in nodes_of(plan) if "Scan" in node["Node Type"] and "Index Name" in node]
            assert {node["Index Name"] for node in scans} <= {"outbox_published_in_order", "outbox_pkey"}
            assert "outbox_published_in_order" in {node["Index Name"] for node in scans}
            assert "'Seq Scan'" not in str(plan)
            for node in scans:
                read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
                assert read * node["Actual Loops"] <= 1100, node


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The plan and everything under it."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes_of(below)


async def test_a_republished_message_is_not_published_by_an_older_claim(pool: asyncpg.Pool) -> None:
    await put(pool, "a")
    stale = Relay(pool, SINK, Sink())
    claimed = await stale._claim(1)
    await pool.execute("UPDATE outbox SET claimed_until = NULL")
    await drain(Relay(pool, SINK, Sink()))
    await Outboxes({"s1": pool}).republish(SINK, ago(1))
    await stale._settle([(claimed[0], None)])
    assert await pool.fetchval("SELECT published_time FROM outbox") is None


async def test_published_messages_are_kept_seven_days_and_parked_ones_for_ever(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "MOST_DELETED", 4)
    for number in range(10):
        await put(pool, f"old {number}")
    await drain(Relay(pool, SINK, Sink()))
    await put(pool, "parked")
    await park(pool, "parked")
    await put(pool, "waiting")
    await days_pass(pool, 6.9)
    each = Keeper(pool, "s1")
    assert not await each.run_once()
    assert await pool.fetchval("SELECT count(*) FROM outbox") == 12
    await days_pass(pool, 0.2)
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT FROM outbox WHERE aggregate_id = 'old 0' FOR UPDATE")
        assert [await each.run_once() for _ in range(3)] == [True, True, False]  # nobody waits for the one
    assert await pool.fetchval("SELECT count(*) FROM outbox") == 3
    await each.run_once()
    left = await pool.fetch("SELECT aggregate_id FROM outbox ORDER BY message_id")
    assert [row[0] for row in left] == ["parked", "waiting"]


async def test_messages_without_a_relay_wait_seven_days(pool: asyncpg.Pool) -> None:
    for aggregate, sink in (("a", "unread"), ("b", "unread"), ("c", "unread"), ("d", SINK)):
        await put(pool, aggregate, sink=sink)
    await park(pool, "b")
    await pool.execute("UPDATE outbox SET claim_number = 1 WHERE aggregate_id = 'c'")  # some process has a relay
    each = Keeper(pool, "s1", unread=["unread"])
    await days_pass(pool, 6.9)
    await each.run_once()
    assert await pool.fetchval("SELECT count(*) FROM outbox") == 4
    await days_pass(pool, 0.2)
    await Keeper(pool, "s1").run_once()
    assert await pool.fetchval("SELECT count(*) FROM outbox") == 4
    await each.run_once()
    left = await pool.fetch("SELECT aggregate_id FROM outbox ORDER BY message_id")
    assert [row[0] for row in left] == ["b", "c", "d"]


async def test_each_database_has_its_own_gauges(pool: asyncpg.Pool, other: asyncpg.Pool) -> None:
    def gauge(name: str, database: str, sink: str = SINK) -> float:
        value = REGISTRY.get_sample_value(f"rowlock_outbox_{name}", {"database": database, "sink": sink})
        assert value is not None
        return value

    for number in range(3):
        await put(pool, f"a{number}")
    await park(pool, "a0")
    await days_pass(pool, 1)
    await put(other, "b")
    first, second = Keeper(pool, "m1"), Keeper(other, "m2", sinks=["quiet"])
    await first.run_once()
    await second.run_once()
    assert [gauge("depth", name) for name in ("m1", "m2")] == [2, 1]
    assert [gauge("parked", name) for name in ("m1", "m2")] == [1, 0]
    assert gauge("oldest_seconds", "m1") == pytest.approx(86_400, abs=60)
    assert gauge("oldest_seconds", "m2") < 60
    assert gauge("parked", "m2", "quiet") == 0
    await drain(Relay(other, SINK, Sink()))
    await second.run_once()
    assert (gauge("depth", "m1"), gauge("depth", "m2"), gauge("oldest_seconds", "m2")) == (2, 0, 0)
