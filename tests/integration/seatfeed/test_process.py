"""The whole service as a process that is killed."""

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import grpc
import pytest
from rowlock.seatfeed.v1 import seatfeed_pb2 as pb
from rowlock.seatfeed.v1 import seatfeed_pb2_grpc as pb_grpc

from chassis.client import open_channel
from tests.integration.seatfeed.house import EVENT_ID, Booking, House, parse_events

SECONDS = 60


@dataclass
class Feed:
    """A running process and its ports."""

    process: asyncio.subprocess.Process
    grpc: int
    streams: int

    async def get_seats(self) -> pb.GetSeatsResponse:
        async with open_channel(f"127.0.0.1:{self.grpc}") as channel:
            response: pb.GetSeatsResponse = await pb_grpc.SeatFeedServiceStub(channel).GetSeats(
                pb.GetSeatsRequest(event_id=EVENT_ID, section="A"), wait_for_ready=True, timeout=5
            )
            return response


@pytest.fixture
def environment(booking: Booking, house: House, feed_dsn: Callable[[str], str], redis_url: str) -> dict[str, str]:
    return {
        **os.environ,
        "ROWLOCK_SEATFEED_SHARDS": f"s1={feed_dsn(booking.dsn)}",
        "ROWLOCK_SEATFEED_REDIS_URL": redis_url,
        "ROWLOCK_SEATFEED_SLOT_PREFIX": house.slot,
        "ROWLOCK_SEATFEED_TICK_SECONDS": "0.1",
        "ROWLOCK_SEATFEED_DRAIN_SECONDS": "0",
    }


@asynccontextmanager
async def running(environment: dict[str, str]) -> AsyncIterator[Feed]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.seatfeed"), env=environment, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        ports: dict[str, int] = {}
        async with asyncio.timeout(SECONDS):
            while len(ports) < 2:
                line = json.loads(await process.stderr.readline())
                if str(line["event"]).startswith("listening"):
                    ports[line["event"]] = line["port"]
        draining = asyncio.create_task(process.stderr.read())
        yield Feed(process, ports["listening"], ports["listening for streams"])
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
        await draining


async def shows_the_table(feed: Feed, booking: Booking) -> pb.GetSeatsResponse:
    """Waits until it does; fails if it never does."""
    counts = await booking.counts()
    async with asyncio.timeout(SECONDS):
        while True:
            with suppress(grpc.aio.AioRpcError):  # not ready yet
                shown = await feed.get_seats()
                if {one.section: (one.open, one.held, one.taken) for one in shown.sections} == counts:
                    return shown
            await asyncio.sleep(0.1)


async def change_seats(booking: Booking, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        await booking.set_state(chance.choice(["AVAILABLE", "HELD", "SOLD"]), *chance.sample(range(1, 61), 5))
        await asyncio.sleep(0.01)


async def test_killed_in_the_middle_it_goes_on_with_no_change_lost(
    booking: Booking, environment: dict[str, str]
) -> None:
    async with running(environment) as first:
        epoch = (await shows_the_table(first, booking)).watermark.partition(".")[0]
        changing = asyncio.create_task(change_seats(booking, 1))
        await asyncio.sleep(0.4)
        first.process.kill()
        await first.process.wait()
        await changing
    await change_seats(booking, 2)  # nobody listens
    async with running(environment) as second:
        shown = await shows_the_table(second, booking)
        assert shown.watermark.startswith(epoch)  # resumed, not begun anew


async def test_a_second_process_serves_meanwhile_and_takes_over(booking: Booking, environment: dict[str, str]) -> None:
    async with running(environment) as first:
        epoch = (await shows_the_table(first, booking)).watermark.partition(".")[0]
        async with running(environment) as second:
            await shows_the_table(second, booking)
            reader, writer = await asyncio.open_connection("127.0.0.1", second.streams)
            writer.write(f"GET /v1/events/{EVENT_ID}/updates HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            first.process.kill()
            await first.process.wait()
            await booking.set_state("SOLD", 9, 10)
            shown = await shows_the_table(second, booking)
            assert shown.watermark.startswith(epoch)
            text = await asyncio.wait_for(reader.readuntil(shown.watermark.encode() + b'"'), SECONDS)
            events = parse_events((text + await reader.readuntil(b"\n\n")).decode())
            assert [count["taken"] for count in events[-1].data["sections"] if count["section"] == "A"] == [2]
            writer.close()
