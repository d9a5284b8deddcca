"""A database for each test: cloned from a template that was migrated once, dropped at the end."""

import fcntl
import hashlib
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from chassis.migrate import migrate
from chassis.outbox import OUTBOX_MIGRATIONS

SERVICES = Path(__file__).parents[2] / "services"
WITH_OUTBOX = {"booking", "payments"}
OWNER = "app"
FEED = "seatfeed"

_numbers = itertools.count()


def at(dsn: str, *, database: str | None = None, user: str | None = None) -> str:
    """The same server, another database or user."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{user}@{host}" if user else parts.netloc
    return urlunsplit((parts.scheme, netloc, f"/{database}" if database else parts.path, "", ""))


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def migrations_of(service: str) -> list[Path]:
    """Directories in order of application."""
    own = SERVICES / service / "migrations"
    return [OUTBOX_MIGRATIONS, own] if service in WITH_OUTBOX else [own]


async def clone(admin: str, scratch: Path, service: str, shard: str) -> str:
    """A fresh database of a service; the DSN of its owner, an ordinary role."""
    template = await _template(admin, scratch, service, shard)
    name = f"t{os.getpid()}_{next(_numbers)}"
    connection = await asyncpg.connect(admin)
    try:
        await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER {OWNER} STRATEGY FILE_COPY')
        await _copy_settings(connection, template, name)
    finally:
        await connection.close()
    return at(admin, database=name, user=OWNER)


async def drop(admin: str, dsn: str) -> None:
    """Ends its replication slots and sessions too."""
    name = urlsplit(dsn).path.lstrip("/")
    connection = await asyncpg.connect(admin)
    try:
        for row in await connection.fetch(
            "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = $1", name
        ):
            if row["active_pid"]:
                await connection.execute("SELECT pg_terminate_backend($1, 5000)", row["active_pid"])
            await connection.execute("SELECT pg_drop_replication_slot($1)", row["slot_name"])
        await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    finally:
        await connection.close()


async def _template(admin: str, scratch: Path, service: str, shard: str) -> str:
    digest = hashlib.sha256(shard.encode())
    for directory in migrations_of(service):
        for file in sorted([*directory.glob("*.sql"), *directory.parent.glob("functions/*.sql")]):
            digest.update(file.read_bytes())
    name = f"template_{service}_{digest.hexdigest()[:12]}"
    with lock(scratch / "template.lock"):
        connection = await asyncpg.connect(admin)
        try:
            await _make_roles(connection)
            if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
                making = f"{name}_making"
                await connection.execute(f'DROP DATABASE IF EXISTS "{making}" WITH (FORCE)')
                await connection.execute(f'CREATE DATABASE "{making}" OWNER {OWNER}')
                owner = at(admin, database=making, user=OWNER)
                await migrate(owner, migrations_of(service), {"rowlock.shard": shard})
                await connection.execute(f'ALTER DATABASE "{making}" RENAME TO "{name}"')
        finally:
            await connection.close()
    return name


async def _make_roles(connection: asyncpg.Connection) -> None:
    for role, rights in ((OWNER, "LOGIN"), (FEED, "LOGIN REPLICATION")):
        if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
            await connection.execute(f"CREATE ROLE {role} {rights}")


async def _copy_settings(connection: asyncpg.Connection, source: str, target: str) -> None:
    """What ALTER ROLE … IN DATABASE set is not part of a template."""
    rows = await connection.fetch(
        "SELECT unnest(setconfig) AS setting FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase"
        " WHERE d.datname = $1",
        source,
    )
    for row in rows:
        name, _, value = row["setting"].partition("=")
        await connection.execute(f"ALTER ROLE {OWNER} IN DATABASE \"{target}\" SET {name} = '{value}'")
