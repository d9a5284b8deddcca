"""The sandbox processor as the official SDK sees it: idempotency keys, and a ledger that outlives the process."""

import asyncio
import signal
from typing import Any

import httpx
import pytest
import stripe

from tests.integration.processor.sandbox_process import Sandbox

CREATE: Any = {"amount": 4200, "currency": "eur", "metadata": {"order_id": "ord_s1_1"}}
PAY: Any = {"payment_method": "pm_card_visa", "error_on_requires_action": True}
OTHER: Any = {**CREATE, "amount": 1}
DECLINED: Any = {**PAY, "payment_method": "pm_card_visa_chargeDeclined"}
SLOW: Any = {**PAY, "payment_method": "pm_sandbox_slow"}


async def test_a_repeated_request_gets_the_same_answer_and_one_capture(
    sandbox: Sandbox, intents: stripe.PaymentIntentService
) -> None:
    first = await intents.create_async(CREATE, {"idempotency_key": "k"})
    again = await intents.create_async(CREATE, {"idempotency_key": "k"})
    assert again.id == first.id

    paid = await intents.confirm_async(first.id, PAY, {"idempotency_key": "k:confirm"})
    repeat = await intents.confirm_async(first.id, PAY, {"idempotency_key": "k:confirm"})

    assert (paid.status, repeat.latest_charge) == ("succeeded", paid.latest_charge)
    (capture,) = await sandbox.captures("ord_s1_1")
    assert capture == {
        "sequence": 1,
        "orderId": "ord_s1_1",
        "paymentIntent": first.id,
        "amount": 4200,
        "currency": "EUR",
        "captured": 4200,
        "refunded": 0,
        "created": capture["created"],
    }


async def test_without_a_key_each_request_is_its_own(sandbox: Sandbox, intents: stripe.PaymentIntentService) -> None:
    """The control: the ledger does show an order that was charged twice."""
    for key in ("one", "two"):
        intent = await intents.create_async(CREATE, {"idempotency_key": key})
        await intents.confirm_async(intent.id, PAY)

    assert len(await sandbox.captures("ord_s1_1")) == 2


async def test_a_key_with_other_parameters_is_refused(intents: stripe.PaymentIntentService) -> None:
    await intents.create_async(CREATE, {"idempotency_key": "k"})

    with pytest.raises(stripe.IdempotencyError) as caught:
        await intents.create_async(OTHER, {"idempotency_key": "k"})
    assert caught.value.http_status == 400


async def test_a_key_under_way_is_refused_and_one_request_wins(
    sandbox: Sandbox, intents: stripe.PaymentIntentService
) -> None:
    intent = await intents.create_async(CREATE)
    calls = (intents.confirm_async(intent.id, SLOW, {"idempotency_key": "k"}) for _ in range(2))
    answers = await asyncio.gather(*calls, return_exceptions=True)

    (refused,) = [answer for answer in answers if isinstance(answer, stripe.StripeError)]
    assert refused.http_status == 409
    (won,) = [answer for answer in answers if isinstance(answer, stripe.PaymentIntent)]
    assert won.status == "succeeded"
    assert len(await sandbox.captures("ord_s1_1")) == 1


async def test_an_intent_cancelled_during_a_slow_confirm_is_not_paid(
    sandbox: Sandbox, intents: stripe.PaymentIntentService
) -> None:
    intent = await intents.create_async(CREATE)
    slow = asyncio.create_task(intents.confirm_async(intent.id, SLOW))
    await asyncio.sleep(0.5)
    assert (await intents.cancel_async(intent.id)).status == "canceled"

    with pytest.raises(stripe.InvalidRequestError):
        await slow
    assert await sandbox.captures("ord_s1_1") == []


async def test_a_decline_is_stored_for_its_key(intents: stripe.PaymentIntentService) -> None:
    intent = await intents.create_async(CREATE)
    answers = []
    for _ in range(2):
        with pytest.raises(stripe.CardError) as caught:
            await intents.confirm_async(intent.id, DECLINED, {"idempotency_key": "k"})
        answers.append(caught.value)

    assert [(error.http_status, error.code) for error in answers] == [(402, "card_declined")] * 2
    assert answers[0].http_body == answers[1].http_body
    assert (await intents.retrieve_async(intent.id)).status == "requires_payment_method"


async def test_what_was_answered_survives_a_kill(sandbox: Sandbox, intents: stripe.PaymentIntentService) -> None:
    intent = await intents.create_async(CREATE, {"idempotency_key": "k"})
    paid = await intents.confirm_async(intent.id, PAY, {"idempotency_key": "k:confirm"})
    sandbox.stop(signal.SIGKILL)
    await sandbox.start()

    assert (await intents.create_async(CREATE, {"idempotency_key": "k"})).id == intent.id
    repeat = await intents.confirm_async(intent.id, PAY, {"idempotency_key": "k:confirm"})
    assert repeat.latest_charge == paid.latest_charge
    assert len(await sandbox.captures("ord_s1_1")) == 1


async def test_a_second_process_cannot_open_the_ledger(sandbox: Sandbox) -> None:
    with pytest.raises(RuntimeError, match="ended with 1"):
        await Sandbox(sandbox.ledger.parent).start()


async def test_strangers_and_nonsense_are_refused(sandbox: Sandbox) -> None:
    async with httpx.AsyncClient(base_url=sandbox.url) as client:
        assert (await client.post("/v1/payment_intents", data={"amount": "1"})).status_code == 401
        assert (await client.get("/v1/nothing")).json()["error"]["type"] == "invalid_request_error"
        client.headers["Authorization"] = "Bearer sk_test_integration"
        assert (await client.get("/v1/payment_intents/pi_none")).status_code == 404
        assert (await client.post("/v1/payment_intents", content=b"a" * 100_000)).status_code == 413
        assert (await client.post("/v1/payment_intents", content=b"\xff")).status_code == 400
        assert (await client.get("/sandbox/ledger?limit=100000")).status_code == 400


async def test_the_ledger_comes_in_pages(sandbox: Sandbox, intents: stripe.PaymentIntentService) -> None:
    for _ in range(3):
        await intents.confirm_async((await intents.create_async(CREATE)).id, PAY)

    async with httpx.AsyncClient(base_url=sandbox.url) as client:
        first = (await client.get("/sandbox/ledger?limit=2")).json()
        last = (await client.get(f"/sandbox/ledger?limit=2&after={first['next']}")).json()
    assert [row["sequence"] for row in first["rows"] + last["rows"]] == [1, 2, 3]
    assert "next" not in last
