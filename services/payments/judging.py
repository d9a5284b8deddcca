"""What an answer of the processor means. Pure: the whole table is here, and nothing is guessed."""

from services.payments.rows import Answer, Attempt, Intent, State, Verdict

ABANDONED = "ABANDONED"  # booking gave the order up; the database's statements know the word too
TOKEN_INVALID = "PAYMENT_TOKEN_INVALID"
CANCELED = "PAYMENT_CANCELED"
DECLINED = "CARD_DECLINED"

ENDED_BEFORE = "payment_intent_unexpected_state"  # what the processor says when there is nothing left to cancel

# What a buyer is told. Lost, stolen and suspected cards are a plain decline to whoever holds them.
FAILURE_REASONS = {
    "authentication_required": "AUTHENTICATION_REQUIRED",
    "card_velocity_exceeded": "CARD_VELOCITY_EXCEEDED",
    "expired_card": "EXPIRED_CARD",
    "incorrect_cvc": "INCORRECT_CVC",
    "insufficient_funds": "INSUFFICIENT_FUNDS",
    "processing_error": "PROCESSING_ERROR",
}


def judge(attempt: Attempt, answer: Answer) -> Verdict:
    """SUCCEEDED is only `succeeded`, FAILED only a card error (402) or `canceled`; everything else decides nothing."""
    if answer.intent is not None:
        return judge_intent(attempt, answer.intent)
    if answer.http_status == 402 and answer.error_type == "card_error":
        return Verdict(State.FAILED, failure_reason=failure_reason_of(answer))
    if answer.http_status == 400 and (answer.code, answer.param) == ("resource_missing", "payment_method"):
        # No such way to pay, now or later. That is no decline: it is for the processor to end the intent.
        return Verdict(State.UNKNOWN, closing_reason=TOKEN_INVALID, alarm="token_unknown")
    if 400 <= answer.http_status < 500:
        return Verdict(State.UNKNOWN, alarm="refused")
    return Verdict(State.UNKNOWN)


def judge_intent(attempt: Attempt, intent: Intent) -> Verdict:
    if not is_of(attempt, intent):
        return Verdict(State.UNKNOWN, alarm="intent_of_another")
    if intent.status == "succeeded":
        if intent.received_minor != attempt.amount_minor:
            return Verdict(State.UNKNOWN, alarm="amount_differs")
        return Verdict(State.SUCCEEDED)
    if intent.status == "canceled":
        return Verdict(State.FAILED, failure_reason=attempt.closing_reason or CANCELED)
    return Verdict(State.UNKNOWN)


def is_of(attempt: Attempt, intent: Intent) -> bool:
    """Whether the intent is the one that this attempt asked for."""
    same_reference = attempt.processor_reference in (None, intent.reference)
    asked = (attempt.order_id, attempt.amount_minor, attempt.currency_code)
    return same_reference and asked == (intent.order_id, intent.amount_minor, intent.currency_code)


def failure_reason_of(answer: Answer) -> str:
    return FAILURE_REASONS.get(answer.decline_code) or FAILURE_REASONS.get(answer.code) or DECLINED
