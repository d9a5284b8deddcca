"""What a relay does with messages while all goes well, and while its sink does not."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from chassis import outbox
from chassis.outbox import Message, Relay, SinkUnavailable, relay, statements
from chassis.outbox.relay import Pause
from chassis.postgres import finished
from tests.integration.chassis.outboxes import SINK, Sink, Slow, drain, end_rests, put, until

WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

MANY = 20  # all of them in one fifth of the time over which they are spread: once in 10¹² runs


async def test_messages_of_one_aggregate_go_in_order_and_once(pool: asyncpg.Pool) -> None:
    for kind in ("first", "second", "third"):
        await put(pool, "a", kind)
        await put(pool, "b", kind)
    sink = Sink()
    await drain(Relay(pool, SINK, sink))
    assert sink.of("a") == sink.of("b") == ["first", "second", "third"]
    assert len(sink.got) == 6


async def test_several_relays_deliver_each_message_once(pool: asyncpg.Pool) -> None:
    for number in range(200):
        await put(pool, f"order {number}")
    sink = Sink()
    await asyncio.gather(*(drain(Relay(pool, SINK, sink)) for _ in range(4)))
    assert sorted(sink.got) == sorted((f"order {n}", "charge") for n in range(200))


async def test_a_claim_is_no_larger_than_the_relays_concurrency(pool: asyncpg.Pool) -> None:
    for number in range(9):
        await put(pool, f"order {number}")
    slow = Slow()
    narrow = Relay(pool, SINK, slow, concurrency=4)
    for _ in range(3):
        assert await narrow.run_once() == 4
    assert await pool.fetchval("SELECT count(*) FROM outbox WHERE claim_number > 0") == len(narrow.under_way) == 4
    slow.go.set()
    await drain(narrow)
    assert len(slow.got) == 9


async def test_one_slow_delivery_holds_up_nobody_else(pool: asyncpg.Pool) -> None:
    slow, sink = Slow(), Sink()
    both = Relay(pool, SINK, lambda message: (slow if message.aggregate_id == "slow" else sink)(message))
    await put(pool, "slow")
    await put(pool, "quick")
    assert await both.run_once() == 1
    await put(pool, "quicker")
    assert await both.run_once() == 1
    assert [who for who, _ in sink.got] == ["quick", "quicker"]
    slow.go.set()
    assert await both.run_once() == 1
    assert await pool.fetchval("SELECT count(*) FROM outbox WHERE published_time IS NULL") == 0


async def test_a_sink_that_is_away_is_left_alone_longer_each_time(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "FIRST_PAUSE_SECONDS", 30)  # no pause is over before the test ends it
    monkeypatch.setattr(relay, "LONGEST_PAUSE_SECONDS", 300)
    for number in range(100):
        await put(pool, f"order {number}")
    sink = Sink()
    sink.fault = lambda _: SinkUnavailable()
    paused = Relay(pool, SINK, sink)
    pauses = []
    for calls in (relay.CONCURRENCY, relay.PROBES, relay.PROBES, relay.PROBES):
        before = sink.faults
        for _ in range(20):  # a worker that is woken again and again
            assert await paused.run_once() == 0
        assert sink.faults - before == calls
        pauses.append(paused.pause.ends - asyncio.get_running_loop().time())
        await end_rests(pool, paused)
    assert pauses[3] > pauses[1] > 0
    assert await pool.fetchval("SELECT max(refusals) FROM outbox") == 0


async def test_after_an_hour_without_the_sink_everything_goes_out(pool: asyncpg.Pool) -> None:
    for number in range(150):
        await put(pool, f"order {number}", "first")
        await put(pool, f"order {number}", "second")
    sink = Sink()
    sink.fault = lambda _: SinkUnavailable()
    patient = Relay(pool, SINK, sink)
    for _ in range(130):  # as many pauses of 30 s as an hour has, and the short ones before
        await patient.run_once()
        await end_rests(pool, patient)
    assert sink.faults > 130
    row = await pool.fetchrow("SELECT max(refusals) AS refusals, count(parked_time) AS parked FROM outbox")
    assert (row["refusals"], row["parked"]) == (0, 0)
    sink.fault = lambda _: None
    await drain(patient)
    assert len(sink.got) == 300
    assert all(sink.of(f"order {number}") == ["first", "second"] for number in range(150))


async def test_one_message_without_an_answer_does_not_pause_its_sink(pool: asyncpg.Pool) -> None:
    sink = Sink()
    sink.fault = lambda message: SinkUnavailable() if message.aggregate_id == "a" else None
    mixed = Relay(pool, SINK, sink)
    for kind in ("first", "second"):
        await put(pool, "a", kind)
        await put(pool, "b", kind)
    assert await drain(mixed) == 2
    assert (sink.of("a"), sink.of("b"), sink.faults) == ([], ["first", "second"], 1)
    sink.fault = lambda _: None
    await end_rests(pool)
    await drain(mixed)
    assert sink.of("a") == ["first", "second"]


async def test_a_message_refused_too_often_is_parked_and_the_others_go_on(pool: asyncpg.Pool) -> None:
    await put(pool, "poison")
    await put(pool, "poison", "later")
    sink = Sink()
    sink.fault = lambda message: ValueError("no such order") if message.aggregate_id == "poison" else None
    strict = Relay(pool, SINK, sink)
    for _ in range(relay.MOST_REFUSALS):
        await put(pool, "good")
        await drain(strict)
        await end_rests(pool)
    assert sink.faults == relay.MOST_REFUSALS
    await drain(strict)
    assert sink.got == [("good", "charge")] * relay.MOST_REFUSALS
    row = await pool.fetchrow("SELECT kind, last_refusal FROM outbox WHERE parked_time > 'epoch'")
    assert tuple(row) == ("charge", "ValueError: no such order")


async def test_a_refused_message_rests_twice_as_long_each_time(pool: asyncpg.Pool) -> None:
    await put(pool, "poison")
    sink = Sink()
    sink.fault = lambda _: ValueError()
    for number in range(relay.MOST_REFUSALS - 1):
        began = await pool.fetchval("SELECT clock_timestamp()")
        await Relay(pool, SINK, sink).run_once()
        until, now = await pool.fetchrow("SELECT claimed_until, clock_timestamp() FROM outbox")
        full = timedelta(seconds=min(relay.FIRST_REST_SECONDS * 2**number, relay.LONGEST_REST_SECONDS))
        assert began + full / 2 <= until <= now + full
        await end_rests(pool)


@pytest.mark.parametrize(
    ("error", "constant"),
    [(ValueError("no such order"), "FIRST_REST_SECONDS"), (SinkUnavailable(), "FIRST_PAUSE_SECONDS")],
    ids=["refused", "away"],
)
async def test_messages_that_failed_together_do_not_come_back_together(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch, error: Exception, constant: str
) -> None:
    """Each rests between half of its time and all of it, spread over that."""
    monkeypatch.setattr(relay, constant, 300.0)  # beside which it is nothing how long it took to write them down
    monkeypatch.setattr(relay, "LONGEST_PAUSE_SECONDS", 300.0)
    monkeypatch.setattr(relay, "STRAGGLER_SECONDS", 20)
    for number in range(MANY):
        await put(pool, f"order {number}")
    sink = Sink()
    sink.fault = lambda _: error
    began = await pool.fetchval("SELECT clock_timestamp()")
    await Relay(pool, SINK, sink).run_once()
    ended = await pool.fetchval("SELECT clock_timestamp()")
    assert sink.faults == MANY
    ends = [row["claimed_until"] for row in await pool.fetch("SELECT claimed_until FROM outbox")]
    assert began + timedelta(seconds=150) <= min(ends)
    assert max(ends) <= ended + timedelta(seconds=300)
    assert max(ends) - min(ends) > (ended - began) + timedelta(seconds=30)


async def test_relays_whose_sink_is_away_do_not_come_back_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pauses between half of its time and all of it, spread over that; rows rest for all of it, with their own."""
    monkeypatch.setattr(relay, "FIRST_PAUSE_SECONDS", 100.0)
    monkeypatch.setattr(relay, "LONGEST_PAUSE_SECONDS", 200.0)
    time = asyncio.get_running_loop().time
    for rounds, full in ((0, 100.0), (1, 200.0), (9, 200.0)):
        pauses = [Pause(rounds) for _ in range(MANY)]
        began = time()
        assert {pause.lengthen() for pause in pauses} == {full}
        ended = time()
        ends = [pause.ends for pause in pauses]
        assert began + full / 2 <= min(ends)
        assert max(ends) <= ended + full
        assert max(ends) - min(ends) > (ended - began) + full / 10


