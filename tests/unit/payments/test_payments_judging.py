"""What an answer means, row by row; and that nothing else means anything."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.payments.judging import judge
from services.payments.rows import Answer, Attempt, Intent, State

INTENT = Intent("pi_1", "requires_payment_method", 4200, 0, "EUR", "ord_s1_1")
PAID = replace(INTENT, status="succeeded", received_minor=4200)
ATTEMPT = Attempt(
    "ord_s1_1", State.SENT, "EUR", 4200, "pm_card_visa", "pi_1", None, None, 1, 1, datetime.now(UTC), may_send=True
)


def card_error(code: str, decline_code: str = "") -> Answer:
    return Answer(402, error_type="card_error", code=code, decline_code=decline_code)


def test_judge_takes_succeeded_for_success() -> None:
    assert judge(ATTEMPT, Answer(200, PAID)).state == State.SUCCEEDED


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (card_error("card_declined", "generic_decline"), "CARD_DECLINED"),
        (card_error("card_declined", "insufficient_funds"), "INSUFFICIENT_FUNDS"),
        (card_error("card_declined", "stolen_card"), "CARD_DECLINED"),
        (card_error("card_declined", "a_code_of_next_year"), "CARD_DECLINED"),
        (card_error("expired_card"), "EXPIRED_CARD"),
        (card_error("authentication_required", "authentication_required"), "AUTHENTICATION_REQUIRED"),
        (Answer(200, replace(INTENT, status="canceled")), "PAYMENT_CANCELED"),
    ],
)
def test_judge_takes_card_errors_and_canceled_for_failure(answer: Answer, reason: str) -> None:
    verdict = judge(ATTEMPT, answer)

    assert (verdict.state, verdict.failure_reason) == (State.FAILED, reason)


def test_judge_names_why_an_attempt_was_ended() -> None:
    closing = replace(ATTEMPT, closing_reason="PAYMENT_TIMED_OUT")

    assert judge(closing, Answer(200, replace(INTENT, status="canceled"))).failure_reason == "PAYMENT_TIMED_OUT"


@given(
    status=st.one_of(st.just(0), st.integers(300, 401), st.integers(403, 599)),
    kind=st.sampled_from(["", "card_error", "api_error", "invalid_request_error", "idempotency_error"]),
    code=st.sampled_from(["", "card_declined", "resource_missing", "lock_timeout"]),
)
def test_judge_decides_nothing_from_other_errors(status: int, kind: str, code: str) -> None:
    verdict = judge(ATTEMPT, Answer(status, error_type=kind, code=code, decline_code="generic_decline"))

    assert verdict.state == State.UNKNOWN
    assert bool(verdict.alarm) == (400 <= status < 500)


@pytest.mark.parametrize("kind", ["", "api_error", "invalid_request_error"])
def test_judge_decides_nothing_from_a_402_that_is_no_card_error(kind: str) -> None:
    assert judge(ATTEMPT, Answer(402, error_type=kind)).state == State.UNKNOWN


@pytest.mark.parametrize(
    "status", ["processing", "requires_action", "requires_capture", "requires_confirmation", "new"]
)
def test_judge_decides_nothing_from_other_states(status: str) -> None:
    assert judge(ATTEMPT, Answer(200, replace(INTENT, status=status, received_minor=4200))).state == State.UNKNOWN


@pytest.mark.parametrize(
    ("intent", "alarm"),
    [
        (replace(PAID, reference="pi_2"), "intent_of_another"),
        (replace(PAID, order_id="ord_s1_2"), "intent_of_another"),
        (replace(PAID, currency_code="USD"), "intent_of_another"),
        (replace(PAID, amount_minor=4201, received_minor=4201), "intent_of_another"),
        (replace(PAID, received_minor=4100), "amount_differs"),
    ],
)
def test_judge_believes_no_success_of_another_payment(intent: Intent, alarm: str) -> None:
    verdict = judge(ATTEMPT, Answer(200, intent))

    assert (verdict.state, verdict.alarm) == (State.UNKNOWN, alarm)


def test_judge_asks_for_an_end_when_the_token_does_not_exist() -> None:
    verdict = judge(ATTEMPT, Answer(400, code="resource_missing", param="payment_method"))

    assert (verdict.state, verdict.closing_reason) == (State.UNKNOWN, "PAYMENT_TOKEN_INVALID")


def test_rows_never_show_the_token() -> None:
    assert "pm_card" not in repr(ATTEMPT)
