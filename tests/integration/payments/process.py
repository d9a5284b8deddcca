"""The real payments process, which can be killed at any place and started again."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import grpc
from rowlock.money.v1.money_pb2 import Money
from rowlock.payments.v1 import payments_pb2 as pb
from rowlock.payments.v1 import payments_pb2_grpc as stubs

from tests.integration.payments.desk import ORDER, Booking, environment
from tests.integration.processor.sandbox_process import end, start_module
from tests.support.engines import free_port


class Payments:
    """A process that can be killed, by a fault or by hand, and started again."""

    def __init__(self, dsn: str, processor: str, booking: str, log: Path) -> None:
        self.dsn, self.port, self.log = dsn, free_port(), log
        self.environment = environment(dsn, processor, booking, self.port)
        self.process: subprocess.Popen[bytes] | None = None
        self.killed = asyncio.Event()

    def start(self) -> None:
        self.killed.clear()
        self.process = start_module("services.payments", self.environment, self.log)

    async def kill(self) -> None:
        if self.process is not None:
            end(self.process)
        self.killed.set()

    async def kill_and_cut(self) -> bytes | None:
        await self.kill()
        return None

    async def was_killed(self) -> None:
        await asyncio.wait_for(self.killed.wait(), 30)

    async def charge(self, token: str) -> None:
        request = pb.ChargeOrderRequest(
            order_id=ORDER, amount=Money(currency_code="EUR", amount_minor=4200), payment_token=token
        )
        async with self._stub() as stub:
            await stub.ChargeOrder(request, timeout=30, wait_for_ready=True)

    async def abandon(self) -> tuple[str, str]:
        """State and reason."""
        async with self._stub() as stub:
            answer = await stub.AbandonOrder(pb.AbandonOrderRequest(order_id=ORDER), timeout=30, wait_for_ready=True)
        return pb.AttemptState.Name(answer.state).removeprefix("ATTEMPT_STATE_"), answer.failure_reason

    async def end_claims(self) -> None:
        """The clock that ends them is the database's: so the rows' times are moved, not ours."""
        connection = await asyncpg.connect(self.dsn)
        await connection.execute("UPDATE attempt SET due_time = clock_timestamp()")
        await connection.execute("UPDATE outbox SET claimed_until = NULL")
        await connection.close()

    @asynccontextmanager
    async def _stub(self) -> AsyncIterator[Any]:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            yield stubs.PaymentsInternalServiceStub(channel)


async def heard(booking: Booking, outcome: str) -> None:
    async with asyncio.timeout(30):
        while outcome not in [heard[1] for heard in booking.heard]:
            booking.changed.clear()
            await booking.changed.wait()
