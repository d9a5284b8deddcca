"""A running stack, a browser, and events to buy at."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, async_playwright

from tests.e2e.browser.events import Sale, publish
from tests.e2e.browser.person import Person

CHECKOUT = Path(__file__).parents[3]
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START_SECONDS = 180
DESKTOP = (1440, 900)

Arrive = Callable[..., Awaitable[Person]]
Publish = Callable[..., Awaitable[Sale]]


@pytest.fixture(scope="session")
def endpoints() -> dict[str, Any]:
    """Where the running stack is; starts one if none runs, and leaves it running."""
    home = Path(os.environ.get("ROWLOCK_HOME", CHECKOUT / ".rowlock"))
    command = [sys.executable, "-m", "stack", "start"]
    started = subprocess.run(command, check=False, cwd=CHECKOUT, capture_output=True, text=True, timeout=START_SECONDS)
    assert started.returncode == 0, started.stdout + started.stderr
    found: dict[str, Any] = json.loads((home / "endpoints.json").read_text())
    return found


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield running
        await running.close()


@pytest.fixture
async def arrive(browser: Browser, endpoints: dict[str, Any]) -> AsyncIterator[Arrive]:
    """`await arrive()`: somebody new at a browser. An error that the page did not catch fails the test."""
    people: list[Person] = []

    async def come(size: tuple[int, int] = DESKTOP) -> Person:
        viewport = {"width": size[0], "height": size[1]}
        context = await browser.new_context(viewport=viewport, base_url=endpoints["gateway"])  # type: ignore[arg-type]
        people.append(Person(await context.new_page(), f"fan-{uuid.uuid4().hex[:8]}@example.org"))
        return people[-1]

    yield come
    for person in people:
        assert person.faults == []


@pytest.fixture
def sale(endpoints: dict[str, Any]) -> Publish:
    """`await sale(line=True)`: a new event that is on sale now."""

    async def make(**rules: Any) -> Sale:
        return await publish(endpoints["catalog"], **rules)

    return make
