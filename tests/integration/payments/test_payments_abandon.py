"""AbandonOrder: what each state makes of it, and who wins when a worker or a charge call comes at the same moment."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiosql
import httpx
import pytest

from services.payments.charges import abandon_order, charge_order
from services.payments.charging import Processor
from services.payments.errors import ChargeAbandoned, ClaimLost
from services.payments.rows import Answer, Attempt, State
from services.payments.store import attempts as store
from services.payments.store.invariants import check_invariants
from services.payments.workers import ChargeWorker
from tests.integration.payments.desk import ORDER, Desk, charge_of
from tests.integration.processor.sandbox_process import API_KEY, Line, Sandbox, cut, http_answer

ABANDONED = (State.FAILED, "ABANDONED")


async def abandon(desk: Desk, order_id: str = ORDER) -> tuple[State, str | None]:
    attempt = await abandon_order(desk.attempts, order_id)
    return attempt.state, attempt.failure_reason


async def broken(desk: Desk) -> dict[str, Sequence[str]]:
    return {found.name: found.examples for found in await check_invariants(desk.pool) if found.violations}


async def test_abandon_order_never_heard_of_refuses_the_charge_that_comes_late(
    desk: Desk, line: Line, sandbox: Sandbox
) -> None:
    answers = [await abandon(desk) for _ in range(2)]

    assert answers == [ABANDONED, ABANDONED]
    with pytest.raises(ChargeAbandoned):
        await charge_order(desk.attempts, charge_of())
    assert (await desk.work()).state == State.FAILED
    assert line.calls == []
    assert await sandbox.captures(ORDER) == []
    assert await desk.outcomes() == ["FAILED"]
    assert await broken(desk) == {}


async def test_abandon_order_ends_an_attempt_that_was_never_sent(desk: Desk, line: Line) -> None:
    await charge_order(desk.attempts, charge_of())

    assert await abandon(desk) == ABANDONED
    with pytest.raises(ChargeAbandoned):
        await charge_order(desk.attempts, charge_of())
    assert (await desk.work()).state == State.FAILED
    assert line.calls == []
    assert await desk.outcomes() == ["FAILED"]


async def test_abandon_order_beats_a_worker_that_has_claimed_and_not_sent(desk: Desk) -> None:
    await charge_order(desk.attempts, charge_of())
    (claimed,) = await desk.attempts.claim(1)

    assert await abandon(desk) == ABANDONED
    with pytest.raises(ClaimLost):
        await desk.attempts.record_send(claimed)


async def test_control_without_the_state_in_its_guard_a_send_follows_an_abandonment(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_off(monkeypatch, "   AND state IN ('CREATED', 'SENT', 'UNKNOWN')\nRETURNING closing_reason")
    await charge_order(desk.attempts, charge_of())
    (claimed,) = await desk.attempts.claim(1)
    await abandon(desk)

    await desk.attempts.record_send(claimed)  # and the worker would go on to the processor
    assert await broken(desk) == {"abandoned_attempt_charged": [ORDER]}


@pytest.mark.parametrize("reached", [False, True])
async def test_abandon_order_never_guesses_about_what_was_sent(
    desk: Desk, line: Line, sandbox: Sandbox, reached: bool
) -> None:
    line.faults["confirm", "after" if reached else "before"] = cut
    await desk.charge(charge_of())
    line.calls.clear()

    assert await abandon(desk) == (State.UNKNOWN, None)
    attempt = await desk.work()

    assert line.calls == (["retrieve"] if reached else ["retrieve", "cancel"])
    assert await abandon(desk) == ((State.SUCCEEDED, None) if reached else ABANDONED)
    assert attempt.state == (State.SUCCEEDED if reached else State.FAILED)
    assert len(await sandbox.captures(ORDER)) == int(reached)
    assert await desk.outcomes() == ["UNKNOWN", "SUCCEEDED" if reached else "FAILED"]
    assert await broken(desk) == {}


@pytest.mark.parametrize(
    ("token", "answer"),
    [("pm_card_visa", (State.SUCCEEDED, None)), ("pm_card_chargeDeclined", (State.FAILED, "CARD_DECLINED"))],
)
async def test_abandon_order_leaves_what_is_settled(desk: Desk, token: str, answer: tuple[State, str | None]) -> None:
    await desk.charge(charge_of(token=token))

    assert [await abandon(desk), await abandon(desk)] == [answer, answer]
    assert (await charge_order(desk.attempts, charge_of(token=token))).state == answer[0]  # no refusal: it is the same
    assert len(await desk.outcomes()) == 1


@dataclass
class Interrupted:
    """A processor; once it has created an intent, the order is abandoned."""

    inner: Any
    desk: Desk

    async def create(self, attempt: Attempt) -> Answer:
        answer: Answer = await self.inner.create(attempt)
        assert await abandon(self.desk, attempt.order_id) == (State.SENT, None)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


async def abandon_between_create_and_confirm(desk: Desk) -> Attempt:
    processor: Processor = Interrupted(desk.processor, desk)
    return await replace(desk, processor=processor).charge(charge_of())


async def test_no_confirm_begins_once_abandon_order_has_answered(desk: Desk, line: Line, sandbox: Sandbox) -> None:
    attempt = await abandon_between_create_and_confirm(desk)

    assert (attempt.state, attempt.failure_reason) == ABANDONED
    assert line.calls == ["create", "cancel"]
    assert await sandbox.captures(ORDER) == []


async def test_control_unless_the_send_reads_the_reason_a_confirm_begins(
    desk: Desk, line: Line, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_off(monkeypatch, "RETURNING closing_reason;", "RETURNING CAST(NULL AS text) AS closing_reason;")

    assert (await abandon_between_create_and_confirm(desk)).state == State.SUCCEEDED
    assert "confirm" in line.calls
    assert len(await sandbox.captures(ORDER)) == 1


async def test_a_confirm_that_arrives_just_before_the_cancel_is_a_success(
    desk: Desk, line: Line, sandbox: Sandbox
) -> None:
    line.faults["confirm", "before"] = cut
    unknown = await desk.charge(charge_of())
    await abandon(desk)

    async def confirm_late() -> bytes | None:
        """The look finds it unpaid; then the confirm that was thought lost gets there."""
        path = f"/v1/payment_intents/{unknown.processor_reference}"
        headers = {"Authorization": f"Bearer {API_KEY}"}
        async with httpx.AsyncClient(base_url=sandbox.url, headers=headers) as client:
            seen = (await client.get(path)).content
            form = {"payment_method": "pm_card_visa", "error_on_requires_action": "true"}
            (await client.post(f"{path}/confirm", data=form)).raise_for_status()
        return http_answer(200, seen)

    line.faults["retrieve", "after"] = confirm_late
    line.calls.clear()
    attempt = await desk.work()

    assert (attempt.state, line.calls) == (State.SUCCEEDED, ["retrieve", "cancel", "retrieve"])
    assert await abandon(desk) == (State.SUCCEEDED, None)
    assert len(await sandbox.captures(ORDER)) == 1
    assert await broken(desk) == {}


async def until(desk: Desk, order_id: str, reached: str) -> None:
    """Until an attempt is so far."""
    for _ in range(3000):
        if await desk.pool.fetchval(f"SELECT {reached} FROM attempt WHERE order_id = $1", order_id):
            return
        await asyncio.sleep(random.uniform(0, 0.02))
    raise AssertionError(f"{order_id} never: {reached}")


async def race(desk: Desk, count: int) -> dict[str, tuple[State, str | None]]:
    """Charge calls, workers and abandonments of `count` orders, all at once; what each abandonment was answered."""
    orders = [f"ord_s1_{number}" for number in range(1, count + 1)]
    workers = [desk.worker(), desk.worker()]

    async def charge(order_id: str) -> None:
        with suppress(ChargeAbandoned):
            await charge_order(desk.attempts, charge_of(order_id))

    async def give_up(number: int, order_id: str) -> tuple[State, str | None]:
        """Of three one comes when nothing may have been sent, one when it has, one when all is over."""
        await asyncio.sleep(random.uniform(0, 0.02))
        if number % 3:
            await until(desk, order_id, ("", "state <> 'CREATED'", "settle_time IS NOT NULL")[number % 3])
        return await abandon(desk, order_id)

    async def work(worker: ChargeWorker) -> None:
        while await desk.pool.fetchval("SELECT count(settle_time) FROM attempt") < count:
            if not await worker.run_once():
                await asyncio.sleep(0.02)
        await worker.settle()

    answers = asyncio.gather(*(give_up(*each) for each in enumerate(orders)))
    await asyncio.gather(*map(charge, orders), *map(work, workers))
    return dict(zip(orders, await answers, strict=True))


async def test_abandon_order_against_charges_and_workers_never_lets_money_move_for_what_it_said_failed(
    desk: Desk, sandbox: Sandbox
) -> None:
    answers = await race(desk, 24)

    words = {answer[0] for answer in answers.values()}
    assert State.FAILED in words
    assert words - {State.FAILED}, "nobody was in the middle of anything: no race"
    for order_id, answer in answers.items():
        state, reason = await abandon(desk, order_id)
        captures = len(await sandbox.captures(order_id))
        assert (state, reason) in (ABANDONED, (State.SUCCEEDED, None))
        assert captures == (state == State.SUCCEEDED)
        assert answer[0] not in (State.FAILED, State.SUCCEEDED) or answer == (state, reason)  # final is final
    assert await broken(desk) == {}


async def test_control_an_abandonment_that_guesses_is_charged_all_the_same(
    desk: Desk, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_off(monkeypatch, " WHERE order_id = :order_id AND state = 'CREATED';", " WHERE order_id = :order_id;")
    processor = Guessed(desk.processor, desk)

    await replace(desk, processor=processor).charge(charge_of())

    assert processor.answer == ABANDONED
    assert len(await sandbox.captures(ORDER)) == 1
    assert await broken(desk) == {"abandoned_attempt_charged": [ORDER]}


@dataclass
class Guessed:
    """A processor; while it confirms an intent, the order is abandoned."""

    inner: Any
    desk: Desk
    answer: tuple[State, str | None] | None = None

    async def confirm(self, attempt: Attempt) -> Answer:
        self.answer = await abandon(self.desk, attempt.order_id)
        answer: Answer = await self.inner.confirm(attempt)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def turn_off(monkeypatch: pytest.MonkeyPatch, guard: str, instead: str = "RETURNING closing_reason") -> None:
    text = Path(store.__file__).with_suffix(".sql").read_text()
    assert text.count(guard) == 1
    monkeypatch.setattr(store, "queries", aiosql.from_str(text.replace(guard, instead), "asyncpg"))
