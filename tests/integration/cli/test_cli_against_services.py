"""The sample catalog through catalog, booking and waitingroom, each a process of its own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc
from rowlock.waitingroom.v1 import waitingroom_pb2, waitingroom_pb2_grpc

from cli.sample_events import SAMPLE_EVENTS
from tests.integration.cli.conftest import ROOT, run_command
from tests.support.engines import free_port

START_SECONDS = 60
SIGNING_KEYS = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"


@asynccontextmanager
async def service(name: str, port: int, **settings: str) -> AsyncIterator[None]:
    """Runs `python -m services.NAME` until the block ends; it must then end well."""
    prefix = f"ROWLOCK_{name.upper()}_"
    own = {f"{prefix}LISTEN": f"127.0.0.1:{port}"} | {prefix + key: value for key, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"services.{name}"), cwd=ROOT, env=dict(os.environ) | own
    )
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await asyncio.wait_for(channel.channel_ready(), START_SECONDS)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        status = await process.wait()
    assert status == 0


async def test_sample_catalog_is_for_sale(database: Callable[..., Awaitable[str]], redis_url: str) -> None:
    ports = {name: free_port() for name in ("catalog", "booking", "waitingroom")}
    targets = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    booking, waitingroom = targets["booking"], targets["waitingroom"]
    addresses = {f"ROWLOCK_CLI_{name.upper()}": target for name, target in targets.items()}
    async with (
        service(
            "booking",
            ports["booking"],
            SHARDS=f"s1={await database('booking')}",
            PAYMENTS_TARGET="127.0.0.1:1",
            WAITINGROOM_TARGET=waitingroom,
        ),
        service("waitingroom", ports["waitingroom"], REDIS_URL=redis_url, SIGNING_KEYS=SIGNING_KEYS),
        service(
            "catalog",
            ports["catalog"],
            DATABASE_URL=await database("catalog"),
            SHARDS="s1",
            BOOKING_TARGET=booking,
            WAITINGROOM_TARGET=waitingroom,
        ),
        grpc.aio.insecure_channel(booking) as to_booking,
        grpc.aio.insecure_channel(waitingroom) as to_waitingroom,
    ):
        loaded = await run_command("sample-catalog", "--json", **addresses)
        assert loaded.status == 0, loaded.err
        events = loaded.json()
        assert len(events) == len(SAMPLE_EVENTS)
        seats = booking_pb2_grpc.BookingAdminServiceStub(to_booking)
        lines = waitingroom_pb2_grpc.WaitingRoomServiceStub(to_waitingroom)
        for event in events:
            counts = await seats.CountSeats(booking_pb2.CountSeatsRequest(event_id=event["eventId"]))
            assert counts.available == event["seatCount"]
            assert {area.area_id: area.available for area in counts.areas} == {
                area["areaId"]: area["capacity"] for area in event["areas"]
            }
            line = await lines.GetLine(waitingroom_pb2.GetLineRequest(event_id=event["eventId"]))
            assert (line.state != waitingroom_pb2.LINE_STATE_OPEN) == event["line"]
        again = await run_command("event", "publish", events[0]["eventId"], "--json", **addresses)
        assert json.loads(again.out) == events[0]
        invariants = (await run_command("invariants", "--json", **addresses)).json()["invariants"]
        assert all(invariants[name] for name in ("catalog", "booking", "waitingroom"))
        assert {found["violations"] for service in invariants.values() for found in service} == {"0"}
