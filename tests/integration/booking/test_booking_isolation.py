"""Whatever isolation a database's owner prefers, the guards run at READ COMMITTED: the role's setting is stronger."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.integration.booking.booth import Booth
from tests.integration.booking.test_booking_history import open_crowd


async def prefer(postgres: str, dsn: str, level: str) -> None:
    """Sets the default of a database, as its administrator may."""
    connection = await asyncpg.connect(postgres)
    name = urlsplit(dsn).path.lstrip("/")
    await connection.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = '{level}'")
    await connection.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_the_databases_isolation_changes_nothing(
    postgres: str, database: Callable[..., Awaitable[str]], open_replica: Callable[..., Awaitable[Booth]], level: str
) -> None:
    dsn = await database("booking")
    await prefer(postgres, dsn, level)
    crowd = await open_crowd(open_replica, (dsn, dsn), dsn, 11, 1_000)
    await crowd.run()
    await crowd.check()


async def test_a_role_without_its_setting_is_refused_at_the_start(
    postgres: str, database: Callable[..., Awaitable[str]], open_replica: Callable[..., Awaitable[Booth]]
) -> None:
    """The control: it is the role's setting that does it."""
    dsn = await database("booking")
    await prefer(postgres, dsn, "repeatable read")
    connection = await asyncpg.connect(dsn)
    name = urlsplit(dsn).path.lstrip("/")
    await connection.execute(f'ALTER ROLE CURRENT_USER IN DATABASE "{name}" RESET default_transaction_isolation')
    await connection.close()
    with pytest.raises(RuntimeError, match="default_transaction_isolation is 'repeatable read'"):
        await open_replica({"s1": dsn})
