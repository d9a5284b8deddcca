"""Relays that die, stall and overlap. Each guard has a control that breaks without it."""

import asyncio
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import aiosql
import asyncpg
import pytest

from chassis.outbox import Message, Relay, SinkUnavailable, relay, statements
from tests.integration.chassis.outboxes import SINK, Sink, Slow, drain, end_rests, put

SEEDS = range(int(os.environ.get("ROWLOCK_OUTBOX_SEEDS", "4")))

# What any claim passes instead: a statement must still take all its parameters.
FENCE = {"claim_number = (CAST(:claim_numbers": "0 < (CAST(:claim_numbers"}
FENCE_OF_ONE = {"AND claim_number = :claim_number": "AND CAST(:claim_number AS int) > 0"}


def without(monkeypatch: pytest.MonkeyPatch, guards: dict[str, str]) -> None:
    """The relay's statements with something else for guards."""
    text = (Path(statements.__file__).parent / "outbox.sql").read_text()
    for guard, instead in guards.items():
        assert guard in text
        text = text.replace(guard, instead)
    monkeypatch.setattr(relay, "queries", aiosql.from_str(text, "asyncpg"))


async def test_crash_between_claim_and_delivery(pool: asyncpg.Pool) -> None:
    await put(pool, "a")
    dead, sink = Relay(pool, SINK, Sink()), Sink()
    assert len(await dead._claim(10)) == 1
    alive = Relay(pool, SINK, sink)
    assert await alive.run_once() == 0
    await end_rests(pool)
    assert await alive.run_once() == 1
    assert sink.of("a") == ["charge"]


