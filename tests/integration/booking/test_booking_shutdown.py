"""The whole service as a process that is told to end while a commit takes its time and whoever asked has gone."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from tests.integration.booking.booth import EVENT, Booth, caller
from tests.integration.booking.process import ACTIVE, AS_IT_IS, Service, running, until
from tests.integration.booking.schedules import guarded_or_not

GATE = 4711  # an advisory lock

# Told to end, it takes nothing that arrives before SIGUSR1.
BUSY = """
server.signal.pthread_sigmask(server.signal.SIG_BLOCK, [server.signal.SIGUSR1])
drain = server.Server._drain
def busy(self, **how):
    server.signal.sigwait([server.signal.SIGUSR1])
    return drain(self, **how)
server.Server._drain = busy
"""
AT_ONCE = "server.LEAVE_SECONDS = 0"
BREAKING = """
class Broken:
    async def run(self):
        told = server.asyncio.Event()
        server.asyncio.get_running_loop().add_signal_handler(server.signal.SIGUSR1, told.set)
        await told.wait()
        raise RuntimeError("a defect")
workers.Workers.all = lambda self: [Broken()]
"""
CUTTING = "rules.Holds.close = rules.Orders.close = lambda self: rules.asyncio.sleep(0)"

SLOW_COMMIT = f"""
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON {{table}} DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION wait();
-- For connections that are opened from now on, so that a slow machine has the time: the gate's keeper decides.
ALTER ROLE app IN DATABASE "{{database}}" SET statement_timeout = 0;
ALTER ROLE app IN DATABASE "{{database}}" SET lock_timeout = 0;
"""
WAITING = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


async def ask_and_leave(booth: Booth, service: Service, wanted: str) -> None:
    """Somebody calls, and is gone before the commit has come through the gate."""
    if wanted == "hold":
        request = pb.HoldSeatsRequest(event_id=EVENT, seat_ids=[2, 3])
        call = service.stub.HoldSeats(request, metadata=caller("bob", key="k"))
    else:
        held = await booth.hold("ann", 1)
        order = pb.CreateOrderRequest(hold_id=held.hold_id, payment_token="pm")
        call = service.stub.CreateOrder(order, metadata=caller("ann", key="k"))
    asked = asyncio.ensure_future(call)
    await until(booth, WAITING, 1, GATE)
    call.cancel()
    await asyncio.gather(asked, return_exceptions=True)


@asynccontextmanager
async def closed_gate(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """No commit comes through before the connection ends."""
    keeper = await asyncpg.connect(dsn)
    await keeper.execute("SELECT pg_advisory_lock($1)", GATE)
    try:
        yield keeper
    finally:
        await keeper.close()


@guarded_or_not
async def test_a_burst_that_meets_a_process_told_to_end_is_answered(booth: Booth, guarded: bool) -> None:
    """It has arrived, and Python has not taken it. The control stops the server at once, as gRPC would."""
    async with running(booth.dsn, BUSY if guarded else f"{BUSY}\n{AT_ONCE}", drain_seconds=60) as service:
        service.process.send_signal(signal.SIGTERM)
        await service.said("draining")
        request = pb.HoldSeatsRequest(event_id=EVENT, seat_ids=[1])
        burst = [service.stub.HoldSeats(request, metadata=caller(f"fan-{n}", key="k")) for n in range(300)]
        await asyncio.sleep(1)  # nothing tells when it has arrived
        service.process.send_signal(signal.SIGUSR1)
        answers = await asyncio.gather(*burst, return_exceptions=True)
        assert await service.ended() == 0
    codes = {answer.code() for answer in answers if isinstance(answer, grpc.aio.AioRpcError)}
    assert (grpc.StatusCode.CANCELLED in codes) is not guarded
    if guarded:
        assert sum(isinstance(answer, pb.HoldSeatsResponse) for answer in answers) == 1
        assert codes <= {grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE}  # lost, or waited too long


async def make_slow(dsn: str, table: str) -> None:
    """Whatever inserts into the table commits through the gate."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(SLOW_COMMIT.format(table=table, database=urlsplit(dsn).path[1:]))
    await connection.close()


@guarded_or_not
@pytest.mark.parametrize(
    ("wanted", "change", "sent", "status"),
    [
        ("hold", AS_IT_IS, signal.SIGTERM, 0),
        ("order", AS_IT_IS, signal.SIGTERM, 0),
        ("hold", BREAKING, signal.SIGUSR1, 1),
    ],
    ids=["hold", "order", "a worker's defect"],
)
async def test_a_commit_under_way_goes_on_when_the_process_ends(
    booth: Booth, wanted: str, change: str, sent: signal.Signals, status: int, guarded: bool
) -> None:
    """Told to, or by a defect, which its status tells. The control does not wait for the gatherers: it ends before the
    gate opens."""
    table = {"hold": "hold", "order": "orders"}[wanted]
    async with running(booth.dsn, change if guarded else f"{change}\n{CUTTING}") as service:
        await make_slow(booth.dsn, table)
        async with closed_gate(booth.dsn) as keeper:
            await ask_and_leave(booth, service, wanted)
            service.process.send_signal(sent)
            await service.said("draining")
            if guarded:
                await asyncio.sleep(0.5)
                assert service.process.returncode is None
                await keeper.close()
            assert await service.ended() == status
    await until(booth, ACTIVE, 0)
    (row,) = await booth.execute(f"SELECT count(*) FROM {table} WHERE idempotency_key = 'k'")
    if guarded:
        assert row["count"] == 1
    elif sent is signal.SIGTERM:  # a process that ends by a defect cuts its connections: they may have committed
        assert row["count"] == 0
    assert await booth.broken() == {}
