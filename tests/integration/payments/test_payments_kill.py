"""kill -9 of the real payments process at each place where something is half done."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2_grpc
from rowlock.money.v1.money_pb2 import Money
from rowlock.payments.v1 import payments_pb2 as pb
from rowlock.payments.v1 import payments_pb2_grpc as stubs

from tests.integration.payments.desk import BOOKING, ORDER, Booking, environment
from tests.integration.processor.sandbox_process import Line, Sandbox, end, start_module
from tests.support.engines import free_port
from tests.support.servers import Servers

PLACES = [("create", "before"), ("create", "after"), ("confirm", "before"), ("confirm", "after"), ("outcome", "before")]


class Payments:
    """A process that can be killed, by a fault or by hand, and started again."""

    def __init__(self, dsn: str, processor: str, booking: str, log: Path) -> None:
        self.dsn, self.port, self.log = dsn, free_port(), log
        self.environment = environment(dsn, processor, booking, self.port)
        self.process: subprocess.Popen[bytes] | None = None
        self.killed = asyncio.Event()

    def start(self) -> None:
        self.process = start_module("services.payments", self.environment, self.log)

    async def kill(self) -> None:
        if self.process is not None:
            end(self.process)
        self.killed.set()

    async def kill_and_cut(self) -> bytes | None:
        await self.kill()
        return None

    async def charge(self, token: str) -> None:
        request = pb.ChargeOrderRequest(
            order_id=ORDER, amount=Money(currency_code="EUR", amount_minor=4200), payment_token=token
        )
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            await stubs.PaymentsInternalServiceStub(channel).ChargeOrder(request, timeout=20, wait_for_ready=True)

    async def end_claims(self) -> None:
        """The clock that ends them is the database's: so the rows' times are moved, not ours."""
        connection = await asyncpg.connect(self.dsn)
        await connection.execute("UPDATE attempt SET due_time = clock_timestamp()")
        await connection.execute("UPDATE outbox SET claimed_until = NULL")
        await connection.close()


@pytest.fixture
async def booking() -> Booking:
    return Booking()


@pytest.fixture
async def payments(
    database: Callable[..., Awaitable[str]], line: Line, servers: Servers, booking: Booking, tmp_path: Path
) -> AsyncIterator[Payments]:
    channel = await servers.start((BOOKING, booking_pb2_grpc.add_BookingInternalServiceServicer_to_server, booking))
    running = Payments(await database("payments"), line.url, servers.address_of(channel), tmp_path / "payments.log")
    running.start()
    yield running
    await running.kill()


async def heard(booking: Booking, outcome: str) -> None:
    async with asyncio.timeout(20):
        while outcome not in [heard[1] for heard in booking.heard]:
            booking.changed.clear()
            await booking.changed.wait()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("token", "outcome"), [("pm_card_visa", "SUCCEEDED"), ("pm_card_chargeDeclined", "FAILED")])
async def test_a_killed_process_resumes_to_the_right_answer(
    payments: Payments, line: Line, sandbox: Sandbox, booking: Booking, place: tuple[str, str], token: str, outcome: str
) -> None:
    if place[0] == "outcome":
        booking.before = payments.kill
    else:
        line.faults[place] = payments.kill_and_cut
    await payments.charge(token)
    await asyncio.wait_for(payments.killed.wait(), 20)

    await payments.end_claims()
    payments.start()
    await heard(booking, outcome)

    assert {heard[:2] for heard in booking.heard} == {(ORDER, outcome)}
    assert len(await sandbox.captures(ORDER)) == (outcome == "SUCCEEDED")
    said = payments.log.read_text()
    assert ORDER in said
    assert token not in said
