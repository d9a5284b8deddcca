"""A session keeps the plan that it made while there were few attempts. However many there come to be, what payments
does with one of them reads as little as before."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiosql
import asyncpg
import pytest

from chassis.postgres import BY_INDEX_ONLY, open_pool
from services.payments.rows import Attempt, State, Verdict
from services.payments.store import attempts as store
from services.payments.store.attempts import Attempts
from services.payments.store.invariants import QUERIES, check_invariants
from tests.integration.payments.desk import charge_of
from tests.support.reads import PLANNINGS, Meter, observed, session, unset_planner

MANY = 200_000  # attempts: nine of ten are over, and of the others nearly all rest
MOST = 2_000  # rows and entries of indexes
DUE = 8
MORE = {"measure_unsettled": MANY // 5}  # it counts what has no outcome

# Orders of the past: of ten nine are over (one of them was declined, one abandoned), and one rests.
GROW = """
INSERT INTO attempt (order_id, state, currency_code, amount_minor, payment_token, processor_reference, failure_reason,
                     send_count, first_send_time, claim_number, due_time, create_time, settle_time, abandon_time)
SELECT 'old ' || n, CASE n % 10 WHEN 0 THEN 'UNKNOWN' WHEN 1 THEN 'FAILED' WHEN 2 THEN 'FAILED' ELSE 'SUCCEEDED' END,
       'EUR', 4200, 'pm_card_visa', 'pi_' || n,
       CASE n % 10 WHEN 1 THEN 'CARD_DECLINED' WHEN 2 THEN 'ABANDONED' END, 2, t, 1,
       CASE n % 10 WHEN 0 THEN now() + interval '30 s' ELSE t END, t, CASE WHEN n % 10 > 0 THEN t END,
       CASE n % 10 WHEN 2 THEN t END
  FROM (SELECT n, now() - interval '50 min' AS t FROM generate_series(1, CAST($1 AS int)) n) x
"""
# No trace of what the day's orders left.
FORGET = "DELETE FROM attempt WHERE order_id LIKE 'new%'"

# As two statements were.
OTHERWISE = {
    "due_time <= now()": "due_time <= clock_timestamp()",
    """  FROM (SELECT create_time FROM attempt WHERE settle_time IS NULL AND state <> 'UNRESOLVED'
         UNION ALL
        SELECT create_time FROM attempt WHERE state = 'UNRESOLVED') unsettled;
