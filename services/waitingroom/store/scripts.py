"""Runs the scripts of one event's line in Redis: bounded in time, and refused as UNAVAILABLE when it is away."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import redis.asyncio
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from chassis.errors import Unavailable

T = TypeVar("T")

HERE = Path(__file__).parent
PRELUDE = "prelude"

CONNECTIONS = 16  # one process keeps no more busy, and a spike that opens 64 at once takes four times as long
CALL_SECONDS = 2.0  # all of a call, with the wait for a connection and a second try: within a caller's patience
ANSWER_SECONDS = 1.0  # a healthy server answers in a millisecond
CONNECT_SECONDS = 0.5

AWAY_MESSAGE = "The waiting room cannot be reached right now; try again in a moment."

KEY_NAMES = ("line", "positions", "cohorts", "claims", "leases", "history")
"""In the order in which the prelude names them."""

AWAY = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,  # the primary became a replica, and its clients have not noticed yet
    exceptions.OutOfMemoryError,
    exceptions.TryAgainError,
    exceptions.ClusterDownError,
    OSError,
    TimeoutError,
)


def connect(url: str, connections: int = CONNECTIONS) -> redis.asyncio.Redis:
    """A client that connects when it must. It tries a call twice at most, which every script allows: so a connection
    that died with the server's last run costs nobody an error."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=CALL_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        socket_connect_timeout=CONNECT_SECONDS,
        retry=Retry(NoBackoff(), 1),
        decode_responses=True,
    )
    return redis.asyncio.Redis.from_pool(pool)


def keys_of(event_id: str) -> list[str]:
    """All keys of one event; the hash tag keeps them on one node of a Redis Cluster."""
    return [f"waitingroom:{{{event_id}}}:{name}" for name in KEY_NAMES]


def read_scripts(directory: Path = HERE) -> dict[str, str]:
    """Every script by name, with the prelude in front."""
    prelude = (directory / f"{PRELUDE}.lua").read_text()
    return {file.stem: prelude + file.read_text() for file in directory.glob("*.lua") if file.stem != PRELUDE}


class Scripts:
    """The scripts, called by name and SHA; loaded again by themselves where a server does not know them.

    Redis' TIME decides, unless a test sets `now`, in milliseconds.
    """

    def __init__(self, client: redis.asyncio.Redis, texts: dict[str, str]) -> None:
        self.client = client
        self.now: int | None = None
        self._scripts: dict[str, Callable[..., Any]] = {n: client.register_script(text) for n, text in texts.items()}

    async def run(self, name: str, event_id: str, *arguments: str | int) -> Any:
        """The script's answer."""
        now = "" if self.now is None else self.now
        return await bounded(self._scripts[name](keys=keys_of(event_id), args=[now, *arguments]))


async def bounded(call: Awaitable[T]) -> T:
    """Its answer; after CALL_SECONDS, and when something says that Redis is away, refused as UNAVAILABLE.

    It does not wait for the call to notice that it was cancelled: a cancellation that comes together with a time-out
    of the client's own is lost, and the client would try on.
    """
    task = asyncio.ensure_future(call)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to hear of it
    try:
        await asyncio.wait({task}, timeout=CALL_SECONDS)
        if task.done():
            return task.result()
    except AWAY as error:
        raise Unavailable(AWAY_MESSAGE) from error
    finally:
        task.cancel()
    raise Unavailable(AWAY_MESSAGE)
