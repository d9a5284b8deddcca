"""Callers that go away before they have their answer, and ways to see what that breaks."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import grpc
from rowlock.booking.v1 import booking_pb2 as pb

from chassis import postgres
from tests.integration.booking.booth import EVENT, Booth, caller

SEATS, UNITS, ACCOUNTS = 400, 600, 500
PATIENT, PATIENCE = 0.05, 20.0  # share of callers who stay, so that something comes of every kind on any machine
NEW = ("hold", "best", "area", "read")  # anybody's
OLD = ("order", "release", "pay", "cancel")  # of something that somebody stayed to be given
KINDS = ("hold", *NEW, *OLD)
LATEST = 8  # of what was given, for the next callers to go on with: holds end soon


class Leavers:
    """Who mostly leaves. What those who stay are given, later ones go on with."""

    def __init__(self, booth: Booth, dice: random.Random) -> None:
        self.booth, self.dice = booth, dice
        self.held: list[tuple[str, str]] = [("fan-0", "hld_s1_1")]
        self.ordered: list[tuple[str, str]] = [("fan-0", "ord_s1_1")]
        self.answered: Counter[str] = Counter()

    async def call_and_leave(self, stub: Any, number: int) -> None:
        """A call whose caller waits for 0 to 150 ms, mostly less: the deadline ends it, or the caller does."""
        kind, seconds = self.dice.choice(KINDS), self.dice.random() ** 2 * 0.15
        stays = self.dice.random() < PATIENT
        if stays:
            seconds = PATIENCE
        account, thing = self.dice.choice(self.ordered if kind in ("pay", "cancel") else self.held)
        if kind in NEW:
            account = f"fan-{number % ACCOUNTS}"
        call = self._call(stub, kind, thing, metadata=caller(account, key=str(number)), timeout=seconds)
        if not stays and self.dice.random() < 0.5:
            await asyncio.sleep(seconds * self.dice.random())
            call.cancel()
        with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            self._keep(account, await call)
            self.answered[kind] += 1

    def _call(self, stub: Any, kind: str, thing: str, **known: Any) -> Any:
        if kind in ("hold", "best", "area"):
            return stub.HoldSeats(self._wanted(kind), **known)
        if kind == "read":
            return stub.ListOrders(pb.ListOrdersRequest(), **known)
        if kind == "order":
            return stub.CreateOrder(pb.CreateOrderRequest(hold_id=thing, payment_token="pm"), **known)
        if kind == "release":
            return stub.ReleaseHold(pb.ReleaseHoldRequest(hold_id=thing), **known)
        if kind == "cancel":
            return stub.CancelOrder(pb.CancelOrderRequest(order_id=thing), **known)
        request = pb.RecordPaymentOutcomeRequest(order_id=thing, outcome=pb.PAYMENT_OUTCOME_SUCCEEDED)
        return self.booth.internal.RecordPaymentOutcome(request, **known)

    def _wanted(self, kind: str) -> pb.HoldSeatsRequest:
        if kind == "best":
            return pb.HoldSeatsRequest(event_id=EVENT, best_available=pb.BestAvailable(quantity=2))
        if kind == "area":
            units = pb.GeneralAdmission(area_id=1, quantity=self.dice.randint(1, 3))
            return pb.HoldSeatsRequest(event_id=EVENT, general_admission=units)
        return pb.HoldSeatsRequest(event_id=EVENT, seat_ids=self.dice.sample(range(1, SEATS + 1), 2))

    def _keep(self, account: str, answer: Any) -> None:
        if isinstance(answer, pb.HoldSeatsResponse):
            self.held = [*self.held[-LATEST:], (account, answer.hold_id)]
        elif isinstance(answer, pb.CreateOrderResponse):
            self.ordered = [*self.ordered[-LATEST:], (account, answer.order_id)]


class Writes:
    """Stands where `finish` is, and sees which writes were cut. `shielded`: with `finish`; else without."""

    def __init__(self, *, shielded: bool) -> None:
        self.shielded, self.begun, self.cut = shielded, 0, 0

    async def finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await (postgres.finish(self._watch(work)) if self.shielded else self._watch(work))

    async def _watch(self, work: Awaitable[Any]) -> Any:
        self.begun += 1
        try:
            return await work
        except asyncio.CancelledError:
            self.cut += 1
            raise


@asynccontextmanager
async def leaky_acquire(pool: asyncpg.Pool, _name: str = "") -> AsyncIterator[asyncpg.Connection]:
    """What `acquire` must not be: a connection whose user is cancelled does not come back."""
    connection = await pool.acquire(timeout=postgres.POOL_WAIT_SECONDS)
    yield connection
    await pool.release(connection)


async def until_idle(booth: Booth, seconds: float = 10) -> None:
    """Until every connection of the pool is back, and no work goes on for somebody who left."""
    pool = booth.shards["s1"].pool
    for _ in range(int(20 * seconds)):
        if pool.get_idle_size() == pool.get_size() and not postgres._background:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(
        f"{pool.get_size() - pool.get_idle_size()} connections, {len(postgres._background)} tasks left"
    )


async def until_sessions_are_idle(booth: Booth) -> None:
    """Until the server too has nothing under way for booking, and no transaction is open."""
    for _ in range(100):
        sessions = await booth.execute(
            # Behind a pooler the one that asks may bear booking's name.
            "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'booking%'"
            " AND pid <> pg_backend_pid()"
        )
        states = {session["state"] for session in sessions}
        if states <= {"idle"}:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"sessions are {states} after 5 s")


async def give_everything_back(booth: Booth) -> int:
    """Ends every order, as its buyer or its payment would; how many."""
    rows = await booth.execute(
        "SELECT order_id, account, state FROM orders WHERE state IN ('PENDING_PAYMENT', 'CONFIRMED')"
    )
    for row in rows:
        order_id = booth.shards["s1"].id_of("ord", row["order_id"])
        if row["state"] == "CONFIRMED":
            await booth.cancel(row["account"], order_id)
        else:
            await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED)
    return len(rows)
