"""The whole service as a process, which can be told to end."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from rowlock.booking.v1 import booking_pb2_grpc

from tests.integration.booking.booth import Booth

SECONDS = 20

# As `python -m services.booking`, with something changed.
RUN = """
from chassis import server
from services.booking import __main__, rules, workers
{}
__main__.run_main(__main__.main)
"""
AS_IT_IS = "pass"

ACTIVE = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name LIKE 'booking%' AND state <> 'idle'"
)


@dataclass
class Service:
    """A running process, and somebody who calls it."""

    process: asyncio.subprocess.Process
    stub: Any

    async def said(self, event: str) -> dict[str, Any]:
        """The next line of its log that says this."""
        assert self.process.stderr
        async with asyncio.timeout(SECONDS):
            async for line in self.process.stderr:
                found: dict[str, Any] = json.loads(line)
                if found["event"] == event:
                    return found
        raise AssertionError(f"it never said {event!r}")

    async def ended(self) -> int:
        """Its exit status."""
        assert self.process.stderr
        async with asyncio.timeout(SECONDS):
            await self.process.stderr.read()
            return await self.process.wait()


@asynccontextmanager
async def running(
    dsn: str, change: str = AS_IT_IS, *, drain_seconds: int = 0, close_seconds: int = 60
) -> AsyncIterator[Service]:
    """Killed at the end if it has not ended. `close_seconds` is more than any machine needs, unless a test says so."""
    environment = {
        **os.environ,
        "ROWLOCK_BOOKING_SHARDS": f"s1={dsn}",
        "ROWLOCK_BOOKING_PAYMENTS_TARGET": "127.0.0.1:1",
        "ROWLOCK_BOOKING_DRAIN_SECONDS": str(drain_seconds),
        "ROWLOCK_BOOKING_CLOSE_SECONDS": str(close_seconds),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN.format(change)), env=environment, stderr=asyncio.subprocess.PIPE
    )
    service = Service(process, None)
    try:
        port = (await service.said("listening"))["port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            service.stub = booking_pb2_grpc.BookingServiceStub(channel)
            yield service
    finally:
        if process.returncode is None:
            process.kill()
            await service.ended()


async def until(booth: Booth, sql: str, wanted: int, *arguments: Any) -> None:
    """The database says so."""
    for _ in range(50 * SECONDS):
        if (await booth.execute(sql, *arguments))[0][0] == wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"never {wanted}: {sql}")
