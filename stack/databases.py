"""Roles, databases and migrations, before any service starts."""

from collections.abc import Sequence
from pathlib import Path

import asyncpg

from chassis.migrate import migrate
from chassis.outbox import OUTBOX_MIGRATIONS
from stack.engines import SUPERUSER
from stack.keys import Secrets
from stack.ports import Ports
from stack.stores import Database

SERVICES = Path(__file__).parent.parent / "services"
WITH_OUTBOX = ("booking", "payments")
FEED = "seatfeed"
"""The role that reads booking's log and the columns it publishes: booking's migration grants them."""


async def prepare_databases(databases: Sequence[Database], secrets: Secrets, ports: Ports) -> list[str]:
    """Makes what is missing in the embedded Postgres and migrates every database; the migrations applied."""
    embedded = [database for database in databases if database.embedded]
    if embedded:
        superuser = f"postgresql://{SUPERUSER}:{secrets.postgres_password}@{ports.address('postgres')}/postgres"
        connection = await asyncpg.connect(superuser)
        try:
            await _make_roles(connection, secrets)
            for database in embedded:
                await _make_database(connection, database)
        finally:
            await connection.close()
    applied = []
    for database in databases:
        for name in await migrate_database(database):
            applied.append(f"{database.embedded or database.service}: {name}")
    return applied


async def migrate_database(database: Database) -> list[str]:
    """Applies what is missing to one database."""
    directories = [SERVICES / database.service / "migrations"]
    if database.service in WITH_OUTBOX:
        directories.insert(0, OUTBOX_MIGRATIONS)
    return await migrate(database.url, directories, {"rowlock.shard": database.shard} if database.shard else None)


async def _make_roles(connection: asyncpg.Connection, secrets: Secrets) -> None:
    """A role for each service that owns databases, and the feed's. Passwords are set anew: the file is the truth."""
    passwords = {
        "catalog": secrets.catalog_password,
        "booking": secrets.booking_password,
        "payments": secrets.payments_password,
        FEED: secrets.seatfeed_password,
    }
    for role, password in passwords.items():
        if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
            await connection.execute(f"CREATE ROLE {role}")
        replication = "REPLICATION" if role == FEED else "NOREPLICATION"
        statement = await connection.fetchval(
            "SELECT format('ALTER ROLE %I LOGIN %s PASSWORD %L', $1::text, $2::text, $3::text)",
            *(role, replication, password),
        )
        await connection.execute(statement)


async def _make_database(connection: asyncpg.Connection, database: Database) -> None:
    """A database that its service owns and no other service can enter; the feed may enter booking's."""
    name = database.embedded
    if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
        await connection.execute(f"CREATE DATABASE {name} OWNER {database.service}")
    await connection.execute(f"REVOKE CONNECT, TEMPORARY ON DATABASE {name} FROM PUBLIC")
    if database.service == "booking":
        await connection.execute(f"GRANT CONNECT ON DATABASE {name} TO {FEED}")