async def test_other_sinks_of_an_aggregate_are_not_waited_for(pool: asyncpg.Pool) -> None:
    await put(pool, "a", sink="away")
    await put(pool, "a", "confirmed")
    sink = Sink()
    assert await Relay(pool, SINK, sink).run_once() == 1
    assert sink.of("a") == ["confirmed"]


async def test_what_rolled_back_is_never_delivered(pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await outbox.put(connection, sink=SINK, aggregate_id="a", kind="charge", payload={})
        await transaction.rollback()
    assert await Relay(pool, SINK, Sink()).run_once() == 0


async def test_the_claim_is_committed_before_anything_happens_outside(pool: asyncpg.Pool) -> None:
    await put(pool, "a")
    seen: list[int] = []

    async def look(_: Message) -> None:
        seen.append(await pool.fetchval("SELECT claim_number FROM outbox WHERE claimed_until > clock_timestamp()"))

    await drain(Relay(pool, SINK, look))
    assert seen == [1]


async def test_a_refusal_never_quotes_the_payloads_secrets(pool: asyncpg.Pool) -> None:
    await put(pool, "a", payment_token="pm_secret_1")
    sink = Sink()
    sink.fault = lambda message: ValueError(f"bad token {message.payload['payment_token']} of {message}")
    await Relay(pool, SINK, sink).run_once()
    refusal = await pool.fetchval("SELECT last_refusal FROM outbox")
    assert "bad token [redacted]" in refusal
    assert "pm_secret_1" not in refusal


@pytest.mark.parametrize("waiting", [100, 20_000])
async def test_claim_reads_no_more_than_it_takes(pool: asyncpg.Pool, waiting: int) -> None:
    await pool.execute(
        "INSERT INTO outbox (sink, aggregate_id, kind, payload, published_time)"
        " SELECT 'tried', n::text, 'charge', '{}', CASE WHEN n > $1 THEN clock_timestamp() END"
        " FROM generate_series(1, 30000) n",
        waiting,
    )
    await pool.execute("ANALYZE outbox")
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")  # as after its fifth run
        prepared = await connection.prepare(statement_of("claim", sink="text", most="int", seconds="float8"))
        plan = str(await prepared.explain("tried", 64, 30.0))
    assert waiting > 100 or "'outbox_waiting'" in plan
    assert "'outbox_unpublished_aggregate'" in plan
    for node in ("Seq Scan", "Hash", "Sort"):  # a claim reads what it takes, not what waits
        assert f"'{node}" not in plan


def statement_of(name: str, **types: str) -> str:
    """A statement with its parameters in this order."""
    text = re.sub(r"^--(?! name:).*\n", "", (Path(statements.__file__).parent / "outbox.sql").read_text(), flags=re.M)
    sql = text.partition(f"-- name: {name}(")[2].partition("\n")[2].partition(";")[0]
    for number, (parameter, type_) in enumerate(types.items(), 1):
        sql = sql.replace(f":{parameter}", f"CAST(${number} AS {type_})")
    return sql


async def test_a_relay_that_is_stopped_still_notes_what_it_delivered(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "STRAGGLER_SECONDS", 20)
    await put(pool, "a")

    async with pool.acquire() as other, other.transaction():

        async def deliver(_message: Message) -> None:
            await other.execute("SELECT FROM outbox FOR UPDATE")

        task = asyncio.create_task(Relay(pool, SINK, deliver).run_once())
        await until(pool, WAITS)  # for the row, to write down that it was delivered
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await finished()
    assert await pool.fetchval("SELECT published_time IS NOT NULL FROM outbox")
