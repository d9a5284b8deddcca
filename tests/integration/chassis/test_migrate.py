import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from chassis.migrate import MigrationError, migrate
from tests.support import databases

NAME = f"migrated_{os.getpid()}"  # workers share the server


@pytest.fixture
async def empty(postgres: str) -> AsyncIterator[str]:
    connection = await asyncpg.connect(postgres)
    await connection.execute(f"CREATE DATABASE {NAME}")
    await connection.close()
    dsn = databases.at(postgres, database=NAME)
    yield dsn
    await databases.drop(postgres, dsn)


def write(directory: Path, name: str, sql: str) -> Path:
    migrations = directory / "tried" / "migrations"
    migrations.mkdir(parents=True, exist_ok=True)
    (migrations / name).write_text(sql)
    return migrations


async def test_migrate_applies_once_also_from_many_processes(empty: str, tmp_path: Path) -> None:
    directory = write(tmp_path, "0001_a.sql", "CREATE TABLE a (n int); INSERT INTO a VALUES (1)")
    applied = await asyncio.gather(*(migrate(empty, [directory]) for _ in range(5)))
    assert sorted(applied) == [[], [], [], [], ["tried/0001_a.sql"]]
    write(tmp_path, "0002_b.sql", "INSERT INTO a VALUES (current_setting('rowlock.shard')::int)")
    assert await migrate(empty, [directory], {"rowlock.shard": "7"}) == ["tried/0002_b.sql"]
    connection = await asyncpg.connect(empty)
    assert [row["n"] for row in await connection.fetch("SELECT n FROM a ORDER BY n")] == [1, 7]
    await connection.close()


async def test_migrate_refuses_a_changed_file_and_rolls_a_broken_one_back(empty: str, tmp_path: Path) -> None:
    directory = write(tmp_path, "0001_a.sql", "CREATE TABLE a (n int)")
    await migrate(empty, [directory])
    write(tmp_path, "0002_b.sql", "CREATE TABLE b (n int); SELECT 1/0")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty, [directory])
    write(tmp_path, "0002_b.sql", "CREATE TABLE b (n int)")
    assert await migrate(empty, [directory]) == ["tried/0002_b.sql"]
    write(tmp_path, "0001_a.sql", "CREATE TABLE a (n bigint)")
    with pytest.raises(MigrationError, match="changed after it was applied"):
        await migrate(empty, [directory])


async def test_functions_are_replaced_when_they_change_and_after_a_migration(empty: str, tmp_path: Path) -> None:
    directory = write(tmp_path, "0001_a.sql", "CREATE TABLE a (n int)")
    functions = directory.parent / "functions"
    functions.mkdir()
    (functions / "f.sql").write_text("CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1")
    (functions / "v.sql").write_text("CREATE OR REPLACE VIEW v AS SELECT n FROM a")
    assert await migrate(empty, [directory]) == ["tried/0001_a.sql", "tried/f.sql", "tried/v.sql"]
    assert await migrate(empty, [directory]) == []
    (functions / "f.sql").write_text("CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql RETURN 2")
    assert await migrate(empty, [directory]) == ["tried/f.sql"]
    write(tmp_path, "0002_b.sql", "DROP VIEW v; ALTER TABLE a ALTER n TYPE bigint")
    assert await migrate(empty, [directory]) == ["tried/0002_b.sql", "tried/f.sql", "tried/v.sql"]
    connection = await asyncpg.connect(empty)
    assert await connection.fetchval("SELECT f() + count(*) FROM v") == 2
    await connection.close()


async def test_functions_are_replaced_all_or_none(empty: str, tmp_path: Path) -> None:
    directory = write(tmp_path, "0001_a.sql", "CREATE TABLE a (n int)")
    functions = directory.parent / "functions"
    functions.mkdir()
    (functions / "f.sql").write_text("CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1")
    (functions / "g.sql").write_text("CREATE OR REPLACE FUNCTION g() RETURNS int LANGUAGE sql RETURN 1 / nothing")
    with pytest.raises(asyncpg.UndefinedColumnError):
        await migrate(empty, [directory])
    connection = await asyncpg.connect(empty)
    assert await connection.fetchval("SELECT count(*) FROM pg_proc WHERE proname = 'f'") == 0
    await connection.close()


async def test_a_view_that_a_migration_dropped_comes_back_also_after_a_run_that_broke(
    empty: str, tmp_path: Path
) -> None:
    directory = write(tmp_path, "0001_a.sql", "CREATE TABLE a (n int)")
    functions = directory.parent / "functions"
    functions.mkdir()
    (functions / "v.sql").write_text("CREATE OR REPLACE VIEW v AS SELECT n FROM a")
    await migrate(empty, [directory])
    write(tmp_path, "0002_b.sql", "DROP VIEW v")
    (functions / "broken.sql").write_text("SELECT 1/0")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty, [directory])
    (functions / "broken.sql").unlink()
    assert await migrate(empty, [directory]) == ["tried/v.sql"]