""": "  FROM attempt WHERE state IN ('CREATED', 'SENT', 'UNKNOWN', 'UNRESOLVED');",
}


class Day:
    """What is done with attempts, each call under the meter."""

    def __init__(self, pool: asyncpg.Pool, observer: asyncpg.Connection) -> None:
        self.observer, self.meter = observer, Meter(observer, pool)
        self.attempts = Attempts(pool, ambiguity_seconds=600, claim_seconds=30)

    async def run(self) -> None:
        """Leaves a dozen attempts behind: FORGET them before another day."""
        for number in range(DUE):
            await self.meter("insert", self.attempts.insert(charge_of(f"new {number}")))
        await self.meter("insert, replayed", self.attempts.insert(charge_of("new 1")))
        claimed = await self.meter("claim", self.attempts.claim(DUE))
        assert len(claimed) == DUE
        await self.charge(claimed)
        await self.abandon(claimed)
        assert await self.meter("get", self.attempts.get("new 1"))
        assert (await self.meter("measure_unsettled", self.attempts.measure_unsettled())).attempts

    async def charge(self, claimed: list[Attempt]) -> None:
        """One succeeds, one is declined, one stays unknown, at first and for ever."""
        verdicts = [
            Verdict(State.SUCCEEDED),
            Verdict(State.FAILED, failure_reason="CARD_DECLINED"),
            Verdict(State.UNKNOWN),
        ]
        for attempt, verdict in zip(claimed, verdicts, strict=False):
            sent = await self.meter("record_send", self.attempts.record_send(attempt))
            sent = await self.meter("record_reference", self.attempts.record_reference(sent, f"pi_{attempt.order_id}"))
            told = await self.meter(f"record {verdict.state}", self.attempts.record_verdict(sent, verdict))
            assert told
        unresolved = Verdict(State.UNRESOLVED)
        assert not await self.meter("record UNRESOLVED", self.attempts.record_verdict(claimed[2], unresolved))

    async def abandon(self, claimed: list[Attempt]) -> None:
        """An order never heard of, one whose charge was not sent, one whose was, one that is settled."""
        await self.attempts.record_send(claimed[4])
        orders = {"UNHEARD": "new, late", "UNSENT": claimed[3].order_id, "CLOSING": claimed[4].order_id}
        for word, order in (orders | {"KNOWN": claimed[0].order_id}).items():
            found, _ = await self.meter(f"abandon, {word}", self.attempts.abandon(order))
            assert found == word


@asynccontextmanager
async def grown(dsn: str) -> AsyncIterator[Day]:
    """A session that planned while there were ten attempts and no statistics; and what came since."""
    async with observed(dsn, "attempt") as observer, session(dsn) as pool:
        await observer.execute("ALTER TABLE outbox SET (autovacuum_enabled = off)")
        day = Day(pool, observer)
        await observer.execute(GROW, 10)
        await observer.execute("ANALYZE attempt")
        for _ in range(PLANNINGS):
            await day.run()
            await observer.execute(FORGET)
        await observer.execute("DELETE FROM attempt")
        await observer.execute(GROW, MANY)
        day.meter.read.clear()
        yield day


@pytest.fixture
async def dsn(database: Callable[..., Awaitable[str]]) -> str:
    return await database("payments")


async def test_calls_read_no_more_when_there_are_many_attempts(dsn: str) -> None:
    async with grown(dsn) as kept:
        await kept.run()
        assert kept.meter.excess(MOST, MORE) == {}
        await kept.observer.execute(FORGET)
        async with session(dsn) as pool:  # the statistics are still of next to nothing
            new = Day(pool, kept.observer)
            await new.run()
            assert new.meter.excess(MOST, MORE) == {}


async def test_control_without_the_planners_settings_most_calls_read_them_all(dsn: str) -> None:
    await unset_planner(dsn)
    with pytest.raises(RuntimeError, match="enable_seqscan is 'on'"):
        await open_pool(dsn, name="payments", expect=BY_INDEX_ONLY)
    async with grown(dsn) as kept:
        await kept.run()
        assert len(kept.meter.excess(MOST, MORE)) > len(kept.meter.read) // 2


async def test_control_what_rests_is_read_where_the_index_is_not_bounded(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(store.__file__).with_suffix(".sql").read_text()
    for ours, other in OTHERWISE.items():
        assert text.count(ours) == 1
        text = text.replace(ours, other)
    monkeypatch.setattr(store, "queries", aiosql.from_str(text, "asyncpg"))
    async with grown(dsn) as kept:
        await kept.run()
        assert kept.meter.excess(MOST, MORE).keys() == {"measure_unsettled"}
        await kept.meter("claim", kept.attempts.claim(DUE))  # there is nothing due
        assert kept.meter.excess(MOST, MORE).keys() == {"claim", "measure_unsettled"}


async def test_invariants_are_checked_among_many_attempts(dsn: str) -> None:
    """The role's planner is made for other things: a check that used it would look for each attempt's message in the
    whole outbox, and be ended."""
    async with grown(dsn) as kept:
        await kept.observer.execute(
            "INSERT INTO outbox (sink, aggregate_id, kind, payload, published_time)"
            " SELECT 'booking', order_id, 'outcome', jsonb_build_object('outcome', state), now() FROM attempt"
            "  WHERE state IN ('SUCCEEDED', 'FAILED') AND order_id <> 'old 1'"
        )
        found = await check_invariants(kept.meter.pool)
        assert [finding.name for finding in found] == QUERIES.names
        assert {finding.name: finding.examples for finding in found if finding.violations} == {
            "outcome_without_message": ["old 1"]
        }
