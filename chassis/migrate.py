"""Migrations: numbered .sql files, each applied once, in order, under a lock; then the functions and views that are
code: files that replace what they define, applied again whenever they have changed.

python -m chassis.migrate DSN DIRECTORY …
"""

import asyncio
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

LOCK = 0x526F776C6F636B  # "Rowlock": one migrator at a time in a database

TABLE = """
CREATE TABLE IF NOT EXISTS migration (
  component text NOT NULL, number int NOT NULL, name text NOT NULL, checksum text NOT NULL,
  applied_time timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (component, number));
CREATE TABLE IF NOT EXISTS function_file (
  component text NOT NULL, name text NOT NULL, checksum text NOT NULL,
  applied_time timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (component, name))"""


# The role's own limits and planner are for its service. Whoever waits for a table keeps all that come later waiting.
SESSION = """
SET client_min_messages = warning; SET statement_timeout = 0; SET lock_timeout = '5s'; SET enable_seqscan = on;
SET enable_bitmapscan = on; SET enable_hashjoin = on; SET enable_mergejoin = on; SET enable_material = on"""


class MigrationError(Exception):
    """A component's migrations cannot be applied: two have one number."""


class ChangedMigration(MigrationError):
    """A migration that was applied is not the one in the file."""


async def migrate(dsn: str, directories: Sequence[Path], parameters: Mapping[str, str] | None = None) -> list[str]:
    """Applies what is missing, each file in a transaction of its own; the names of those applied.

    A directory is `<component>/migrations`, its files `0001_words.sql`; functions are in `<component>/functions`, all
    CREATE OR REPLACE. `parameters` can be read in a migration by current_setting('rowlock.…'). Safe to run from many
    processes at once. A function is replaced while replicas of the version before still call it: one that gives
    something else gets another name. One that takes something else is another by that, and theirs stays beside it.
    """
    connection = await asyncpg.connect(dsn, command_timeout=600)
    try:
        await connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK)
        await connection.execute(SESSION)
        await connection.execute(TABLE)
        for name, value in (parameters or {}).items():
            await connection.execute("SELECT set_config($1, $2, false)", name, value)
        applied = []
        for directory in directories:
            applied += await _apply(connection, read_migrations(directory))
            applied += await _replace(connection, directory.resolve().parent)
        return applied
    finally:
        await connection.close()


@dataclass(frozen=True)
class Migration:
    """A file of a component's."""

    component: str
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_migrations(directory: Path) -> list[Migration]:
    """In order; refuses two with one number."""
    component = directory.resolve().parent.name
    files = sorted(directory.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    if len({file.name[:4] for file in files}) < len(files):
        raise MigrationError(f"{component}: two migrations have one number")
    return [Migration(component, int(file.name[:4]), file.name, file.read_text()) for file in files]


async def _apply(connection: asyncpg.Connection, migrations: Sequence[Migration]) -> list[str]:
    rows = await connection.fetch("SELECT component, number, checksum FROM migration")
    known = {(row["component"], row["number"]): row["checksum"] for row in rows}
    applied = []
    for each in migrations:
        before = known.get((each.component, each.number))
        if before == each.checksum:
            continue
        if before is not None:
            raise ChangedMigration(f"{each.component}/{each.name} was changed after it was applied; write a new one")
        async with connection.transaction():
            await connection.execute(each.text)
            # It may have dropped a function or a view: all of them are applied again.
            await connection.execute("DELETE FROM function_file WHERE component = $1", each.component)
            await connection.execute(
                "INSERT INTO migration (component, number, name, checksum) VALUES ($1, $2, $3, $4)",
                *(each.component, each.number, each.name, each.checksum),
            )
        applied.append(f"{each.component}/{each.name}")
    return applied


async def _replace(connection: asyncpg.Connection, component: Path) -> list[str]:
    """Functions and views that have changed, in one transaction."""
    rows = await connection.fetch("SELECT name, checksum FROM function_file WHERE component = $1", component.name)
    known = {row["name"]: row["checksum"] for row in rows}
    replaced = []
    async with connection.transaction():
        for file in sorted((component / "functions").glob("*.sql")):
            text = file.read_text()
            checksum = hashlib.sha256(text.encode()).hexdigest()
            if known.get(file.name) == checksum:
                continue
            await connection.execute(text)
            await connection.execute(
                "INSERT INTO function_file (component, name, checksum) VALUES ($1, $2, $3)"
                " ON CONFLICT (component, name)"
                " DO UPDATE SET checksum = excluded.checksum, applied_time = clock_timestamp()",
                *(component.name, file.name, checksum),
            )
            replaced.append(f"{component.name}/{file.name}")
    return replaced


def main() -> None:
    """Prints what was applied."""
    dsn, *directories = sys.argv[1:]
    for name in asyncio.run(migrate(dsn, [Path(directory) for directory in directories])):
        print(name)  # noqa: T201


if __name__ == "__main__":
    main()
