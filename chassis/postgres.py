"""Connections to Postgres: bounded waits, bounded retries, and no commit under a caller's cancellation."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import asyncpg
import structlog
from prometheus_client import Histogram

from chassis.errors import Contended, Unavailable

T = TypeVar("T")
Check = Callable[[asyncpg.Connection], Awaitable[None]]

MAX_TRIES = 3  # the first, and at most two more: a deadlock's loser always wins sooner or later, others wait meanwhile
POOL_WAIT_SECONDS = (
    2.0  # longer than any healthy wait, shorter than a caller's patience: a paused standby fills the pool
)
MOST_SECONDS = 60.0  # with a connection; only a standby that is paused, or a network that is cut, takes so long
STATEMENTS = 100  # prepared and kept by a connection; more than any service has
POOL_WAIT = Histogram("rowlock_pool_wait_seconds", "Wait for a pooled connection", ["pool"])

# The session ended, or the server ended the statement: whether anything was done is not known.
NO_ANSWER = "The database did not answer in time; try again with the same key."
WENT_AWAY = "The database went away meanwhile; try again with the same key."
LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError)
# The server is gone, starting, or full, or the pool stayed busy.
NO_CONNECTION = (
    TimeoutError,
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.LockNotAvailableError,
    asyncpg.TooManyConnectionsError,
)

# What the migrations of every service set for its role; a service that starts compares.
EXPECTED_SETTINGS = {
    "default_transaction_isolation": "read committed",
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "10s",
}
# And where statements are for a few rows of large tables; a migration of each such service says why.
BY_INDEX_ONLY = EXPECTED_SETTINGS | dict.fromkeys(
    ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_material"), "off"
)

_background: set[asyncio.Task[Any]] = set()

log = structlog.get_logger()


class WrongDatabase(RuntimeError):
    """A connection leads to another database than the one that it is for."""


async def open_pool(
    dsn: str,
    *,
    name: str,
    min_size: int = 2,
    max_size: int = 10,
    statements: int = STATEMENTS,
    expect: Mapping[str, str] | None = None,
    check: Check | None = None,
) -> asyncpg.Pool:
    """A pool that is checked before it is used: `expect` are settings that the role must have in this database.

    `check` tries every connection, also one that is opened later, before anything else is asked of it, and raises
    WrongDatabase: after a failover the same address may lead elsewhere.

    `statements`: prepared ones that a connection keeps. None may be kept behind a pooler in transaction mode, where the
    next one of a connection may reach another session: then each is parsed again with its call.

    Raises RuntimeError, naming what is wrong, if a setting differs (migrations set them by ALTER ROLE), or
    WrongDatabase, which is one.
    """
    pool = await asyncpg.create_pool(
        dsn,
        min_size=min_size,
        max_size=max_size,
        init=partial(_try_out, check=check),
        reset=_keep,
        server_settings={"application_name": name},
        statement_cache_size=statements,
    )
    for setting, wanted in (expect or {}).items():
        found = await pool.fetchval("SELECT current_setting($1)", setting)
        if found != wanted:
            await close_pool(pool)
            raise RuntimeError(f"{name}: {setting} is {found!r} in this database, not {wanted!r}: run the migrations")
    return pool


async def close_pool(pool: asyncpg.Pool) -> None:
    """When its users are done. One that is not loses its connection after POOL_WAIT_SECONDS."""
    with suppress(TimeoutError):
        async with asyncio.timeout(POOL_WAIT_SECONDS):
            await pool.close()


class KeptConnection:
    """A connection of one's own beside the pool, for one user at a time: opened when it is first needed, and again
    after it was lost. `check` as for a pool."""

    def __init__(self, dsn: str, name: str, statements: int = STATEMENTS, check: Check | None = None) -> None:
        self.dsn, self.name, self.statements, self.check = dsn, name, statements, check
        self.connection: asyncpg.Connection | None = None

    async def run(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Raises Unavailable when there is no connection, or when it is lost meanwhile: then what was done is unknown.

        Not to be cancelled: asyncpg would cut a commit that waits for the standby. Work that never ends loses its
        connection instead, and the server goes on.
        """
        connection = await self._open()
        patience = asyncio.get_running_loop().call_later(MOST_SECONDS, connection.terminate)
        try:
            return await work(connection)
        except LOST as error:
            raise Unavailable(WENT_AWAY) from error
        finally:
            patience.cancel()

    async def close(self) -> None:
        """When its user is done: asyncpg cancels what is still under way, a commit too."""
        if self.connection is not None:
            with suppress(TimeoutError, *LOST):
                await self.connection.close(timeout=POOL_WAIT_SECONDS)

    async def _open(self) -> asyncpg.Connection:
        if self.connection is None or self.connection.is_closed():
            with _refusals():
                async with asyncio.timeout(POOL_WAIT_SECONDS):
                    connection = await asyncpg.connect(
                        self.dsn,
                        statement_cache_size=self.statements,
                        server_settings={"application_name": self.name},
                    )
                    await _try_out(connection, self.check)
            self.connection = connection
        return self.connection


