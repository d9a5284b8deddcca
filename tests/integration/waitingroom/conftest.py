"""A line in a real Redis-protocol server."""

from collections.abc import AsyncIterator

import pytest

from services.waitingroom import admitter, counts, peers
from services.waitingroom.store import scripts
from tests.integration.waitingroom.room import Room


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine busy with other work is no store that is away, and no seat feed."""
    for name in ("CALL_SECONDS", "ANSWER_SECONDS", "CONNECT_SECONDS"):
        monkeypatch.setattr(scripts, name, 60.0)
    monkeypatch.setattr(peers, "ANSWER_SECONDS", 60.0)
    for module in (admitter, counts):
        monkeypatch.setattr(module, "ROUND_SECONDS", 60.0)


@pytest.fixture
async def room(redis_url: str) -> AsyncIterator[Room]:
    """The stores, at START."""
    opened = Room.open(redis_url)
    opened.at(0)
    yield opened
    await opened.client.aclose()
