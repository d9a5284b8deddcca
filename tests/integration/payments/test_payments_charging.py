"""An attempt on its way to an outcome, with the line to the processor cut at each place."""

import pytest

from services.payments.rows import State
from tests.integration.payments.desk import ORDER, UNDECIDED, Desk, charge_of
from tests.integration.processor.sandbox_process import Fault, Line, Sandbox, cut, server_error, silence


async def test_charge_succeeds_in_two_steps(desk: Desk, line: Line, sandbox: Sandbox) -> None:
    attempt = await desk.charge(charge_of())

    assert (attempt.state, attempt.send_count, line.calls) == (State.SUCCEEDED, 2, ["create", "confirm"])
    (capture,) = await sandbox.captures(ORDER)
    assert (capture["paymentIntent"], capture["captured"]) == (attempt.processor_reference, 4200)
    assert await desk.outcomes() == ["SUCCEEDED"]


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("pm_card_visa_chargeDeclined", "CARD_DECLINED"),
        ("pm_card_visa_chargeDeclinedInsufficientFunds", "INSUFFICIENT_FUNDS"),
        ("pm_card_authenticationRequired", "AUTHENTICATION_REQUIRED"),
    ],
)
async def test_charge_fails_with_its_reason(desk: Desk, sandbox: Sandbox, token: str, reason: str) -> None:
    attempt = await desk.charge(charge_of(token=token))

    assert (attempt.state, attempt.failure_reason) == (State.FAILED, reason)
    assert await sandbox.captures(ORDER) == []
    assert await desk.outcomes() == ["FAILED"]


async def test_charge_with_a_token_that_nobody_knows_is_ended_at_the_processor(desk: Desk, line: Line) -> None:
    assert (await desk.charge(charge_of(token="pm_nobody"))).state == State.UNKNOWN

    worker = desk.worker()
    assert await worker.run_once() == 1  # at once: nothing was made due
    await worker.settle()
    attempt = await desk.attempts.get(ORDER)
    assert attempt is not None
    assert (attempt.state, attempt.failure_reason) == (State.FAILED, "PAYMENT_TOKEN_INVALID")
    assert line.calls == ["create", "confirm", "retrieve", "cancel"]
    assert await desk.outcomes() == ["UNKNOWN", "FAILED"]


@pytest.mark.parametrize("fault", [cut, server_error, silence])
@pytest.mark.parametrize(
    "place", [("create", "before"), ("create", "after"), ("confirm", "before"), ("confirm", "after")]
)
async def test_charge_without_an_answer_is_unknown_and_then_found_out(
    desk: Desk, line: Line, sandbox: Sandbox, place: tuple[str, str], fault: Fault
) -> None:
    line.faults[place] = fault

    assert (await desk.charge(charge_of())).state == State.UNKNOWN
    assert (await desk.work()).state == State.SUCCEEDED
    assert len(await sandbox.captures(ORDER)) == 1
    assert await desk.outcomes() == ["UNKNOWN", "SUCCEEDED"]


async def test_charge_without_an_answer_can_turn_out_a_decline(desk: Desk, line: Line) -> None:
    line.faults["confirm", "after"] = cut

    assert (await desk.charge(charge_of(token="pm_card_chargeDeclined"))).state == State.UNKNOWN
    attempt = await desk.work()
    assert (attempt.state, attempt.failure_reason) == (State.FAILED, "CARD_DECLINED")


async def test_charge_waits_while_the_processor_is_away(desk: Desk, sandbox: Sandbox) -> None:
    sandbox.stop()
    first = await desk.charge(charge_of())
    later = await desk.work(rounds=3)
    await sandbox.start()

    assert (first.state, later.state) == (State.UNKNOWN, State.UNKNOWN)
    assert (await desk.work()).state == State.SUCCEEDED
    assert await desk.outcomes() == ["UNKNOWN", "SUCCEEDED"]


async def test_unknown_rests_longer_after_each_claim(desk: Desk, line: Line) -> None:
    rests = []
    for _ in range(4):
        line.faults["create", "before"] = cut
        await desk.charge(charge_of())
        rests.append(await desk.pool.fetchval("SELECT due_time - clock_timestamp() FROM attempt"))

    assert rests[-1].total_seconds() > 3.5 > 1 >= rests[0].total_seconds() > 0.4


@pytest.mark.parametrize("reached", [False, True])
async def test_charge_undecided_for_too_long_is_cancelled_and_the_answer_is_evidence(
    desk: Desk, line: Line, sandbox: Sandbox, reached: bool
) -> None:
    line.faults["confirm", "after" if reached else "before"] = cut
    await desk.charge(charge_of())
    await desk.age(601)

    attempt = await desk.work()

    if reached:
        assert attempt.state == State.SUCCEEDED
    else:
        assert (attempt.state, attempt.failure_reason) == (State.FAILED, "PAYMENT_TIMED_OUT")
    assert len(await sandbox.captures(ORDER)) == int(reached)


@pytest.mark.parametrize("reached", [False, True])
async def test_nothing_is_sent_after_23_hours(desk: Desk, line: Line, reached: bool) -> None:
    line.faults["confirm", "after" if reached else "before"] = cut
    await desk.charge(charge_of())
    await desk.age(23 * 3600 + 1)
    line.calls.clear()

    attempt = await desk.work()

    assert line.calls == ["retrieve"]
    assert attempt.state == (State.SUCCEEDED if reached else State.UNRESOLVED)
    assert await desk.work() == attempt  # settled: nobody takes it again


async def test_nothing_is_created_after_23_hours(desk: Desk, line: Line) -> None:
    line.faults["create", "after"] = cut
    await desk.charge(charge_of())
    await desk.age(23 * 3600 + 1)
    line.calls.clear()

    assert (await desk.work()).state == State.UNRESOLVED
    assert line.calls == []


async def test_a_slow_charge_does_not_hold_up_the_others(desk: Desk) -> None:
    await desk.attempts.insert(charge_of("ord_s1_1", token="pm_sandbox_slow"))
    worker = desk.worker()
    await worker.run_once()
    quick = await desk.charge(charge_of("ord_s1_2"))
    slow = await desk.attempts.get("ord_s1_1")
    assert slow is not None

    assert (quick.state, slow.state) == (State.SUCCEEDED, State.SENT)
    await worker.settle()
    slow = await desk.attempts.get("ord_s1_1")
    assert slow is not None
    assert slow.state not in UNDECIDED
