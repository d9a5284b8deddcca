"""A service dies by SIGKILL in the middle of an on-sale, and is started again: every promise is kept."""

import asyncio
import json
import sys

import pytest

from tests.support.stacks import CHECKOUT, Stack

FANS, SEATS = 120, 150
KILL_AFTER_SECONDS = 13.0  # fans arrive over eight seconds, then the sale begins: by now they hold and pay


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", ["booking", "payments"])
async def test_an_onsale_survives_the_death_of(stack: Stack, part: str) -> None:
    words = ["-m", "onsale", "--fans", str(FANS), "--seats", str(SEATS), "--seed", "7"]
    sale = await asyncio.create_subprocess_exec(
        sys.executable, *words,
        env=stack.environment, cwd=CHECKOUT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await asyncio.sleep(KILL_AFTER_SECONDS)
    assert sale.returncode is None, "the sale was over before anything was killed"
    assert stack.kill(part) == (2 if part == "booking" else 1)
    await asyncio.to_thread(stack.start)
    said, words_ = await sale.communicate()
    summary = json.loads(said.splitlines()[-1])
    assert sale.returncode == 0, words_.decode()
    assert summary["sold"] > 0
    assert (summary["double_sold"], summary["double_charged"], summary["lost_orders"]) == (0, 0, 0)
    if part == "booking":
        assert summary["server_errors"] > 0, "nobody noticed: the kill struck too late to be a test"
