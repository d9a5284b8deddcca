"""A service dies by SIGKILL in the middle of an on-sale, and is started again: every promise is kept."""

import asyncio
import json
import sys

import asyncpg
import pytest

from tests.support.stacks import CHECKOUT, Stack

FANS, SEATS = 120, 150
ORDERS = 10  # by then fans hold and pay, and most have not yet
SALE_SECONDS = 120


async def count_orders(stack: Stack) -> int:
    """Of all sales."""
    connection = await asyncpg.connect(stack.database("booking_s1"))
    try:
        return int(await connection.fetchval("SELECT count(*) FROM orders"))
    finally:
        await connection.close()


async def until_it_sells(stack: Stack, sale: asyncio.subprocess.Process, before: int) -> None:
    """Until there are so many more orders, or the sale has ended."""
    for _ in range(10 * SALE_SECONDS):
        if sale.returncode is not None or await count_orders(stack) >= before + ORDERS:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("nobody buys anything")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", ["booking", "payments"])
async def test_an_onsale_survives_the_death_of(stack: Stack, part: str) -> None:
    words = ["-m", "onsale", "--fans", str(FANS), "--seats", str(SEATS), "--seed", "7"]
    before = await count_orders(stack)
    sale = await asyncio.create_subprocess_exec(
        sys.executable, *words,
        env=stack.environment, cwd=CHECKOUT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await until_it_sells(stack, sale, before)
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
