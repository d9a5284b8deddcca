"""Races over two bookings, in rounds. What a round does follows from its seed; what its callers meet follows from a
gate in the middle of the functions: whoever comes there waits, and when enough do, it opens for all.

With its guards a race keeps every promise in every round. Its control is the same race without a guard: within some
rounds the promise must be seen broken."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.errors import reason_of
from tests.integration.booking.booth import EVENT, Booth
from tests.integration.booking.replicas import FAILURES, Replicas, change
from tests.support.soak import seeds, size

CONTROL = 0  # in the place of a seed
ROUNDS = size(3, 20)  # of one seed
MOST_ROUNDS = 40  # until a control has shown what it is there for; most show it in the first
SPREAD_SECONDS = 0.03  # over which callers arrive: about a call's time over the slow network
GATE = 7_357  # an advisory lock's number
LOOKS = 2_000  # at who waits, 10 ms apart

seeded_and_control = pytest.mark.parametrize(
    "seed", [*seeds(2), CONTROL], ids=lambda seed: f"seed-{seed}" if seed else "control"
)

# Nothing is sold, and nobody has ever been here.
CLEAN = """
  DELETE FROM ticket; DELETE FROM refund_due; DELETE FROM late_payment; DELETE FROM order_seat; DELETE FROM outbox;
  DELETE FROM orders; DELETE FROM hold;
  UPDATE seat SET state = 'AVAILABLE', hold_id = NULL, hold_expires_at = NULL, order_id = NULL
   WHERE state <> 'AVAILABLE';
"""
WAITING = """
  SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
     AND application_name LIKE 'booking%'
