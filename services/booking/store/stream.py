"""The stream `booking.orders`: what became of orders, for whoever may be late. No promise rides on it."""

import asyncio
import json
from uuid import UUID

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from chassis.outbox import Message, SinkUnavailable
from services.booking.rows import id_text

SINK = "booking.orders"  # the outbox's name for it, and the stream's key
MOST_ENTRIES = 1_000_000  # about 500 MB; a reader that is later than that asks for orders to be published again
CONNECTIONS = 4  # a pipeline takes some milliseconds, and each shard's relay has one under way
WAIT_SECONDS = 5.0  # for a connection: with the one below well inside the relay's deadline
SOCKET_SECONDS = 3.0

Fields = dict[str, str | int]


class OrderStream:
    """Appends messages of the outbox: at least once, an order's in the order of their versions.

    Messages that are delivered side by side share a pipeline: an XADD alone costs twice as much.
    """

    def __init__(self, url: str) -> None:
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=WAIT_SECONDS,
            socket_timeout=SOCKET_SECONDS,
            socket_connect_timeout=SOCKET_SECONDS,
            retry=Retry(NoBackoff(), 0),  # the relay tries again
        )
        self.client = redis.asyncio.Redis.from_pool(pool)
        self.gathered: list[tuple[Fields, asyncio.Future[None]]] = []
        self.appending: set[asyncio.Task[None]] = set()

    async def publish_order(self, shard: str, message: Message) -> None:
        """Raises SinkUnavailable whatever Redis says: no XADD fails for what is in it."""
        answer = asyncio.get_running_loop().create_future()
        self.gathered.append((_fields(shard, message), answer))
        if len(self.gathered) == 1:  # it begins when all deliveries that are about to begin have come here
            task = asyncio.create_task(self._append_gathered())
            self.appending.add(task)
            task.add_done_callback(self.appending.discard)
        await answer

    async def _append_gathered(self) -> None:
        batch, self.gathered = self.gathered, []
        try:
            async with self.client.pipeline(transaction=False) as pipeline:
                for fields, _ in batch:
                    pipeline.xadd(SINK, fields, maxlen=MOST_ENTRIES, approximate=True)  # type: ignore[arg-type]
                results = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            results = [error] * len(batch)
        for (_, answer), result in zip(batch, results, strict=True):
            if answer.done():
                continue  # its delivery was given up meanwhile
            if isinstance(result, Exception):
                answer.set_exception(SinkUnavailable(f"{SINK}: {type(result).__name__}"))
            else:
                answer.set_result(None)

    async def close(self) -> None:
        """After the relays have ended."""
        await asyncio.gather(*self.appending)
        await self.client.aclose()


def _fields(shard: str, message: Message) -> Fields:
    payload = {
        **message.payload,
        "order_id": id_text("ord", shard, UUID(message.aggregate_id)),
        "event_id": id_text("evt", shard, int(message.payload["event_id"])),
    }
    return {
        "order_id": payload["order_id"],
        "event_id": payload["event_id"],
        "version": int(payload["version"]),
        "kind": message.kind,
        "payload": json.dumps(payload, ensure_ascii=False),
    }
