"""PaymentIntents: what each call makes of one. Nothing here reads or writes: an `Outcome` is stored by the caller."""

import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.processor.cards import AUTHENTICATION_REQUIRED, CARDS, Card, method_object
from sandbox.processor.faults import Fault, error_body, invalid_param, missing_param, no_such
from sandbox.processor.forms import Form, flag, nested, refuse_others, text

Intent = dict[str, Any]

LARGEST_AMOUNT = 99_999_999  # Stripe's: eight digits
METADATA_PAIRS, METADATA_NAME, METADATA_VALUE = 50, 40, 500  # Stripe's limits
LETTERS = string.ascii_letters + string.digits

CREATE = frozenset(
    ("amount", "currency", "description", "metadata", "payment_method", "payment_method_types", "capture_method")
)
CONFIRM = frozenset(("payment_method", "error_on_requires_action", "return_url"))
CANCEL = frozenset(("cancellation_reason",))
CANCELLATION_REASONS = ("abandoned", "duplicate", "fraudulent", "requested_by_customer")
CONFIRMABLE = ("requires_payment_method", "requires_confirmation", "requires_action")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call did: its answer, the intent as it is now, and whether its money was captured."""

    status: int
    body: dict[str, Any]
    intent: Intent
    captured: bool = False


def create(form: Form, now: int) -> Outcome:
    """An intent that waits to be confirmed."""
    refuse_others(form, CREATE)
    if text(form, "capture_method", "automatic") not in ("automatic", "automatic_async"):
        raise invalid_param("capture_method", "The sandbox captures at once.")
    method = text(form, "payment_method", "")
    if method:
        card_of(method)
    types = list(nested(form, "payment_method_types").values()) or ["card"]
    if types != ["card"]:
        raise invalid_param("payment_method_types", "The sandbox takes cards only.")
    intent = intent_object(amount_of(form), currency_of(form), now)
    intent["metadata"] = metadata_of(form)
    intent["description"] = text(form, "description", "") or None
    if method:
        intent.update(payment_method=method, status="requires_confirmation")
    return Outcome(200, intent, intent)


def confirm(intent: Intent, form: Form, now: int) -> Outcome:
    """Pays, or does not: a declined intent can be confirmed again with another key."""
    refuse_others(form, CONFIRM)
    if intent["status"] not in CONFIRMABLE:
        raise unexpected_state(intent, "confirm")
    card = card_of(token_of(intent, form))
    method = method_object(card, new_id("pm_1"), now)
    if card.needs_authentication and not flag(form, "error_on_requires_action"):
        return requires_action(intent, method)
    if card.needs_authentication:
        card = AUTHENTICATION_REQUIRED
    if card.code:
        return decline(intent, card, method)
    paid = {
        **intent,
        "status": "succeeded",
        "amount_received": intent["amount"],
        "latest_charge": new_id("ch_3"),
        "payment_method": method["id"],
        "last_payment_error": None,
        "next_action": None,
    }
    return Outcome(200, paid, paid, captured=True)


def cancel(intent: Intent, form: Form, now: int) -> Outcome:
    """No money will move for it any more. Refused when it moved already."""
    refuse_others(form, CANCEL)
    reason = text(form, "cancellation_reason", "") or None
    if reason not in (None, *CANCELLATION_REASONS):
        raise invalid_param("cancellation_reason", f"Invalid cancellation_reason: {reason}")
    if intent["status"] not in CONFIRMABLE:
        raise unexpected_state(intent, "cancel")
    ended = {**intent, "status": "canceled", "canceled_at": now, "cancellation_reason": reason, "next_action": None}
    return Outcome(200, ended, ended)


def delay_of(intent: Intent, form: Form) -> float:
    """How long the bank takes over it, in seconds."""
    card = CARDS.get(token_of(intent, form))
    return card.delay_seconds if card else 0


def token_of(intent: Intent, form: Form) -> str:
    method = text(form, "payment_method", "") or intent["payment_method"]
    if not method:
        raise missing_param("payment_method")
    return str(method)


def card_of(token: str) -> Card:
    if token not in CARDS:
        raise no_such("PaymentMethod", token, param="payment_method", status=400)
    return CARDS[token]


def decline(intent: Intent, card: Card, method: dict[str, Any]) -> Outcome:
    fields: dict[str, Any] = {"code": card.code, "message": card.message, "payment_method": method}
    if card.decline_code:
        fields["decline_code"] = card.decline_code
    charge = new_id("ch_3")
    refused = {
        **intent,
        "status": "requires_payment_method",
        "payment_method": None,
        "latest_charge": charge,
        "last_payment_error": error_body("card_error", **fields, charge=charge)["error"],
    }
    body = error_body("card_error", **fields, charge=charge, payment_intent=refused)
    return Outcome(402, body, refused)


def requires_action(intent: Intent, method: dict[str, Any]) -> Outcome:
    action = {"type": "use_stripe_sdk", "use_stripe_sdk": {"type": "three_d_secure_redirect"}}
    waiting = {**intent, "status": "requires_action", "payment_method": method["id"], "next_action": action}
    return Outcome(200, waiting, waiting)


def unexpected_state(intent: Intent, verb: str) -> Fault:
    message = f"You cannot {verb} this PaymentIntent because it has a status of {intent['status']}."
    return Fault(400, message, code="payment_intent_unexpected_state", payment_intent=intent)


def amount_of(form: Form) -> int:
    value = text(form, "amount")
    if not value.isascii() or not value.isdigit():
        raise Fault(400, f"Invalid integer: {value}", code="parameter_invalid_integer", param="amount")
    if not 1 <= int(value) <= LARGEST_AMOUNT:
        code = "amount_too_large" if int(value) else "parameter_invalid_integer"
        raise Fault(400, f"Amount must be from 1 to {LARGEST_AMOUNT}", code=code, param="amount")
    return int(value)


def currency_of(form: Form) -> str:
    value = text(form, "currency").lower()
    if len(value) != 3 or not value.isascii() or not value.isalpha():
        raise invalid_param("currency", f"Invalid currency: {value}")
    return value


def metadata_of(form: Form) -> Mapping[str, str]:
    pairs = nested(form, "metadata")
    if len(pairs) > METADATA_PAIRS:
        raise invalid_param("metadata", f"Metadata can have at most {METADATA_PAIRS} keys.")
    for name, value in pairs.items():
        if len(name) > METADATA_NAME or len(value) > METADATA_VALUE:
            raise invalid_param("metadata", f"Metadata keys have at most {METADATA_NAME} characters, values 500.")
    return dict(pairs)


def new_id(prefix: str) -> str:
    return prefix + "".join(secrets.choice(LETTERS) for _ in range(23))


def intent_object(amount: int, currency: str, now: int) -> Intent:
    name = new_id("pi_3")
    return {
        "id": name,
        "object": "payment_intent",
        "amount": amount,
        "amount_capturable": 0,
        "amount_details": {"tip": {}},
        "amount_received": 0,
        "application": None,
        "application_fee_amount": None,
        "automatic_payment_methods": None,
        "canceled_at": None,
        "cancellation_reason": None,
        "capture_method": "automatic",
        "client_secret": f"{name}_secret_{secrets.token_urlsafe(18)}",
        "confirmation_method": "automatic",
        "created": now,
        "currency": currency,
        "customer": None,
        "customer_account": None,
        "description": None,
        "excluded_payment_method_types": None,
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": False,
        "metadata": {},
        "next_action": None,
        "on_behalf_of": None,
        "payment_method": None,
        "payment_method_configuration_details": None,
        "payment_method_options": {
            "card": {
                "installments": None,
                "mandate_options": None,
                "network": None,
                "request_three_d_secure": "automatic",
            }
        },
        "payment_method_types": ["card"],
        "processing": None,
        "receipt_email": None,
        "review": None,
        "setup_future_usage": None,
        "shipping": None,
        "statement_descriptor": None,
        "statement_descriptor_suffix": None,
        "status": "requires_payment_method",
        "transfer_data": None,
        "transfer_group": None,
    }
