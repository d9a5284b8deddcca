"""kill -9 of the real payments process while an order is being given up."""

import asyncio

import grpc
import pytest

from chassis.errors import reason_of
from tests.integration.payments.desk import ORDER, Booking
from tests.integration.payments.process import Payments, heard
from tests.integration.processor.sandbox_process import Line, Sandbox

TOKEN = "pm_card_visa"
Place = tuple[str, str]


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (("create", "before"), ("create", "after"), "FAILED"),
        (("create", "after"), ("cancel", "before"), "FAILED"),
        (("confirm", "before"), ("cancel", "after"), "FAILED"),
        (("confirm", "before"), ("retrieve", "after"), "FAILED"),
        (("confirm", "after"), ("retrieve", "after"), "SUCCEEDED"),
    ],
)
async def test_an_abandoned_charge_ends_right_whenever_the_process_is_killed(
    payments: Payments, line: Line, sandbox: Sandbox, booking: Booking, first: Place, second: Place, outcome: str
) -> None:
    line.faults[first] = payments.kill_and_cut
    await payments.charge(TOKEN)
    await payments.was_killed()

    payments.start()  # the dead one's claim still lasts, so that nobody works on it yet
    assert await payments.abandon() == ("SENT", "")
    line.calls.clear()
    line.faults[second] = payments.kill_and_cut
    await payments.end_claims()
    await payments.was_killed()
    await payments.end_claims()
    payments.start()
    await heard(booking, outcome)

    assert "confirm" not in line.calls
    assert await payments.abandon() == (outcome, "ABANDONED" if outcome == "FAILED" else "")
    assert {heard[:2] for heard in booking.heard} == {(ORDER, outcome)}
    assert len(await sandbox.captures(ORDER)) == (outcome == "SUCCEEDED")


async def test_an_order_abandoned_before_its_charge_stays_so_after_a_kill(
    payments: Payments, line: Line, sandbox: Sandbox, booking: Booking
) -> None:
    assert await payments.abandon() == ("FAILED", "ABANDONED")
    await payments.kill()
    payments.start()

    assert await payments.abandon() == ("FAILED", "ABANDONED")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await payments.charge(TOKEN)
    assert reason_of(caught.value)[0] == "CHARGE_ABANDONED"
    await payments.end_claims()
    await asyncio.wait_for(heard(booking, "FAILED"), 30)
    assert line.calls == []
    assert await sandbox.captures(ORDER) == []
