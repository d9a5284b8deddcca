"""Taking on a charge, and giving it up: durable before anything is answered, and never two for one order."""

import re

import structlog
from prometheus_client import Counter

from chassis.errors import InvalidArgument
from chassis.ids import parse_id
from chassis.telemetry import span
from services.payments.currencies import CURRENCIES
from services.payments.errors import AttemptNotFound, ChargeAbandoned, ChargeConflict
from services.payments.judging import ABANDONED
from services.payments.rows import Attempt, Charge, State
from services.payments.store.attempts import Attempts

LARGEST_AMOUNT = 99_999_999  # minor units: the processor takes eight digits
TOKEN = re.compile(r"[!-~]{1,255}")  # printable, no spaces; the processor knows which ones exist

ABANDONED_ORDERS = Counter("payments_abandon_order_total", "Requests to give a charge up", ["verdict", "state"])

log = structlog.get_logger()


async def charge_order(attempts: Attempts, charge: Charge) -> Attempt:
    """The order's attempt, made now or before. Refuses another charge for the same order, and an abandoned one."""
    check_charge(charge)
    attempt = await attempts.insert(charge)
    if is_abandoned(attempt):
        raise ChargeAbandoned("This order was given up; it is not charged any more.")
    if not is_same(attempt, charge):
        raise ChargeConflict("This order was already charged with another amount or payment token.")
    return attempt


async def abandon_order(attempts: Attempts, order_id: str) -> Attempt:
    """The order's attempt, after which nothing new is begun for it. SUCCEEDED and FAILED are final; any other state
    means that a worker is finding out, and ends it at the processor."""
    check_order_id(order_id)
    with span("payments.abandon_order"):
        verdict, attempt = await attempts.abandon(order_id)
    ABANDONED_ORDERS.labels(verdict, attempt.state).inc()
    log.info("abandoned", order=order_id, verdict=verdict, state=attempt.state)
    return attempt


async def get_attempt(attempts: Attempts, order_id: str) -> Attempt:
    attempt = await attempts.get(order_id)
    if attempt is None:
        raise AttemptNotFound("There is no payment attempt for this order.")
    return attempt


def check_charge(charge: Charge) -> None:
    check_order_id(charge.order_id)
    if not 0 < charge.amount_minor <= LARGEST_AMOUNT:
        raise InvalidArgument(f"The amount must be from 1 to {LARGEST_AMOUNT} minor units.", field="amount")
    if charge.currency_code not in CURRENCIES:
        raise InvalidArgument("The currency is not an ISO 4217 code.", field="amount.currency_code")
    if not TOKEN.fullmatch(charge.payment_token):
        raise InvalidArgument("The payment token must be 1 to 255 printable characters.", field="payment_token")


def check_order_id(order_id: str) -> None:
    if parse_id("ord", order_id) is None:
        raise InvalidArgument("order_id is not an order's id.", field="order_id")


def is_abandoned(attempt: Attempt) -> bool:
    return attempt.state == State.FAILED and attempt.failure_reason == ABANDONED


def is_same(attempt: Attempt, charge: Charge) -> bool:
    asked = (charge.currency_code, charge.amount_minor, charge.payment_token)
    return asked == (attempt.currency_code, attempt.amount_minor, attempt.payment_token)
