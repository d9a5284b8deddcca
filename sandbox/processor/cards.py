"""What each payment token does: Stripe's test PaymentMethods by name and outcome; `pm_sandbox_…` are ours."""

from dataclasses import dataclass
from typing import Any

DECLINED = "Your card was declined."


@dataclass(frozen=True, slots=True)
class Card:
    """A card that is not one. `code` is empty for a card that pays."""

    brand: str = "visa"
    last4: str = "4242"
    funding: str = "credit"
    code: str = ""
    decline_code: str = ""
    message: str = DECLINED
    needs_authentication: bool = False
    delay_seconds: float = 0


def declining(decline_code: str, last4: str, message: str = DECLINED) -> Card:
    return Card(last4=last4, code="card_declined", decline_code=decline_code, message=message)


INSUFFICIENT = "Your card has insufficient funds."
VELOCITY = "Your card was declined for making repeated attempts too frequently or exceeding its amount limit."

CARDS = {
    "pm_card_visa": Card(),
    "pm_card_visa_debit": Card(last4="5556", funding="debit"),
    "pm_card_us": Card(),
    "pm_card_mastercard": Card("mastercard", "4444"),
    "pm_card_mastercard_debit": Card("mastercard", "8210", "debit"),
    "pm_card_mastercard_prepaid": Card("mastercard", "5100", "prepaid"),
    "pm_card_amex": Card("amex", "0005"),
    "pm_card_discover": Card("discover", "1117"),
    "pm_card_diners": Card("diners", "0004"),
    "pm_card_jcb": Card("jcb", "0505"),
    "pm_card_unionpay": Card("unionpay", "0005"),
    "pm_card_threeDSecureOptional": Card(last4="3055"),
    "pm_card_riskLevelElevated": Card(last4="9235"),
    "pm_card_chargeDeclined": declining("generic_decline", "0002"),
    "pm_card_visa_chargeDeclined": declining("generic_decline", "0002"),
    "pm_card_chargeCustomerFail": declining("generic_decline", "0341"),
    "pm_card_chargeDeclinedInsufficientFunds": declining("insufficient_funds", "9995", INSUFFICIENT),
    "pm_card_visa_chargeDeclinedInsufficientFunds": declining("insufficient_funds", "9995", INSUFFICIENT),
    "pm_card_visa_chargeDeclinedLostCard": declining("lost_card", "9987"),
    "pm_card_visa_chargeDeclinedStolenCard": declining("stolen_card", "9979"),
    "pm_card_visa_chargeDeclinedVelocityLimitExceeded": declining("card_velocity_exceeded", "6975", VELOCITY),
    "pm_card_chargeDeclinedFraudulent": declining("fraudulent", "0019"),
    "pm_card_radarBlock": declining("fraudulent", "0019"),
    "pm_card_riskLevelHighest": declining("fraudulent", "4954"),
    "pm_card_chargeDeclinedExpiredCard": Card(last4="0069", code="expired_card", message="Your card has expired."),
    "pm_card_chargeDeclinedIncorrectCvc": Card(
        last4="0127", code="incorrect_cvc", message="Your card's security code is incorrect."
    ),
    "pm_card_chargeDeclinedProcessingError": Card(
        last4="0119",
        code="processing_error",
        message="An error occurred while processing your card. Try again in a little bit.",
    ),
    "pm_card_authenticationRequired": Card(last4="3184", needs_authentication=True),
    "pm_card_authenticationRequiredOnSetup": Card(last4="3155", needs_authentication=True),
    "pm_card_threeDSecureRequired": Card(last4="3063", needs_authentication=True),
    "pm_card_threeDSecure2Required": Card(last4="3220", needs_authentication=True),
    "pm_sandbox_slow": Card(delay_seconds=3),
}

AUTHENTICATION_REQUIRED = Card(
    code="authentication_required",
    decline_code="authentication_required",
    message="Your card was declined. This transaction requires authentication.",
)


def method_object(card: Card, method_id: str, now: int) -> dict[str, Any]:
    """The PaymentMethod that an error carries."""
    details = {"brand": card.brand, "last4": card.last4, "funding": card.funding, "country": "US"}
    checks = {"address_line1_check": None, "address_postal_code_check": None, "cvc_check": "pass"}
    return {
        "id": method_id,
        "object": "payment_method",
        "type": "card",
        "billing_details": {"address": None, "email": None, "name": None, "phone": None, "tax_id": None},
        "card": {
            **details,
            "exp_month": 12,
            "exp_year": 2034,
            "checks": checks,
            "display_brand": card.brand,
            "fingerprint": None,
            "generated_from": None,
            "networks": {"available": [card.brand], "preferred": None},
            "regulated_status": "unregulated",
            "three_d_secure_usage": {"supported": True},
            "wallet": None,
        },
        "allow_redisplay": "unspecified",
        "created": now,
        "customer": None,
        "livemode": False,
        "metadata": {},
    }