"""

Round = Callable[[random.Random], Awaitable[list[str]]]


async def run_rounds(replicas: Replicas, seed: int, once: Round, *, breaks: str) -> None:
    """Each `once` starts with nothing sold and tells what went wrong by its answers. The control has to break `breaks`,
    which is among these or one of the invariants."""
    units = [tuple(row) for row in await replicas.a.execute("SELECT counter, available FROM area_counter")]
    seen: list[str] = []
    for number in range(ROUNDS if seed else MOST_ROUNDS):
        await _begin(replicas.a, units)
        wrong = await once(random.Random(1000 * seed + number))
        wrong += await broken_promises(replicas)
        assert not seed or not wrong, f"round {number}: {wrong}"
        if breaks in wrong:
            assert not seed
            return
        seen += wrong
    assert seed, f"the control did not break {breaks}, but {set(seen)}"


async def put_gate(replicas: Replicas, function: str, before: str, *, seconds: str = "") -> None:
    """A gate in a function, before a line of its text, which must be there. `seconds`, in SQL, pass behind it."""
    pause = f"PERFORM pg_sleep({seconds}); " if seconds else ""
    await change(replicas.a, function, {before: gated(pause + before)})


def gated(text: str) -> str:
    """Behind the gate."""
    patience = "PERFORM set_config('lock_timeout', '30s', true);"  # a slow machine is no reason to give up here
    return f"{patience} PERFORM pg_advisory_xact_lock_shared({GATE}); {text}"


async def through_gate(booth: Booth, *calls: Any, meet: int = 2) -> list[Any]:
    """What becomes of calls at once, of which `meet` wait for a lock (or all that have not ended) when it opens."""
    async with closed_gate(booth) as keeper:
        tasks = [asyncio.ensure_future(call) for call in calls]
        await _until_they_meet(keeper, tasks, meet)
    return await asyncio.gather(*tasks, return_exceptions=True)


async def contest(replicas: Replicas, dice: random.Random, *calls: Any, meet: int = 2) -> list[Any]:
    """Calls that arrive within SPREAD_SECONDS, in any order, and of which `meet` wait for a lock (or all that have not
    ended) when the gate opens: each an answer, the reason and metadata of its refusal, or its failure."""
    async with closed_gate(replicas.a) as keeper:
        tasks = [asyncio.create_task(_later(dice.random() * SPREAD_SECONDS, call)) for call in calls]
        later = dice.random() * SPREAD_SECONDS
        await _until_they_meet(keeper, tasks, meet)
        await asyncio.sleep(later)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return [_refusal(each) if isinstance(each, grpc.aio.AioRpcError) else each for each in found]


@asynccontextmanager
async def closed_gate(booth: Booth) -> AsyncIterator[asyncpg.Connection]:
    """Nobody passes meanwhile."""
    async with session(booth) as keeper:
        await keeper.execute("SELECT pg_advisory_lock($1)", GATE)
        yield keeper


def failures(found: Iterable[Any], *reasons: str) -> list[str]:
    """What a caller would see as 5xx, and refusals for other reasons than these."""
    failed = [f"5xx: {each}" for each in found if isinstance(each, BaseException)]
    return failed + [
        f"refused: {each}" for each in found if isinstance(each, tuple) and each and each[0] not in reasons
    ]


def answered(found: Iterable[Any]) -> list[Any]:
    """Those that were not refused."""
    return [each for each in found if not isinstance(each, tuple | BaseException)]


def lost(found: Iterable[Any], reason: str) -> bool:
    """Whether one was refused for this reason."""
    return any(isinstance(each, tuple) and each[0] == reason for each in found)


async def broken_promises(replicas: Replicas) -> list[str]:
    """The invariants and conservation, looked at from near by: they are many statements."""
    delays = [proxy.delay_seconds for proxy in replicas.proxies]
    for proxy in replicas.proxies:
        proxy.delay_seconds = 0
    wrong = [*await replicas.a.broken(), *await _lost_or_made(replicas.a)]
    for proxy, delay in zip(replicas.proxies, delays, strict=True):
        proxy.delay_seconds = delay
    return wrong


async def deadlocks(booth: Booth, *, least: int = 0) -> int:
    """So many there were. Every session tells of its own when it is idle for a second, so more than one is waited for,
    and until there are `least`."""
    found = 0
    for number in range(LOOKS):
        await asyncio.sleep(0.01 if number else 1.5)
        (row,) = await booth.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        found = row["deadlocks"]
        if found >= least:
            break
    return found


@asynccontextmanager
async def session(booth: Booth) -> AsyncIterator[asyncpg.Connection]:
    """One of the database's, near it."""
    connection = await asyncpg.connect(booth.dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def until_they_wait(booth: Booth, count: int = 1) -> None:
    """Until so many of the bookings' sessions wait for a lock."""
    async with session(booth) as watcher:
        await _until_they_meet(watcher, [], count)


async def _until_they_meet(watcher: asyncpg.Connection, tasks: list["asyncio.Task[Any]"], meet: int) -> None:
    for _ in range(LOOKS):
        waiting = await watcher.fetchval(WAITING)
        going_on = len([task for task in tasks if not task.done()]) if tasks else meet
        if waiting >= min(meet, going_on):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("they do not meet")


async def _later(seconds: float, call: Any) -> Any:
    await asyncio.sleep(seconds)
    return await call


def _refusal(error: grpc.aio.AioRpcError) -> Any:
    return error if error.code() in FAILURES else reason_of(error)


async def _begin(booth: Booth, units: list[Any]) -> None:
    async with session(booth) as connection:
        await connection.execute(CLEAN)
        await connection.executemany("UPDATE area_counter SET available = $2 WHERE counter = $1", units)


async def _lost_or_made(booth: Booth) -> list[str]:
    """Conservation: every seat and every unit is in one state."""
    counts = await booth.admin.CountSeats(pb.CountSeatsRequest(event_id=EVENT))
    (row,) = await booth.execute(
        "SELECT (SELECT count(*) FROM seat) AS seats, (SELECT coalesce(sum(capacity), 0) FROM area) AS units"
    )
    seats = sum(value for field, value in counts.ListFields() if field.name != "areas")
    units = sum(value for area in counts.areas for field, value in area.ListFields() if field.name != "area_id")
    found = {"seats": (seats, row["seats"]), "units": (units, row["units"])}
    return [f"{there} of {all_of_them} {name}" for name, (there, all_of_them) in found.items() if there != all_of_them]
