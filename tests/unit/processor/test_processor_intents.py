"""What each token does, and what a form may say."""

from typing import Any

import pytest

from sandbox.processor import intents
from sandbox.processor.cards import CARDS
from sandbox.processor.faults import Fault
from sandbox.processor.forms import fingerprint, nest

NOW = 1_700_000_000
ASK = {"error_on_requires_action": "true"}


def made(**fields: Any) -> intents.Intent:
    form = {"amount": "4200", "currency": "EUR", "metadata": {"order_id": "ord_s1_1"}, **fields}
    return intents.create(form, NOW).intent


@pytest.mark.parametrize(
    "token", [name for name, card in CARDS.items() if not card.code and not card.needs_authentication]
)
def test_confirm_captures_with_cards_that_pay(token: str) -> None:
    outcome = intents.confirm(made(), {"payment_method": token, **ASK}, NOW)

    assert (outcome.status, outcome.captured, outcome.intent["status"]) == (200, True, "succeeded")
    assert outcome.intent["amount_received"] == 4200


@pytest.mark.parametrize("token", [name for name, card in CARDS.items() if card.code or card.needs_authentication])
def test_confirm_declines_the_others(token: str) -> None:
    outcome = intents.confirm(made(), {"payment_method": token, **ASK}, NOW)

    assert (outcome.status, outcome.captured) == (402, False)
    assert outcome.body["error"]["type"] == "card_error"
    assert outcome.intent["status"] == "requires_payment_method"
    assert outcome.intent["last_payment_error"]["code"] == outcome.body["error"]["code"]


def test_confirm_waits_for_authentication_unless_told_not_to() -> None:
    outcome = intents.confirm(made(), {"payment_method": "pm_card_authenticationRequired"}, NOW)

    assert (outcome.status, outcome.intent["status"]) == (200, "requires_action")


def test_confirm_may_follow_a_decline() -> None:
    declined = intents.confirm(made(), {"payment_method": "pm_card_visa_chargeDeclined"}, NOW).intent

    assert intents.confirm(declined, {"payment_method": "pm_card_visa"}, NOW).captured


@pytest.mark.parametrize("call", [intents.confirm, intents.cancel])
def test_a_paid_intent_is_neither_paid_nor_cancelled_again(call: Any) -> None:
    paid = intents.confirm(made(), {"payment_method": "pm_card_visa"}, NOW).intent

    with pytest.raises(Fault) as caught:
        call(paid, {}, NOW)
    assert caught.value.body["error"]["code"] == "payment_intent_unexpected_state"


def test_a_cancelled_intent_takes_no_money() -> None:
    ended = intents.cancel(made(), {"cancellation_reason": "abandoned"}, NOW).intent

    assert ended["status"] == "canceled"
    with pytest.raises(Fault):
        intents.confirm(ended, {"payment_method": "pm_card_visa"}, NOW)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"amount": "0"}, "parameter_invalid_integer"),
        ({"amount": "-5"}, "parameter_invalid_integer"),
        ({"amount": "4.2"}, "parameter_invalid_integer"),
        ({"amount": "100000000"}, "amount_too_large"),
        ({"currency": "euros"}, "parameter_invalid"),
        ({"amuont": "1"}, "parameter_unknown"),
        ({"payment_method": "pm_nobody"}, "resource_missing"),
        ({"metadata": "text"}, "parameter_invalid"),
        ({"payment_method_types": {"0": "sepa_debit"}}, "parameter_invalid"),
    ],
)
def test_create_refuses(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(Fault) as caught:
        made(**fields)
    assert (caught.value.status, caught.value.body["error"]["code"]) == (400, code)


def test_forms_nest_and_their_order_does_not_matter() -> None:
    one = nest([("a", "1"), ("m[x]", "2"), ("l[]", "3"), ("l[]", "4")])
    other = nest([("l[0]", "3"), ("l[1]", "4"), ("m[x]", "2"), ("a", "1")])

    assert one == {"a": "1", "m": {"x": "2"}, "l": {"0": "3", "1": "4"}}
    assert fingerprint("/p", one) == fingerprint("/p", other) != fingerprint("/q", one)
