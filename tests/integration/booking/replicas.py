"""Two bookings over one database, each behind a slow network of its own; and guards that can be taken out."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import asyncpg
import grpc

from chassis.errors import reason_of
from tests.integration.booking.booth import Booth, inventory
from tests.support.delay import DelayProxy

DELAY_SECONDS = 0.02  # each way: more than all work of a hold, so that calls overlap at every step

# Of sessions in which one waits until a test lets it go on: nothing else is to end it, on any machine.
PATIENCE = {"statement_timeout": "55s", "lock_timeout": "30s", "idle_in_transaction_session_timeout": "55s"}

# What a browser would see as 5xx.
FAILURES = {
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}

OpenReplica = Callable[[Mapping[str, str]], Awaitable[Booth]]


@dataclass
class Replicas:
    """Two bookings, `a` and `b`. Both know the way around the proxies too, for what tests look at."""

    a: Booth
    b: Booth
    proxies: tuple[DelayProxy, DelayProxy]

    @property
    def both(self) -> tuple[Booth, Booth]:
        """In turn."""
        return self.a, self.b

    async def take_out(self, function: str, *guards: str, instead: str = "") -> None:
        """Replaces a function by itself without its guards, each of which must be there."""
        await change(self.a, function, dict.fromkeys(guards, instead))

    async def slow_down(self, function: str, before: str, seconds: float) -> None:
        """Makes a function wait before a line of its text, so that others have the time to get in between."""
        await change(self.a, function, {before: f"PERFORM pg_sleep({seconds}); {before}"})


async def change(booth: Booth, function: str, changes: Mapping[str, str]) -> None:
    """Replaces texts in a function, all of which must be there."""
    (row,) = await booth.execute("SELECT pg_get_functiondef(CAST($1 AS regproc)) AS text", function)
    text = row["text"]
    for old, new in changes.items():
        assert old in text, f"{function} has no such text: {old}"
        text = text.replace(old, new)
    await booth.execute(text)


async def be_patient(dsn: str) -> None:
    """All sessions that are opened from now on."""
    connection = await asyncpg.connect(dsn)
    for limit, value in PATIENCE.items():
        await connection.execute(
            f"ALTER ROLE CURRENT_USER IN DATABASE \"{dsn.rpartition('/')[2]}\" SET {limit} = '{value}'"
        )
    await connection.close()


async def open_replicas(
    open_replica: OpenReplica, dsn: str, proxies: tuple[DelayProxy, DelayProxy], *, seats: int = 20
) -> Replicas:
    """Opened at full speed, an event of `seats` on sale; then the network becomes slow."""
    await be_patient(dsn)
    booths = [replace(await open_replica({"s1": proxy.between(dsn)}), dsn=dsn) for proxy in proxies]
    await booths[0].internal.PutInventory(inventory(seats=seats))
    for booth in booths:  # connections and caches are warm, as they are in the middle of a sale
        await booth.hold("early", 1, key="early")
    await booths[0].execute("UPDATE seat SET state = 'AVAILABLE', hold_id = NULL, hold_expires_at = NULL")
    await booths[0].execute("DELETE FROM hold")
    for proxy in proxies:
        proxy.delay_seconds = DELAY_SECONDS
    return Replicas(booths[0], booths[1], proxies)


async def answers(*calls: Any) -> list[Any]:
    """Of calls made at once: each an answer, or the reason and metadata of its refusal. A failure is raised."""
    found = await asyncio.gather(*calls, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and (not isinstance(each, grpc.aio.AioRpcError) or each.code() in FAILURES):
            raise each
    return [reason_of(each) if isinstance(each, grpc.RpcError) else each for each in found]
