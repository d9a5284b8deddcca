"""Stripe's API by its official SDK; the only module that knows either."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import stripe
from prometheus_client import Histogram

from services.payments.rows import Answer, Attempt, Intent

CALL_SECONDS = Histogram("payments_processor_call_seconds", "Calls of the processor", ["call", "http_status"])


class StripeProcessor:
    """Two steps, cards only. Nothing is retried in here: the row must say that something is sent before it is."""

    def __init__(self, *, url: str, api_key: str, timeout_seconds: float) -> None:
        stripe.enable_telemetry = False  # the SDK has no other switch
        self.timeout_seconds = timeout_seconds
        self.http = stripe.HTTPXClient(timeout=timeout_seconds)
        client = stripe.StripeClient(api_key, base_addresses={"api": url}, http_client=self.http, max_network_retries=0)
        self.intents = client.v1.payment_intents

    async def create(self, attempt: Attempt) -> Answer:
        """Without the payment token: a token that is refused must not cost the handle."""
        call = self.intents.create_async(
            {
                "amount": attempt.amount_minor,
                "currency": attempt.currency_code.lower(),
                "payment_method_types": ["card"],
                "metadata": {"order_id": attempt.order_id},
            },
            {"idempotency_key": attempt.order_id},
        )
        return await self._answer("create", call)

    async def confirm(self, attempt: Attempt) -> Answer:
        """An intent that would need the buyer's authentication is declined instead."""
        call = self.intents.confirm_async(
            reference_of(attempt),
            {"payment_method": attempt.payment_token, "error_on_requires_action": True},
            {"idempotency_key": f"{attempt.order_id}:confirm"},
        )
        return await self._answer("confirm", call)

    async def retrieve(self, attempt: Attempt) -> Answer:
        return await self._answer("retrieve", self.intents.retrieve_async(reference_of(attempt)))

    async def cancel(self, attempt: Attempt) -> Answer:
        """Not under one key for ever: an answer that another call was in the way would be repeated to us."""
        call = self.intents.cancel_async(
            reference_of(attempt),
            {"cancellation_reason": "abandoned"},
            {"idempotency_key": f"{attempt.order_id}:cancel:{attempt.claim_number}"},
        )
        return await self._answer("cancel", call)

    async def close(self) -> None:
        await self.http.close_async()  # type: ignore[no-untyped-call]

    async def _answer(self, name: str, call: Awaitable[stripe.PaymentIntent]) -> Answer:
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.timeout_seconds):  # the SDK's own bounds each read, not the whole call
                answer = answer_of(await call)
        except TimeoutError:
            answer = Answer(0)
        except stripe.StripeError as error:
            answer = answer_of_error(error)
        CALL_SECONDS.labels(name, answer.http_status).observe(asyncio.get_running_loop().time() - began)
        return answer


def reference_of(attempt: Attempt) -> str:
    if attempt.processor_reference is None:
        raise ValueError("the attempt has no reference yet")
    return attempt.processor_reference


def answer_of(intent: stripe.PaymentIntent) -> Answer:
    """Reads without trust: what stands between us and the processor may answer 200 with anything."""
    fields: dict[str, Any] = intent.to_dict()
    if fields.get("object") != "payment_intent" or not fields.get("id"):
        return Answer(200)
    metadata = fields.get("metadata") or {}
    return Answer(
        200,
        Intent(
            reference=str(fields["id"]),
            status=str(fields.get("status")),
            amount_minor=fields.get("amount") or 0,
            received_minor=fields.get("amount_received") or 0,
            currency_code=str(fields.get("currency")).upper(),
            order_id=str(metadata.get("order_id")),
        ),
    )


def answer_of_error(error: stripe.StripeError) -> Answer:
    """Codes only: a message may quote the payment token."""
    detail = error.error
    return Answer(
        error.http_status or 0,
        error_type=(detail and detail.type) or "",
        code=(detail and detail.code) or "",
        decline_code=(detail and detail.decline_code) or "",
        param=(detail and detail.param) or "",
        request_id=error.request_id or "",
    )
