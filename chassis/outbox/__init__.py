"""Effects outside a database: decided in a transaction, delivered after it, at least once, in order per aggregate."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import structlog
from prometheus_client import Gauge

from chassis.postgres import acquire, finish
from chassis.queries import load_queries

OUTBOX_MIGRATIONS = Path(__file__).parent / "migrations"

BATCH = 64  # rows of one claim: delivered side by side, so also the most calls under way at the sink
CLAIM_SECONDS = 30.0  # longer than a delivery's deadline, so that a live relay never loses its claim
MOST_REFUSALS = 10  # with the rests below about ten minutes: long enough for a deploy to be rolled back
FIRST_REST_SECONDS = 2.0
LONGEST_REST_SECONDS = 300.0
REFUSAL_LETTERS = 500
MEASURE_SECONDS = 5.0  # between two counts of what is left, also while there is no end of it

DEPTH = Gauge("rowlock_outbox_depth", "Messages not yet delivered", ["sink"])
PARKED = Gauge("rowlock_outbox_parked", "Messages that wait for a person", ["sink"])
OLDEST = Gauge("rowlock_outbox_oldest_seconds", "Age of the oldest undelivered message", ["sink"])

log = structlog.get_logger()
queries = load_queries(Path(__file__).parent / "outbox.sql")


class SinkUnavailable(Exception):
    """The sink cannot be reached: nobody's fault but its own, so no row is blamed."""


@dataclass(frozen=True, slots=True)
class Message:
    """A row, claimed."""

    message_id: int
    aggregate_id: str
    kind: str
    payload: dict[str, Any]


async def put(
    connection: asyncpg.Connection, *, sink: str, aggregate_id: str, kind: str, payload: dict[str, Any]
) -> None:
    """Writes a message in the caller's transaction; a relay delivers it once that has committed."""
    await queries.put(connection, sink=sink, aggregate_id=aggregate_id, kind=kind, payload=json.dumps(payload))


class Relay:
    """Delivers the messages of one sink. Any number of relays may run on one table.

    `deliver` raises SinkUnavailable when the sink is away; any other exception is a refusal of that message.
    """

    def __init__(self, pool: asyncpg.Pool, sink: str, deliver: Callable[[Message], Awaitable[None]]) -> None:
        self.pool, self.sink, self.deliver = pool, sink, deliver
        self.measured = -MEASURE_SECONDS

    async def run_once(self) -> int:
        """Claims a batch, commits the claim, delivers; how many were claimed, 0 also when the sink is away: then the
        worker pauses."""
        await self._measure()
        messages = await finish(self._claim())
        verdicts = await asyncio.gather(*(self._try(message) for message in messages))
        return await finish(self._settle(messages, verdicts))

    async def _settle(self, messages: list[Message], verdicts: list[Exception | None]) -> int:
        delivered = [m.message_id for m, verdict in zip(messages, verdicts, strict=True) if verdict is None]
        away = [m.message_id for m, v in zip(messages, verdicts, strict=True) if isinstance(v, SinkUnavailable)]
        async with acquire(self.pool, "outbox") as connection:
            if delivered:
                await queries.publish(connection, message_ids=delivered)
            if away:
                await queries.unclaim(connection, message_ids=away)
            for message, verdict in zip(messages, verdicts, strict=True):
                if verdict is not None and not isinstance(verdict, SinkUnavailable):
                    await self._refuse(connection, message, verdict)
        if away:
            log.warning("sink is away", sink=self.sink, messages=len(away))
        return 0 if away else len(messages)

    async def _claim(self) -> list[Message]:
        async with acquire(self.pool, "outbox") as connection:
            rows = [row async for row in queries.claim(connection, sink=self.sink, most=BATCH, seconds=CLAIM_SECONDS)]
        rows.sort(key=lambda row: row["message_id"])
        return [Message(r["message_id"], r["aggregate_id"], r["kind"], json.loads(r["payload"])) for r in rows]

    async def _try(self, message: Message) -> Exception | None:
        try:
            await self.deliver(message)
        except Exception as error:
            return error
        return None

    async def _refuse(self, connection: asyncpg.Connection, message: Message, error: Exception) -> None:
        refusal = f"{type(error).__name__}: {error}"[:REFUSAL_LETTERS]
        parked = await queries.refuse(
            connection,
            message_id=message.message_id,
            refusal=refusal,
            most_refusals=MOST_REFUSALS,
            first_rest=FIRST_REST_SECONDS,
            longest_rest=LONGEST_REST_SECONDS,
        )
        log.error("message refused", sink=self.sink, message=message.message_id, refusal=refusal, parked=bool(parked))

    async def _measure(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self.measured + MEASURE_SECONDS:
            return
        self.measured = now
        async with acquire(self.pool, "outbox") as connection:
            row = await queries.depth(connection, sink=self.sink)
        DEPTH.labels(self.sink).set(row["waiting"])
        PARKED.labels(self.sink).set(row["parked"])
        OLDEST.labels(self.sink).set(row["oldest_seconds"])
