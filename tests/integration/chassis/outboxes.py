"""An outbox to play with: a database, a sink that remembers, and ways to make time pass."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from chassis import outbox
from chassis.outbox import Message, Relay

SINK = "tried"


async def put(pool: asyncpg.Pool, aggregate: str, kind: str = "charge", sink: str = SINK, **payload: Any) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await outbox.put(
            connection, sink=sink, aggregate_id=aggregate, kind=kind, payload={"order": aggregate, **payload}
        )


class Sink:
    """Remembers what it was given; raises `fault(message)` instead while there is one, and counts that."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str]] = []
        self.fault: Callable[[Message], Exception | None] = lambda _: None
        self.faults = 0

    async def __call__(self, message: Message) -> None:
        error = self.fault(message)
        if error:
            self.faults += 1
            raise error
        self.got.append((message.aggregate_id, message.kind))

    def of(self, aggregate: str) -> list[str]:
        return [kind for who, kind in self.got if who == aggregate]


class Slow(Sink):
    """Answers when it is let go: `begun` is set once it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, message: Message) -> None:
        self.begun.set()
        await self.go.wait()
        await super().__call__(message)


async def drain(relay: Relay) -> int:
    """Runs until there is nothing to claim; rounds that worked."""
    rounds = 0
    while await relay.run_once():
        rounds += 1
    return rounds


async def until(database: asyncpg.Pool | asyncpg.Connection, question: str, *arguments: Any) -> None:
    """Until the answer is true."""
    for _ in range(2000):
        if await database.fetchval(question, *arguments):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never: {question}")


async def end_rests(pool: asyncpg.Pool, *relays: Relay) -> None:
    """As if every claim, every row's rest and these relays' pauses were over."""
    await pool.execute(
        "UPDATE outbox SET claimed_until = clock_timestamp() - interval '1 ms' WHERE claimed_until > 'epoch'"
    )
    for relay in relays:
        relay.pause.ends = 0.0
