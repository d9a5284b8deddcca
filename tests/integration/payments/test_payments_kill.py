"""kill -9 of the real payments process at each place where something is half done."""

import pytest

from tests.integration.payments.desk import ORDER, Booking
from tests.integration.payments.process import Payments, heard
from tests.integration.processor.sandbox_process import Line, Sandbox

PLACES = [("create", "before"), ("create", "after"), ("confirm", "before"), ("confirm", "after"), ("outcome", "before")]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("token", "outcome"), [("pm_card_visa", "SUCCEEDED"), ("pm_card_chargeDeclined", "FAILED")])
async def test_a_killed_process_resumes_to_the_right_answer(
    payments: Payments, line: Line, sandbox: Sandbox, booking: Booking, place: tuple[str, str], token: str, outcome: str
) -> None:
    if place[0] == "outcome":
        booking.before = payments.kill
    else:
        line.faults[place] = payments.kill_and_cut
    await payments.charge(token)
    await payments.was_killed()

    await payments.end_claims()
    payments.start()
    await heard(booking, outcome)

    assert {heard[:2] for heard in booking.heard} == {(ORDER, outcome)}
    assert len(await sandbox.captures(ORDER)) == (outcome == "SUCCEEDED")
    said = payments.log.read_text()
    assert ORDER in said
    assert token not in said
