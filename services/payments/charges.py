"""Taking on a charge: durable before anything is answered, and never two for one order."""

import re

from chassis.errors import InvalidArgument
from chassis.ids import parse_id
from services.payments.currencies import CURRENCIES
from services.payments.errors import AttemptNotFound, ChargeConflict
from services.payments.rows import Attempt, Charge
from services.payments.store.attempts import Attempts

LARGEST_AMOUNT = 99_999_999  # minor units: the processor takes eight digits
TOKEN = re.compile(r"[!-~]{1,255}")  # printable, no spaces; the processor knows which ones exist


async def charge_order(attempts: Attempts, charge: Charge) -> Attempt:
    """The order's attempt, made now or before. Refuses another charge for the same order."""
    check_charge(charge)
    attempt = await attempts.insert(charge)
    if not is_same(attempt, charge):
        raise ChargeConflict("This order was already charged with another amount or payment token.")
    return attempt


async def get_attempt(attempts: Attempts, order_id: str) -> Attempt:
    attempt = await attempts.get(order_id)
    if attempt is None:
        raise AttemptNotFound("There is no payment attempt for this order.")
    return attempt


def check_charge(charge: Charge) -> None:
    if parse_id("ord", charge.order_id) is None:
        raise InvalidArgument("order_id is not an order's id.", field="order_id")
    if not 0 < charge.amount_minor <= LARGEST_AMOUNT:
        raise InvalidArgument(f"The amount must be from 1 to {LARGEST_AMOUNT} minor units.", field="amount")
    if charge.currency_code not in CURRENCIES:
        raise InvalidArgument("The currency is not an ISO 4217 code.", field="amount.currency_code")
    if not TOKEN.fullmatch(charge.payment_token):
        raise InvalidArgument("The payment token must be 1 to 255 printable characters.", field="payment_token")


def is_same(attempt: Attempt, charge: Charge) -> bool:
    asked = (charge.currency_code, charge.amount_minor, charge.payment_token)
    return asked == (attempt.currency_code, attempt.amount_minor, attempt.payment_token)
