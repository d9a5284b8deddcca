"""Engines and databases for all tests. The engines start when the first test needs them, and end with the run."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
import redis.asyncio

from tests.support import databases, engines, pooler
from tests.support.buyers import Gateway
from tests.support.servers import Servers
from tests.support.stacks import Stack

SCRATCH = "ROWLOCK_TEST_SCRATCH"


def pytest_configure(config: pytest.Config) -> None:
    """The first process makes the folder that all workers of a run share."""
    config.addinivalue_line("markers", "browser: drives a real browser against a running stack")
    config.addinivalue_line("markers", "pooler: about PgBouncer itself; needs ROWLOCK_TEST_POOLER")
    if not hasattr(config, "workerinput") and SCRATCH not in os.environ:
        os.environ[SCRATCH] = tempfile.mkdtemp(prefix="rowlock-test-")
        config.rowlock_scratch = os.environ[SCRATCH]  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Whoever made the folder ends the engines in it."""
    scratch = getattr(config, "rowlock_scratch", None)
    if scratch:
        engines.stop_all(Path(scratch))
        shutil.rmtree(scratch, ignore_errors=True)
        del os.environ[SCRATCH]


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a whole stack share one, so one worker runs them all."""
    for item in items:
        if item.path.parent.name in {"e2e", "chaos"}:
            item.add_marker(pytest.mark.xdist_group("stack"))


@pytest.fixture(scope="session")
def scratch() -> Path:
    """A folder that all workers of this run share."""
    return Path(os.environ[SCRATCH])


@pytest.fixture(scope="session")
def postgres(scratch: Path) -> str:
    """DSN of the superuser of a real Postgres."""
    return engines.postgres(scratch)


@pytest.fixture(scope="session")
def pooled(postgres: str, scratch: Path) -> pooler.Pooler:
    """The way of services to their databases: `make test-pgbouncer` puts PgBouncer there."""
    return pooler.start(scratch, postgres)


@pytest.fixture
async def database(postgres: str, scratch: Path) -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """`await database("booking")`: the DSN of a fresh, migrated database, dropped after the test. `shard` names it."""
    made: list[str] = []

    async def make(service: str, shard: str = "s1") -> str:
        made.append(await databases.clone(postgres, scratch, service, shard))
        return made[-1]

    yield make
    for dsn in made:
        await databases.drop(postgres, dsn)


@pytest.fixture(scope="session")
def feed_dsn() -> Callable[[str], str]:
    """The DSN of the replication role for a database of `database`."""
    return lambda dsn: databases.at(dsn, user=databases.FEED)


@pytest.fixture
async def redis_url(scratch: Path, worker_id: str) -> str:
    """A real, empty Redis-protocol server, one for each worker."""
    url = engines.valkey(scratch, worker_id)
    client = redis.asyncio.from_url(url)
    await client.flushall()
    await client.aclose()
    return url


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    """Starts servicers on real servers: `channel = await servers.start((descriptor, add_to_server, servicer))`."""
    running = Servers()
    yield running
    await running.stop()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real files made by others, which are not ours to copy. A test that needs one is skipped where they are absent,
    and fails there with ROWLOCK_REQUIRE_SHARED_DATA set."""
    path = Path(os.environ.get("ROWLOCK_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not path.exists():
        reason = "NOT CHECKED: the files of others are not here; ROWLOCK_SHARED_DATA says where they are"
        if os.environ.get("ROWLOCK_REQUIRE_SHARED_DATA"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Runs from the first test that needs it to the end of the run."""
    home = Path(tempfile.mkdtemp(prefix="rowlock e2e "))  # the space is meant
    home.chmod(0o755)
    running = Stack(home)
    try:
        running.start()
        yield running
        running.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def gateway(stack: Stack) -> AsyncIterator[Gateway]:
    """HTTP to the stack's gateway, with connections of its own."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=250)) as session:
        yield Gateway(stack.endpoints, session)
