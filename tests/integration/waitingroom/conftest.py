"""A line in a real Redis-protocol server."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.waitingroom.room import Room


@pytest.fixture
async def room(redis_url: str) -> AsyncIterator[Room]:
    """The stores, at START."""
    opened = Room.open(redis_url)
    opened.at(0)
    yield opened
    await opened.client.aclose()