async def test_crash_between_delivery_and_publish_delivers_twice(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(pool, "a", "first")
    await put(pool, "a", "second")
    sink = Sink()
    crashing = Relay(pool, SINK, sink)

    async def crash(_: Any) -> int:
        raise ConnectionError("killed")

    monkeypatch.setattr(crashing, "_settle", crash)
    with pytest.raises(ConnectionError):
        await crashing.run_once()
    assert await drain(Relay(pool, SINK, sink)) == 0
    await end_rests(pool)
    await drain(Relay(pool, SINK, sink))
    assert sink.of("a") == ["first", "first", "second"]


async def test_a_relay_that_is_stopped_lets_go_of_its_deliveries(pool: asyncpg.Pool) -> None:
    await put(pool, "a")
    slow = Slow()
    stopped = Relay(pool, SINK, slow)
    running = asyncio.create_task(stopped.run_once())
    await slow.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait(stopped.under_way)
    assert slow.got == []
    assert await pool.fetchval("SELECT published_time FROM outbox") is None


async def test_a_delivery_ends_before_its_claim(pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert relay.DELIVERY_SECONDS <= relay.CLAIM_SECONDS / 2
    monkeypatch.setattr(relay, "DELIVERY_SECONDS", 0.1)
    monkeypatch.setattr(relay, "STRAGGLER_SECONDS", 20)
    await put(pool, "a")
    slow = Slow()
    assert await Relay(pool, SINK, slow).run_once() == 0
    slow.go.set()
    await asyncio.sleep(0)
    row = await pool.fetchrow("SELECT published_time, refusals FROM outbox")
    assert (slow.got, row["published_time"], row["refusals"]) == ([], None, 0)


async def overlap(pool: asyncpg.Pool, end: Exception | None) -> tuple[Relay, Slow]:
    """A first relay ends its delivery with `end` after its claim ran out, while a second one delivers the message."""
    await put(pool, "a", "first")
    late, slow = Slow(), Slow()
    late.fault = lambda _: end
    first, second = Relay(pool, SINK, late), Relay(pool, SINK, slow)
    await first.run_once()
    await end_rests(pool)
    await second.run_once()
    assert late.begun.is_set()
    assert slow.begun.is_set()
    late.go.set()
    await first.run_once()
    return second, slow


async def undecided(pool: asyncpg.Pool) -> bool:
    """Whether the message is as its second claim left it."""
    row = await pool.fetchrow(
        "SELECT published_time IS NULL AND refusals = 0 AS untouched,"
        " claimed_until > clock_timestamp() + interval '5 s' AS claimed FROM outbox"
    )
    return bool(row["untouched"] and row["claimed"])


LATE_ENDS = [None, SinkUnavailable(), ValueError("no such order")]


@pytest.mark.parametrize("end", LATE_ENDS)
async def test_a_lost_claim_decides_nothing(pool: asyncpg.Pool, end: Exception | None) -> None:
    second, slow = await overlap(pool, end)
    assert await undecided(pool)
    slow.go.set()
    assert await second.run_once() == 1
    assert await pool.fetchval("SELECT published_time IS NOT NULL FROM outbox")


@pytest.mark.parametrize("end", LATE_ENDS)
async def test_control_without_the_claim_number_a_late_relay_decides(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch, end: Exception | None
) -> None:
    without(monkeypatch, FENCE_OF_ONE if isinstance(end, ValueError) else FENCE)
    await overlap(pool, end)
    assert not await undecided(pool)


PUBLISHED_ONCE = {"   AND num_nonnulls(published_time, parked_time) = 0;": ";"}
KEPT = "SELECT published_time, parked_time, refusals, claim_number FROM outbox"


def lost_claims() -> float:
    return float(relay.DELIVERIES.labels(SINK, "CLAIM_LOST")._value.get())


@pytest.mark.parametrize("end", [None, ValueError("no such order")], ids=["published", "parked"])
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
async def test_a_late_mark_does_not_publish_what_another_relay_ended(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch, end: Exception | None, guarded: bool
) -> None:
    """A first relay is so slow that its claim ends, and a second one publishes the message, or parks it; then the first
    says that it was delivered."""
    monkeypatch.setattr(relay, "MOST_REFUSALS", 1)
    if not guarded:
        without(monkeypatch, FENCE | PUBLISHED_ONCE)
        await pool.execute("ALTER TABLE outbox DROP CONSTRAINT published_messages_are_not_parked")
    await put(pool, "a")
    late, prompt = Slow(), Sink()
    prompt.fault = lambda _: end
    first, second = Relay(pool, SINK, late), Relay(pool, SINK, prompt)
    await first.run_once()
    await end_rests(pool)
    await second.run_once()
    before, lost = await pool.fetchrow(KEPT), lost_claims()
    assert (before["published_time"] is None, before["parked_time"] is None) == (bool(end), not end)

    late.go.set()
    assert await first.run_once() == 1

    assert late.of("a") == ["charge"]
    assert (await pool.fetchrow(KEPT) == before) == guarded
    assert lost_claims() - lost == guarded


@pytest.mark.parametrize("end", [None, ValueError("no such order")], ids=["published", "parked"])
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
async def test_one_claim_decides_once(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch, end: Exception | None, guarded: bool
) -> None:
    """The claim's number does not change when a message ends, so what it ended is a guard of its own."""
    monkeypatch.setattr(relay, "MOST_REFUSALS", 1)
    if not guarded:
        without(monkeypatch, PUBLISHED_ONCE)
        await pool.execute("ALTER TABLE outbox DROP CONSTRAINT published_messages_are_not_parked")
    await put(pool, "a")
    each = Relay(pool, SINK, Sink())
    (message,) = await each._claim(1)
    await each._settle([(message, end)])
    before, lost = await pool.fetchrow(KEPT), lost_claims()
    await each._settle([(message, None)])
    assert (await pool.fetchrow(KEPT) == before) == guarded
    assert lost_claims() - lost == guarded


class Chaos:
    """A sink of which each delivery may fail in any way; `effects` is what really happened, in order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.effects: dict[str, list[int]] = defaultdict(list)
        self.fired: dict[str, int] = defaultdict(int)

    async def __call__(self, message: Message) -> None:
        kind = self.random.choices(["ok", "slow", "stall", "away", "refused", "lost answer"], [60, 10, 6, 8, 8, 8])[0]
        self.fired[kind] += 1
        if kind in ("away", "refused"):
            raise SinkUnavailable if kind == "away" else ValueError(kind)
        await asyncio.sleep({"slow": 0.02, "stall": 5}.get(kind, 0))
        self.effects[message.aggregate_id].append(int(message.kind))
        if kind == "lost answer":
            raise SinkUnavailable


async def run_badly(pool: asyncpg.Pool, seed: int) -> Chaos:
    """Four relays, killed and started again now and then, on 20 aggregates of 6 messages, until nothing is left."""
    for number in range(6):
        for aggregate in range(20):
            await put(pool, f"order {aggregate}", str(number))
    chaos, deaths = Chaos(seed), random.Random(seed + 1000)

    async def live() -> None:
        each = Relay(pool, SINK, chaos, concurrency=8)
        while await pool.fetchval("SELECT count(*) FROM outbox WHERE published_time IS NULL"):
            round_ = asyncio.create_task(each.run_once())
            if deaths.random() < 0.1:
                await asyncio.sleep(deaths.random() * 0.01)
                round_.cancel()
                chaos.fired["death"] += 1
            await asyncio.wait([round_])
            if round_.cancelled():
                each = Relay(pool, SINK, chaos, concurrency=8)
            await asyncio.sleep(0.002)

    await asyncio.wait_for(asyncio.gather(*(live() for _ in range(4))), 60)
    return chaos


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims, rests and pauses so short that they run out all the time."""
    quick = {"CLAIM_SECONDS": 0.3, "DELIVERY_SECONDS": 0.15, "STRAGGLER_SECONDS": 0.01, "FIRST_REST_SECONDS": 0.01}
    pauses = {"LONGEST_REST_SECONDS": 0.02, "FIRST_PAUSE_SECONDS": 0.005, "LONGEST_PAUSE_SECONDS": 0.02}
    for name, value in (quick | pauses | {"MOST_REFUSALS": 1000}).items():
        monkeypatch.setattr(relay, name, value)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("seed", SEEDS)
async def test_order_is_kept_under_four_relays_and_random_faults(pool: asyncpg.Pool, seed: int) -> None:
    chaos = await run_badly(pool, seed)
    assert all(chaos.fired[kind] for kind in ("ok", "slow", "stall", "away", "refused", "lost answer", "death"))
    assert len(chaos.effects) == 20
    for aggregate, effects in chaos.effects.items():
        assert effects == sorted(effects), aggregate  # a repeat is allowed, an overtaking is not
        assert set(effects) == set(range(6)), aggregate  # and nothing is lost


@pytest.mark.usefixtures("hasty")
async def test_control_without_the_look_at_earlier_messages_they_overtake(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, {"AND o.message_id = (": "AND o.message_id >= ("})
    chaos = await run_badly(pool, 1)
    assert any(effects != sorted(effects) for effects in chaos.effects.values())