async def _try_out(connection: asyncpg.Connection, check: Check | None) -> None:
    """A connection that fails is dropped at once: to close it in good order would wait for a network that is cut."""
    try:
        if check:
            await check(connection)
    except (Exception, asyncio.CancelledError):
        connection.terminate()
        raise


@contextmanager
def _refusals() -> Iterator[None]:
    """Whatever keeps us from a connection is UNAVAILABLE for the caller; what no waiting will mend is told loudly."""
    try:
        yield
    except NO_CONNECTION as error:
        raise Unavailable(NO_ANSWER) from error
    except (WrongDatabase, asyncpg.PostgresError) as error:
        log.critical("the database is not what it should be", error=repr(error))
        raise Unavailable(NO_ANSWER) from error


async def _keep(_connection: asyncpg.Connection) -> None:
    """Nothing here leaves anything behind in a session but a transaction, and that asyncpg rolls back by itself: its
    RESET ALL after each use would be one more round trip."""


@asynccontextmanager
async def acquire(pool: asyncpg.Pool, name: str = "") -> AsyncIterator[asyncpg.Connection]:
    """A connection, within POOL_WAIT_SECONDS; refused as UNAVAILABLE after that, or when the database goes away.

    For MOST_SECONDS at most; then it is dropped, and not cancelled as asyncpg's own time-out would: a commit that waits
    for the standby goes on.
    """
    with POOL_WAIT.labels(name).time(), _refusals():
        connection = await pool.acquire(timeout=POOL_WAIT_SECONDS)
    patience = asyncio.get_running_loop().call_later(MOST_SECONDS, connection.terminate)
    cut_short = False
    try:
        yield connection
    except asyncio.CancelledError:
        cut_short = True
        raise
    except (*LOST, asyncpg.InterfaceError) as error:
        if isinstance(error, asyncpg.InterfaceError) and not _is_gone(connection):
            raise  # a mistake of ours; on a closed connection it is what the end of a transaction makes of the loss
        raise Unavailable(WENT_AWAY) from error
    finally:
        patience.cancel()
        if cut_short:
            await finish(_end_and_release(pool, connection))
        else:
            await _release(pool, connection)


async def _release(pool: asyncpg.Pool, connection: asyncpg.Connection) -> None:
    with suppress(TimeoutError):  # over a network that is cut a cancelled query is never confirmed
        await pool.release(connection, timeout=POOL_WAIT_SECONDS)


async def _end_and_release(pool: asyncpg.Pool, connection: asyncpg.Connection) -> None:
    """asyncpg parses a statement in one step and runs it in another. Who leaves in between leaves the session in the
    middle of a statement (MagicStack/asyncpg#1276), whose time-out would end that of the next user. A connection that
    does not answer is dropped."""
    try:
        async with asyncio.timeout(POOL_WAIT_SECONDS):
            await connection.execute("SELECT 1")
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        with suppress(asyncpg.InterfaceError):
            connection.terminate()
    await _release(pool, connection)


def _is_gone(connection: asyncpg.Connection) -> bool:
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True  # the pool took it back when the session ended


async def with_retries(work: Callable[[], Awaitable[T]]) -> T:
    """Runs a whole transaction, again from the top after a deadlock or a serialisation failure; then CONTENDED.

    Such a failure wrote nothing, so running again is safe.
    """
    for tried in range(1, MAX_TRIES + 1):
        try:
            return await work()
        except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.LockNotAvailableError):
            if tried == MAX_TRIES:
                break
            await asyncio.sleep(random.uniform(0.002, 0.01) * tried)
    raise Contended("Others were in the way each time and nothing was decided; try again.")


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Runs to the end even if the caller goes away: a commit that is cut while it waits for the standby would be
    visible without being replicated. The departed caller gets no answer, which means unknown, and asks again."""
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_retrieve)
        raise


async def finished() -> None:
    """Waits for all work that outlived its caller; the last thing before the pools close."""
    while _background:
        await asyncio.wait(set(_background))


def _retrieve(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()  # nobody is left to hear of it; the next call with the key finds out what stands
