"""Delivers what stands in an outbox.

A message that was delivered is published; one that its sink refused rests, longer each time, and is parked after
MOST_REFUSALS; one whose sink is away rests and spends no try. Only the holder of a row's last claim may say which.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import structlog
from prometheus_client import Counter

from chassis.outbox.statements import queries
from chassis.postgres import acquire, finish
from chassis.queries import affected
from chassis.telemetry import SECRET_NAMES

CONCURRENCY = 64  # rows of one claim, delivered side by side: also the most calls of a relay under way at its sink
PROBES = 8  # rows of a claim while the sink is away: more than one, lest the first be one that no sink ever answers
DELIVERY_SECONDS = 15.0  # after that nobody answered: longer than a peer's deadline
CLAIM_SECONDS = 30.0  # twice that, so that no delivery of a relay that lives goes on after its claim
STRAGGLER_SECONDS = 0.25  # then the others are published, and the next ones claimed, without those that take longer

# With the rests below about ten minutes of refusals: long enough for a deploy that brought a bug to be rolled back.
MOST_REFUSALS = 10
FIRST_REST_SECONDS = 2.0
LONGEST_REST_SECONDS = 300.0
FIRST_PAUSE_SECONDS = 0.5  # of a sink that is away; doubled with each round in which nobody answered
LONGEST_PAUSE_SECONDS = 30.0
REFUSAL_LETTERS = 500

DELIVERIES = Counter("rowlock_outbox_deliveries_total", "What became of deliveries", ["sink", "verdict"])

log = structlog.get_logger()


class SinkUnavailable(Exception):
    """The sink cannot be reached: nobody's fault but its own, so no row is blamed."""


@dataclass(frozen=True, slots=True)
class Message:
    """A row, claimed. The payload may hold a payment token."""

    message_id: int
    aggregate_id: str
    kind: str
    payload: dict[str, Any] = field(repr=False)
    claim_number: int = 0


Ended = list[tuple[Message, Exception | None]]


@dataclass
class Pause:
    """How long a sink is left alone: twice as long after each round in which nobody answered, with jitter."""

    rounds: int = 0
    ends: float = 0.0

    def lasts(self) -> bool:
        return asyncio.get_running_loop().time() < self.ends

    def lengthen(self) -> float:
        """Begins; for how many seconds."""
        seconds = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self.rounds, 20), LONGEST_PAUSE_SECONDS)
        self.rounds += 1
        self.ends = asyncio.get_running_loop().time() + seconds * random.uniform(0.5, 1)
        return seconds

    def end(self) -> None:
        self.rounds, self.ends = 0, 0.0


class Relay:
    """Delivers the messages of one sink. Any number of relays may run on one table.

    `deliver` raises SinkUnavailable (or TimeoutError) when the sink is away; any other exception is a refusal of that
    message. It is cancelled after DELIVERY_SECONDS.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        sink: str,
        deliver: Callable[[Message], Awaitable[None]],
        *,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self.pool, self.sink, self.deliver, self.concurrency = pool, sink, deliver, concurrency
        self.pause = Pause()
        self.under_way: dict[asyncio.Task[Exception | None], Message] = {}

    async def run_once(self) -> int:
        """Claims what there is room for, commits the claim, delivers; how many messages were answered.

        A delivery that takes long is left under way, and settled in a later round; if there was nothing else, how many
        of those there are: the next round waits for them.
        """
        started = [] if self.pause.lasts() else await self._start()
        if not self.under_way:
            return 0
        try:
            await asyncio.wait(started or self.under_way, timeout=STRAGGLER_SECONDS)
        except asyncio.CancelledError:
            for task in self.under_way:
                task.cancel()  # whether it was delivered is not known: it is delivered again when the claim ends
            raise
        ended = [(self.under_way.pop(task), task.result()) for task in list(self.under_way) if task.done()]
        answered = await finish(self._settle(ended)) if ended else 0
        return answered or len(self.under_way)

    async def _start(self) -> list[asyncio.Task[Exception | None]]:
        most = self.concurrency - len(self.under_way)
        if self.pause.rounds:
            most = min(most, PROBES)
        if not most:
            return []
        deadline = asyncio.get_running_loop().time() + DELIVERY_SECONDS  # counted from before the claim
        started = []
        for message in await finish(self._claim(most)):
            task = asyncio.create_task(self._try(message, deadline))
            self.under_way[task] = message
            started.append(task)
        return started

    async def _claim(self, most: int) -> list[Message]:
        async with acquire(self.pool, "outbox") as connection:
            rows = [row async for row in queries.claim(connection, sink=self.sink, most=most, seconds=CLAIM_SECONDS)]
        rows.sort(key=lambda row: row["message_id"])
        return [Message(**{**row, "payload": json.loads(row["payload"])}) for row in rows]

    async def _try(self, message: Message, deadline: float) -> Exception | None:
        try:
            async with asyncio.timeout_at(deadline):
                await self.deliver(message)
        except TimeoutError:
            return SinkUnavailable("no answer in time")
        except Exception as error:
            return error
        return None

    async def _settle(self, ended: Ended) -> int:
        """Writes down what became of deliveries. The sink is away if nobody at all was answered."""
        delivered = [message for message, verdict in ended if verdict is None]
        away = [message for message, verdict in ended if isinstance(verdict, SinkUnavailable)]
        answered = len(ended) - len(away)
        rest = FIRST_REST_SECONDS
        if answered:
            self.pause.end()
        else:
            rest = self.pause.lengthen()
            log.warning("sink is away", sink=self.sink, messages=len(away), rounds=self.pause.rounds)
        async with acquire(self.pool, "outbox") as connection:
            if delivered:
                self._count("DELIVERED", delivered, await queries.publish(connection, **_claims(delivered)))
            if away:
                self._count("AWAY", away, await queries.postpone(connection, **_claims(away), seconds=rest))
            for message, verdict in ended:
                if verdict is not None and not isinstance(verdict, SinkUnavailable):
                    await self._refuse(connection, message, verdict)
        return answered

    async def _refuse(self, connection: asyncpg.Connection, message: Message, error: Exception) -> None:
        refusal = _without_secrets(f"{type(error).__name__}: {error}", message.payload)[:REFUSAL_LETTERS]
        parked = await queries.refuse(
            connection,
            message_id=message.message_id,
            claim_number=message.claim_number,
            refusal=refusal,
            most_refusals=MOST_REFUSALS,
            first_rest=FIRST_REST_SECONDS,
            longest_rest=LONGEST_REST_SECONDS,
        )
        self._count("REFUSED", [message], "UPDATE 0" if parked is None else "UPDATE 1")
        log.error("message refused", sink=self.sink, message=message.message_id, refusal=refusal, parked=bool(parked))

    def _count(self, verdict: str, messages: list[Message], status: str) -> None:
        kept = affected(status)
        DELIVERIES.labels(self.sink, verdict).inc(kept)
        if kept < len(messages):
            DELIVERIES.labels(self.sink, "CLAIM_LOST").inc(len(messages) - kept)
            log.warning("claims were lost", sink=self.sink, verdict=verdict, messages=len(messages) - kept)


def _claims(messages: list[Message]) -> dict[str, list[int]]:
    return {
        "message_ids": [message.message_id for message in messages],
        "claim_numbers": [message.claim_number for message in messages],
    }


def _without_secrets(text: str, payload: dict[str, Any]) -> str:
    """A sink may quote what it refuses, and operators read it."""
    for name, value in payload.items():
        if SECRET_NAMES.search(name) and isinstance(value, str) and value:
            text = text.replace(value, "[redacted]")
    return text
