"""What hangs is given up in time, also what does not notice that it was given up."""

import asyncio
import contextlib
import time
from typing import Any

import pytest

from chassis.errors import Unavailable
from services.waitingroom import admitter
from services.waitingroom.store import scripts


async def hang() -> Any:
    """A client that loses a cancellation: it tries on."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0.5)
    await asyncio.sleep(0.5)


class HungStore:
    async def list_lines(self) -> Any:
        await asyncio.sleep(5)


async def test_a_call_that_hangs_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "CALL_SECONDS", 0.05)
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await scripts.bounded(hang())
    assert time.monotonic() - began < 0.3


async def test_a_round_of_ticks_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitter, "ROUND_SECONDS", 0.05)
    ticking = admitter.Admitter(HungStore())  # type: ignore[arg-type]
    began = time.monotonic()
    assert await ticking.run_once() == 0
    assert time.monotonic() - began < 2
    assert ticking.away
