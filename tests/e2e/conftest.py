"""One stack for all end-to-end tests of a run."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.support.buyers import Gateway
from tests.support.stacks import Stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Runs from the first test that needs it to the end of the run."""
    home = Path(tempfile.mkdtemp(prefix="rowlock e2e "))  # the space is meant
    home.chmod(0o755)
    running = Stack(home)
    try:
        running.start()
        yield running
        running.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def gateway(stack: Stack) -> AsyncIterator[Gateway]:
    """HTTP to the stack's gateway, with connections of its own."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=250)) as session:
        yield Gateway(stack.endpoints, session)
