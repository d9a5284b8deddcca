"""A running sandbox processor."""

from collections.abc import AsyncIterator

import pytest
import stripe

from tests.integration.processor.sandbox_process import API_KEY, Sandbox


@pytest.fixture
async def intents(sandbox: Sandbox) -> AsyncIterator[stripe.PaymentIntentService]:
    """The official SDK's own view of it."""
    http = stripe.HTTPXClient(timeout=10)
    client = stripe.StripeClient(API_KEY, base_addresses={"api": sandbox.url}, http_client=http, max_network_retries=0)
    yield client.v1.payment_intents
    await http.close_async()
