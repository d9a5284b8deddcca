"""What services are tried against from outside."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.processor.sandbox_process import Line, Sandbox


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    """A running processor."""
    running = Sandbox(tmp_path)
    await running.start()
    yield running
    running.stop()


@pytest.fixture
async def line(sandbox: Sandbox) -> AsyncIterator[Line]:
    """The way to it, which can be cut."""
    opened = Line(sandbox.url)
    await opened.open()
    yield opened
    await opened.close()
