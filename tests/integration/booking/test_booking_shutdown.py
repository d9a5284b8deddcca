"""The whole service as a process that is told to end while a commit takes its time and whoever asked has gone."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from tests.integration.booking.booth import EVENT, Booth, caller, inventory
from tests.integration.booking.process import ACTIVE, AS_IT_IS, Service, running, until
from tests.integration.booking.schedules import guarded_or_not

GATE = 4711  # an advisory lock

# Told to end, it is so busy that what arrives in the next seconds is not taken.
BUSY = """
drain = server.Server._drain
def busy(self, **how):
    server.time.sleep(2)
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
OpenReplica = Callable[..., Awaitable[Booth]]


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
async def test_a_burst_that_meets_a_process_told_to_end_is_answered(
    database: Callable[..., Awaitable[str]], open_replica: OpenReplica, guarded: bool
) -> None:
    """It has arrived, and Python has not taken it. The control stops the server at once, as gRPC would."""
    dsn = await database("booking")
    booth = await open_replica({"s1": dsn})
    await booth.internal.PutInventory(inventory())
    async with running(dsn, BUSY if guarded else f"{BUSY}\n{AT_ONCE}", drain_seconds=60) as service:
        service.process.send_signal(signal.SIGTERM)
        await service.said("draining")
        request = pb.HoldSeatsRequest(event_id=EVENT, seat_ids=[1])
        burst = (service.stub.HoldSeats(request, metadata=caller(f"fan-{n}", key="k")) for n in range(300))
        answers = await asyncio.gather(*burst, return_exceptions=True)
        assert await service.ended() == 0
    codes = {answer.code() for answer in answers if isinstance(answer, grpc.aio.AioRpcError)}
    assert (grpc.StatusCode.CANCELLED in codes) is not guarded


async def make_slow(dsn: str, table: str) -> None:
    """Whatever inserts into the table commits through the gate."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(SLOW_COMMIT.format(table=table, database=urlsplit(dsn).path[1:]))
    await connection.close()


@guarded_or_not
@pytest.mark.parametrize("wanted", ["hold", "order"])
async def test_a_commit_under_way_goes_on_when_the_process_is_told_to_end(
    database: Callable[..., Awaitable[str]], open_replica: OpenReplica, wanted: str, guarded: bool
) -> None:
    """The control closes the connections without waiting for the gatherers."""
    dsn = await database("booking")
    booth = await open_replica({"s1": dsn})
    await booth.internal.PutInventory(inventory())
    table = {"hold": "hold", "order": "orders"}[wanted]
    async with running(dsn, AS_IT_IS if guarded else CUTTING) as service:
        await make_slow(dsn, table)
        async with closed_gate(dsn) as keeper:
            await ask_and_leave(booth, service, wanted)
            service.process.send_signal(signal.SIGTERM)
            await service.said("draining")
            if guarded:
                await asyncio.sleep(0.5)
                assert service.process.returncode is None
                await keeper.close()
            assert await service.ended() == 0
    await until(booth, ACTIVE, 0)
    (row,) = await booth.execute(f"SELECT count(*) FROM {table} WHERE idempotency_key = 'k'")
    assert row["count"] == int(guarded)
    assert await booth.broken() == {}


@guarded_or_not
async def test_a_commit_under_way_goes_on_when_a_worker_ends_by_a_defect(
    database: Callable[..., Awaitable[str]], open_replica: OpenReplica, guarded: bool
) -> None:
    """The process waits for it, ends, and says so by its status; the control does not wait for the gatherers."""
    dsn = await database("booking")
    booth = await open_replica({"s1": dsn})
    await booth.internal.PutInventory(inventory())
    async with running(dsn, BREAKING if guarded else f"{BREAKING}\n{CUTTING}") as service:
        await make_slow(dsn, "hold")
        async with closed_gate(dsn) as keeper:
            await ask_and_leave(booth, service, "hold")
            service.process.send_signal(signal.SIGUSR1)
            await service.said("draining")
            if guarded:
                await asyncio.sleep(0.5)
                assert service.process.returncode is None
                await keeper.close()
            assert await service.ended() == 1
    await until(booth, ACTIVE, 0)
    (row,) = await booth.execute("SELECT count(*) FROM hold WHERE idempotency_key = 'k'")
    assert row["count"] == 1 or not guarded  # there the commit may be cut, or not
