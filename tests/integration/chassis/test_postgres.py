import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from chassis import postgres
from chassis.errors import Contended, Unavailable
from chassis.postgres import acquire, finish, finished, open_pool, with_retries
from tests.integration.chassis.outboxes import until


@pytest.fixture
async def dsn(database: Callable[..., Awaitable[str]]) -> str:
    return await database("payments")


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[asyncpg.Pool]:
    opened = await open_pool(dsn, name="tried", min_size=1, max_size=2, expect=postgres.EXPECTED_SETTINGS)
    yield opened
    await opened.close()


@pytest.fixture
async def keeper(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Another session."""
    opened = await asyncpg.connect(dsn)
    yield opened
    await opened.close()


async def test_a_setting_that_no_migration_made_is_refused(dsn: str) -> None:
    with pytest.raises(RuntimeError, match="lock_timeout is '2s' in this database, not '1h'"):
        await open_pool(dsn, name="tried", expect={"lock_timeout": "1h"})


async def test_the_wait_for_a_connection_is_bounded(pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with acquire(pool), acquire(pool):  # opened with all the time they need
        monkeypatch.setattr(postgres, "POOL_WAIT_SECONDS", 0.1)
        with pytest.raises(Unavailable):
            async with asyncio.timeout(5), acquire(pool):
                pass


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
async def test_who_leaves_in_the_middle_of_a_statement_leaves_nothing_of_it(
    pool: asyncpg.Pool, keeper: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """Between its parsing and its running: there the server waits, as for a statement under way."""
    if not guarded:
        monkeypatch.setattr(postgres, "_end_and_release", postgres._release)
    sessions: list[int] = []

    async def leave() -> None:
        async with acquire(pool) as connection:
            sessions.append(connection.get_server_pid())
            await connection.prepare("SELECT 1")
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await leave()
    state = "SELECT state FROM pg_stat_activity WHERE pid = $1"
    assert await keeper.fetchval(state, *sessions) == ("idle" if guarded else "active")


GATE = 4711  # an advisory lock; every commit goes through it
COMMITS_WAIT = f"""
CREATE TABLE kept (n int);
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON kept DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION wait();
"""
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    " AND query LIKE 'INSERT%'"
)
ENDED = (
    "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'INSERT%'"
    " AND state <> 'idle'"
)
NO_LIMITS = "SET statement_timeout = 0; SET lock_timeout = 0"  # the test decides what ends a statement
PATIENCE_SECONDS = 1.0


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
async def test_a_commit_that_takes_too_long_is_left_and_not_cut(
    pool: asyncpg.Pool, keeper: asyncpg.Connection, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control has asyncpg's own time-out, which cancels."""
    await pool.execute(COMMITS_WAIT)
    await keeper.execute("SELECT pg_advisory_lock($1)", GATE)

    async def keep() -> None:
        async with acquire(pool) as connection:
            await connection.execute(NO_LIMITS)
            await connection.execute("INSERT INTO kept VALUES (1)", timeout=None if guarded else PATIENCE_SECONDS)

    with monkeypatch.context() as patched:
        if guarded:
            patched.setattr(postgres, "MOST_SECONDS", PATIENCE_SECONDS)
        with pytest.raises(Unavailable):
            await keep()
    assert await keeper.fetchval(WAITING) == guarded
    await keeper.execute("SELECT pg_advisory_unlock($1)", GATE)
    await until(keeper, ENDED)
    assert await keeper.fetchval("SELECT count(*) FROM kept") == guarded


@pytest.mark.parametrize("in_a_transaction", [False, True])
async def test_a_session_that_ends_means_unknown(pool: asyncpg.Pool, dsn: str, in_a_transaction: bool) -> None:
    async def work() -> None:
        async with acquire(pool) as connection:
            await connection.execute(NO_LIMITS)
            kill = asyncio.create_task(end_session(dsn, connection.get_server_pid()))
            if in_a_transaction:
                async with connection.transaction():
                    await connection.execute("SELECT pg_sleep(100)")
            else:
                await connection.execute("SELECT pg_sleep(100)")
            await kill

    with pytest.raises(Unavailable):
        await work()


async def test_a_mistake_of_ours_is_not_called_unavailable(pool: asyncpg.Pool) -> None:
    with pytest.raises(asyncpg.InterfaceError):
        async with acquire(pool) as connection:
            await connection.execute("SELECT $1::int", "one", "too many")


async def test_a_deadlock_is_run_again_and_then_contended(pool: asyncpg.Pool) -> None:
    tries = 0

    async def work() -> str:
        nonlocal tries
        tries += 1
        if tries < postgres.MAX_TRIES:
            raise asyncpg.DeadlockDetectedError("deadlock detected")
        return "written"

    assert await with_retries(work) == "written"
    tries = -1
    with pytest.raises(Contended):
        await with_retries(work)
    assert tries == postgres.MAX_TRIES - 1


async def test_work_that_is_finished_commits_without_its_caller(pool: asyncpg.Pool) -> None:
    await pool.execute("CREATE TABLE written (n int)")

    async def write() -> None:
        async with acquire(pool) as connection, connection.transaction():
            await connection.execute("INSERT INTO written VALUES (1)")
            await asyncio.sleep(0.2)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await finish(write())
    await finished()
    assert await pool.fetchval("SELECT count(*) FROM written") == 1


async def end_session(dsn: str, pid: int) -> None:
    other = await asyncpg.connect(dsn)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'"
    await until(other, waiting, pid)
    await other.execute("SELECT pg_terminate_backend($1)", pid)
    await other.close()
