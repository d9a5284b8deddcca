"""Claims: one worker at a time, by the database's clock; and what one that lost its claim can still do."""

import asyncio
from collections import Counter
from pathlib import Path

import aiosql
import asyncpg
import pytest

from services.payments.errors import ClaimLost, ConstraintBroken
from services.payments.rows import State, Verdict
from services.payments.store import attempts as store
from services.payments.store.attempts import Attempts
from tests.integration.payments.desk import charge_of

ORDERS = 40
SUCCEEDED = Verdict(State.SUCCEEDED)
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def attempts(pool: asyncpg.Pool) -> Attempts:
    return Attempts(pool, ambiguity_seconds=600, claim_seconds=30)


async def claim_by_many(attempts: Attempts) -> Counter[str]:
    """Eight claimers at once, while somebody holds the first row until each has claimed, or waits; how often each order
    was claimed."""
    for number in range(ORDERS):
        await attempts.insert(charge_of(f"ord_s1_{number + 1}"))
    async with attempts.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT FROM attempt WHERE order_id = 'ord_s1_1' FOR UPDATE")
        claimers = [asyncio.create_task(attempts.claim(ORDERS)) for _ in range(8)]
        for _ in range(1000):
            await connection.execute("SELECT pg_stat_clear_snapshot()")
            if await connection.fetchval(WAITING) >= sum(not claimer.done() for claimer in claimers):
                break
            await asyncio.sleep(0.01)
    return Counter(attempt.order_id for claim in await asyncio.gather(*claimers) for attempt in claim)


async def test_claim_gives_each_attempt_to_one_worker(attempts: Attempts) -> None:
    counts = await claim_by_many(attempts)

    assert len(counts) == ORDERS - 1  # the row that was held is passed over, and waited for by nobody
    assert set(counts.values()) == {1}


async def test_control_without_the_lock_attempts_are_claimed_twice(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(store.__file__).with_suffix(".sql").read_text()
    guard = "FOR NO KEY UPDATE SKIP LOCKED"
    assert guard in text
    monkeypatch.setattr(store, "queries", aiosql.from_str(text.replace(guard, ""), "asyncpg"))

    assert max((await claim_by_many(attempts)).values()) > 1


async def test_claim_ends_by_the_databases_clock(pool: asyncpg.Pool) -> None:
    attempts = Attempts(pool, ambiguity_seconds=600, claim_seconds=60)
    await attempts.insert(charge_of())
    (first,) = await attempts.claim(1)
    await pool.execute("UPDATE attempt SET due_time = due_time - interval '30 s'")
    assert await attempts.claim(1) == []
    await pool.execute("UPDATE attempt SET due_time = due_time - interval '30 s'")
    (second,) = await attempts.claim(1)

    assert second.claim_number == first.claim_number + 1
    with pytest.raises(ClaimLost):
        await attempts.record_send(first)
    await attempts.record_send(second)


async def test_a_lost_claim_writes_no_reference_and_no_doubt(attempts: Attempts) -> None:
    await attempts.insert(charge_of())
    (old,) = await attempts.claim(1)
    await attempts.record_send(old)
    await attempts.pool.execute("UPDATE attempt SET due_time = clock_timestamp()")
    (new,) = await attempts.claim(1)

    with pytest.raises(ClaimLost):
        await attempts.record_reference(old, "pi_old")
    assert not await attempts.record_verdict(old, Verdict(State.UNKNOWN))
    await attempts.record_reference(new, "pi_new")
    row = await attempts.get(new.order_id)
    assert row is not None
    assert (row.state, row.processor_reference) == (State.SENT, "pi_new")


async def test_a_replayed_charge_has_something_to_commit(attempts: Attempts) -> None:
    """So that the answer covers the first one's commit, on the standby too."""
    await attempts.insert(charge_of())
    async with attempts.pool.acquire() as connection, connection.transaction():
        await store.insert(connection, charge_of())
        assert await connection.fetchval("SELECT pg_current_xact_id_if_assigned()") is not None


async def test_an_outcome_is_written_once_with_one_message(attempts: Attempts) -> None:
    await attempts.insert(charge_of())
    (claimed,) = await attempts.claim(1)
    await attempts.record_send(claimed)
    sent = await attempts.record_reference(claimed, "pi_1")
    failed = Verdict(State.FAILED, failure_reason="CARD_DECLINED")

    written = await asyncio.gather(*(attempts.record_verdict(sent, SUCCEEDED) for _ in range(6)))

    assert sorted(written) == [False] * 5 + [True]
    assert not await attempts.record_verdict(sent, failed)
    assert not await attempts.record_verdict(sent, Verdict(State.UNKNOWN))
    assert await attempts.pool.fetchval("SELECT count(*) FROM outbox") == 1


async def test_a_failure_gives_way_to_late_evidence_of_success(attempts: Attempts) -> None:
    await attempts.insert(charge_of())
    (claimed,) = await attempts.claim(1)
    await attempts.record_send(claimed)
    sent = await attempts.record_reference(claimed, "pi_1")
    await attempts.record_verdict(sent, Verdict(State.FAILED, failure_reason="PAYMENT_TIMED_OUT"))

    assert await attempts.record_verdict(sent, SUCCEEDED)
    row = await attempts.get(sent.order_id)
    assert row is not None
    assert (row.state, row.failure_reason) == (State.SUCCEEDED, None)


async def test_an_attempt_never_sent_cannot_be_settled(attempts: Attempts) -> None:
    await attempts.insert(charge_of())
    (claimed,) = await attempts.claim(1)

    assert not await attempts.record_verdict(claimed, SUCCEEDED)
    assert not await attempts.record_verdict(claimed, Verdict(State.FAILED, failure_reason="CARD_DECLINED"))


async def test_a_broken_constraint_tells_its_name_and_no_token(attempts: Attempts) -> None:
    for number in (1, 2):
        await attempts.insert(charge_of(f"ord_s1_{number}"))
    one, two = await attempts.claim(2)
    for attempt in (one, two):
        await attempts.record_send(attempt)
    await attempts.record_reference(one, "pi_1")

    with pytest.raises(ConstraintBroken, match=r"^an_intent_belongs_to_one_order$") as caught:
        await attempts.record_reference(two, "pi_1")
    assert caught.value.__cause__ is None
