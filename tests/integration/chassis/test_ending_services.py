"""Services that are told to end while their stores are behind a network that stands still. Booking has a test of its
own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import grpc
import pytest
from rowlock.catalog.v1 import catalog_pb2, catalog_pb2_grpc

from chassis.client import open_channel
from chassis.ending import CUT_SHORT
from tests.support.delay import DelayProxy, delay_proxy

SECONDS = 20
LONG_SECONDS = 120  # the bound of a process that must not need it
SHORT_SECONDS = 2
TRIES, STALL_SECONDS = 30, 0.3
NOBODY = "127.0.0.1:1"
RUN = "from chassis import server; from services.{} import __main__; {}; __main__.run_main(__main__.main)"
AS_IT_IS = "pass"
RELAY = b"booking"  # the sink whose messages payments' relay claims
BOUND_OFF = "server.end_within = lambda *_: None"
LATE_SECONDS = 3 * SHORT_SECONDS

# `{}` is a store behind a line. What a service does by itself goes on often.
VARIABLES = {
    "catalog": {
        "DATABASE_URL": "{catalog}",
        "SHARDS": "s1",
        "BOOKING_TARGET": NOBODY,
        "WAITINGROOM_TARGET": NOBODY,
    },
    "payments": {
        "DATABASE_URL": "{payments}",
        "BOOKING_TARGET": NOBODY,
        "PROCESSOR_URL": f"http://{NOBODY}",
        "PROCESSOR_API_KEY": "sk_test_nobody",
        "POLL_SECONDS": "0.1",
    },
    "seatfeed": {
        "SHARDS": "s1={feed}",
        "REDIS_URL": "{redis}",
        "SLOT_PREFIX": f"ending_{os.getpid()}",
        "TICK_SECONDS": "0.1",
    },
    "waitingroom": {
        "REDIS_URL": "{redis}",
        "SIGNING_KEYS": "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY",
        "TICK_SECONDS": "0.4",
    },
}

Open = Callable[[str], Awaitable[str]]

guarded_or_not = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])


@dataclass
class Service:
    """A running process, and the lines to its stores."""

    process: asyncio.subprocess.Process
    port: int
    lines: list[DelayProxy]

    async def stand_still(self, word: bytes = b"") -> None:
        """With something on its way that says so, in every line: again until that is so."""
        for _ in range(TRIES):
            for line in self.lines:
                line.stall()
            await self._ask_catalog()
            if all(line.caught and word in line.caught for line in self.lines):
                return
            for line in self.lines:
                line.resume()
                line.caught.clear()
            await asyncio.sleep(STALL_SECONDS)
        raise AssertionError("nothing was on its way")

    async def _ask_catalog(self) -> None:
        """It does nothing by itself; the others do not know the call."""
        with suppress(grpc.aio.AioRpcError):
            async with open_channel(f"127.0.0.1:{self.port}") as channel:
                stub = catalog_pb2_grpc.CatalogServiceStub(channel)
                await stub.ListEvents(catalog_pb2.ListEventsRequest(), timeout=STALL_SECONDS)
        await asyncio.sleep(STALL_SECONDS)

    async def ended(self, seconds: float = SECONDS) -> int:
        """Its exit status."""
        assert self.process.stderr
        async with asyncio.timeout(seconds):
            await self.process.stderr.read()
            return await self.process.wait()


@pytest.fixture
async def open_store(
    database: Open, feed_dsn: Callable[[str], str], redis_url: str
) -> AsyncIterator[Callable[[str], Awaitable[tuple[str, DelayProxy]]]]:
    """`await open_store("redis")`: the address of a store behind a line, and the line."""
    async with AsyncExitStack() as stack:

        async def address(store: str) -> str:
            if store == "redis":
                return redis_url
            return feed_dsn(await database("booking")) if store == "feed" else await database(store)

        async def open_one(store: str) -> tuple[str, DelayProxy]:
            there = await address(store)
            line = await stack.enter_async_context(delay_proxy(there))
            return line.between(there), line

        yield open_one


Stores = Callable[[str], Awaitable[tuple[str, DelayProxy]]]


@asynccontextmanager
async def running(
    name: str, open_store: Stores, *, close_seconds: int, change: str = AS_IT_IS
) -> AsyncIterator[Service]:
    """Killed at the end if it has not ended."""
    lines: list[DelayProxy] = []
    variables = {**VARIABLES[name], "DRAIN_SECONDS": "0", "CLOSE_SECONDS": str(close_seconds)}
    for key, text in VARIABLES[name].items():
        before, brace, store = text.partition("{")
        if brace:
            address, line = await open_store(store.rstrip("}"))
            lines.append(line)
            variables[key] = before + address
    process = await _start(name, change, variables)
    try:
        yield Service(process, await _port(process), lines)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _start(name: str, change: str, variables: Mapping[str, str]) -> asyncio.subprocess.Process:
    environment = {f"ROWLOCK_{name.upper()}_{key}": value for key, value in variables.items()}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN.format(name, change)),
        env=os.environ | environment,
        stderr=asyncio.subprocess.PIPE,
    )


async def _port(process: asyncio.subprocess.Process) -> int:
    assert process.stderr
    async with asyncio.timeout(SECONDS):
        async for line in process.stderr:
            said = json.loads(line)
            if said["event"] == "listening":
                return int(said["port"])
    raise AssertionError("it never listened")


@pytest.mark.parametrize("name", ["catalog", "waitingroom"])
async def test_a_service_that_commits_nothing_ends_by_itself(open_store: Stores, name: str) -> None:
    async with running(name, open_store, close_seconds=LONG_SECONDS) as service:
        await service.stand_still()
        service.process.send_signal(signal.SIGTERM)
        assert await service.ended() == 0


async def test_a_service_that_reads_the_log_ends_within_its_time(open_store: Stores) -> None:
    """By itself, unless its thread is in the middle of a call that blocks, as making a slot."""
    async with running("seatfeed", open_store, close_seconds=SHORT_SECONDS) as service:
        await service.stand_still()
        service.process.send_signal(signal.SIGTERM)
        assert await service.ended() in (0, CUT_SHORT)


@guarded_or_not
async def test_a_service_with_a_commit_under_way_ends_within_its_time(open_store: Stores, guarded: bool) -> None:
    """The relay's claim. The control has no bound, and waits for the network."""
    change = AS_IT_IS if guarded else BOUND_OFF
    async with running("payments", open_store, close_seconds=SHORT_SECONDS, change=change) as service:
        await service.stand_still(RELAY)
        service.process.send_signal(signal.SIGTERM)
        if guarded:
            assert await service.ended() == CUT_SHORT
            return
        with pytest.raises(TimeoutError):
            await service.ended(LATE_SECONDS)
        for line in service.lines:
            line.resume()
        assert await service.ended() == 0
