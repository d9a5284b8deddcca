"""Migrations: numbered .sql files, each applied once, in order, under a lock.

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
  applied_time timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (component, number))"""


class MigrationError(Exception):
    """A migration that was applied is not the one in the file, or two have one number."""


async def migrate(dsn: str, directories: Sequence[Path], parameters: Mapping[str, str] | None = None) -> list[str]:
    """Applies what is missing, each file in a transaction of its own; the names of those applied.

    A directory is `<component>/migrations`, its files `0001_words.sql`. `parameters` can be read in a migration by
    current_setting('rowlock.…'). Safe to run from many processes at once.
    """
    connection = await asyncpg.connect(dsn, command_timeout=600)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK)
        await connection.execute("SET client_min_messages = warning")
        await connection.execute(TABLE)
        for name, value in (parameters or {}).items():
            await connection.execute("SELECT set_config($1, $2, false)", name, value)
        applied = []
        for directory in directories:
            applied += await _apply(connection, read_migrations(directory))
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
            raise MigrationError(f"{each.component}/{each.name} was changed after it was applied; write a new one")
        async with connection.transaction():
            await connection.execute(each.text)
            await connection.execute(
                "INSERT INTO migration (component, number, name, checksum) VALUES ($1, $2, $3, $4)",
                *(each.component, each.number, each.name, each.checksum),
            )
        applied.append(f"{each.component}/{each.name}")
    return applied


def main() -> None:
    """Prints what was applied."""
    dsn, *directories = sys.argv[1:]
    for name in asyncio.run(migrate(dsn, [Path(directory) for directory in directories])):
        print(name)  # noqa: T201


if __name__ == "__main__":
    main()
