"""The CLI as people run it: a process, its output and its status."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.catalog.conftest import catalog
from tests.integration.catalog.house import Catalog

ROOT = Path(__file__).parents[3]
RUN_SECONDS = 120

__all__ = ["catalog"]


class Ended(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Awaitable[Ended]]


async def run_command(*arguments: str, **environment: str) -> Ended:
    """`python -m cli …`, with no other ROWLOCK_ variables than these."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROWLOCK_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", *arguments),
        cwd=ROOT,
        env=clean | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), RUN_SECONDS)
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


@pytest.fixture
def run(catalog: Catalog, tmp_path: Path) -> Run:
    """Runs a command against the test's catalog, found as the stack writes it down."""
    (tmp_path / "endpoints.json").write_text(json.dumps({"catalog": catalog.address}))
    return lambda *arguments: run_command(*arguments, ROWLOCK_HOME=str(tmp_path))
