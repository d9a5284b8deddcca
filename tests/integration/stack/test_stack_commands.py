"""`python -m stack` as it is typed, with the engines alone, in homes of its own."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from chassis.settings import load_settings
from stack.errors import StackError
from stack.house import House
from stack.ports import DISTANCES
from stack.processes import identity_of
from stack.settings import StackSettings

Run = Callable[..., subprocess.CompletedProcess[str]]
ENGINES = ("--only", "postgres,valkey")


@pytest.fixture
def base_port() -> int:
    """One with room above it where nobody listens now."""
    for base in range(20_000 + os.getpid() % 200 * 50, 60_000, 50):
        numbers = [base + distance for distance in DISTANCES.values()]
        if not any(socket.socket().connect_ex(("127.0.0.1", number)) == 0 for number in numbers):
            return base
    raise AssertionError("no free ports")


@pytest.fixture
def environment(tmp_path: Path, base_port: int) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ROWLOCK_")}
    return {**ours, "ROWLOCK_HOME": str(tmp_path / "a home"), "ROWLOCK_STACK_BASE_PORT": str(base_port)}


@pytest.fixture
def stack(environment: dict[str, str]) -> Iterator[Run]:
    def run(*words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "stack", *words]
        return subprocess.run(
            argv, check=False, env={**environment, **changes}, capture_output=True, text=True, timeout=120
        )

    yield run
    run("stop")


def pids(stack: Run) -> dict[str, int | None]:
    return {part["part"]: part["pid"] for part in json.loads(stack("status", "--json").stdout)["parts"]}


def test_stack_starts_says_so_and_stops(stack: Run, environment: dict[str, str]) -> None:
    started = stack("start", *ENGINES)
    assert started.returncode == 0, started.stderr
    status = json.loads(stack("status", "--json").stdout)
    states = {part["part"]: part["state"] for part in status["parts"]}
    assert (status["state"], states["postgres"], states["catalog"]) == ("partial", "ready", "stopped")
    assert status["endpoints"]["gateway"] == f"http://127.0.0.1:{environment['ROWLOCK_STACK_BASE_PORT']}"
    assert json.loads((Path(environment["ROWLOCK_HOME"]) / "endpoints.json").read_text()) == status["endpoints"]
    running = [pid for pid in pids(stack).values() if pid]
    assert stack("stop").stdout == "Stopped postgres, valkey.\n"
    assert not any(identity_of(pid) for pid in running)
    assert stack("stop").stdout == "Nothing was running.\n"
    assert stack("status").returncode == 3


def test_second_start_starts_only_what_is_missing(stack: Run) -> None:
    stack("start", *ENGINES)
    before = pids(stack)
    assert "already running" in stack("start", *ENGINES).stdout
    assert before["valkey"]
    os.kill(before["valkey"], signal.SIGKILL)
    again = stack("start", *ENGINES)
    assert "Rowlock runs in part. Starting what is missing: valkey." in again.stdout
    after = pids(stack)
    assert after["postgres"] == before["postgres"]
    assert after["valkey"] not in (None, before["valkey"])


def test_killed_part_is_told_by_status(stack: Run) -> None:
    stack("start", *ENGINES)
    pid = pids(stack)["valkey"]
    assert pid
    os.kill(pid, signal.SIGKILL)
    status = json.loads(stack("status", "--json").stdout)
    assert {part["part"]: part["state"] for part in status["parts"]}["valkey"] == "dead"


def test_busy_port_keeps_everything_from_starting(stack: Run, base_port: int) -> None:
    with socket.create_server(("127.0.0.1", base_port + DISTANCES["valkey"])):
        refused = stack("start", *ENGINES)
    assert refused.returncode == 1
    assert f"Port {base_port + DISTANCES['valkey']}, where valkey should listen, is taken by process" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not any(pids(stack).values())


def test_part_that_fails_shows_the_end_of_its_log_and_leaves_nothing_running(
    stack: Run, environment: dict[str, str]
) -> None:
    data = Path(environment["ROWLOCK_HOME"]) / "data"
    assert stack("start", *ENGINES).returncode == 0
    stack("stop")
    (data / "valkey" / "appendonlydir").rename(data / "elsewhere")
    (data / "valkey" / "appendonlydir").write_text("not a folder")
    failed = stack("start", *ENGINES)
    assert failed.returncode == 1
    assert "valkey ended with status" in failed.stderr
    assert "appendonlydir" in failed.stderr
    assert not any(pids(stack).values())


def test_running_stack_is_not_started_on_other_ports(stack: Run, base_port: int) -> None:
    stack("start", *ENGINES)
    refused = stack("start", *ENGINES, ROWLOCK_STACK_BASE_PORT=str(base_port + 25))
    assert f"runs with ROWLOCK_STACK_BASE_PORT={base_port}: stop it first" in refused.stderr


def test_wrong_settings_are_named_all_at_once(stack: Run) -> None:
    refused = stack("start", ROWLOCK_STACK_BASE_PORT="80", ROWLOCK_STACK_SHARDS="S1")
    assert refused.returncode == 2
    assert "ROWLOCK_STACK_BASE_PORT: " in refused.stderr
    assert "ROWLOCK_STACK_SHARDS: " in refused.stderr


def test_unknown_part_is_refused_with_the_list(stack: Run) -> None:
    refused = stack("start", "--only", "postgers")
    assert "There is no part named postgers; there are postgres, valkey, " in refused.stderr


def test_reset_says_what_it_deletes_and_deletes_nothing_else(stack: Run, environment: dict[str, str]) -> None:
    home = Path(environment["ROWLOCK_HOME"])
    stack("start", *ENGINES)
    (home / "mine.txt").write_text("kept")
    told = stack("reset").stdout
    assert "Stopped postgres, valkey." in told
    assert f"Deleted {home / 'data'}" in told
    assert [path.name for path in home.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_follows_and_leaves_nothing_running(stack: Run, environment: dict[str, str], number: signal.Signals) -> None:
    argv = [sys.executable, "-m", "stack", "up", *ENGINES]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout
        while "Ctrl-C stops everything" not in up.stdout.readline():
            assert up.poll() is None
        ran = pids(stack)
        assert ran["postgres"]
        assert ran["valkey"]
        os.kill(ran["valkey"], signal.SIGKILL)
        line = next(line for line in up.stdout if line.startswith("***"))
        assert "valkey was killed by SIGKILL" in line
        up.send_signal(number)
        assert up.wait(30) == 0
    assert not any(pids(stack).values())
    assert identity_of(ran["postgres"]) is None


def test_up_in_a_scripts_background_ends_by_sigint_too(stack: Run, environment: dict[str, str]) -> None:
    up = f"{shlex.quote(sys.executable)} -m stack up {' '.join(ENGINES)} & echo $!; wait"  # `&` begins with it ignored
    with subprocess.Popen(["sh", "-c", up], env=environment, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout
        number = int(shell.stdout.readline())
        while "Ctrl-C stops everything" not in shell.stdout.readline():
            assert shell.poll() is None
        os.kill(number, signal.SIGINT)
        assert shell.wait(30) == 0
    assert not any(pids(stack).values())


def test_status_finds_a_stack_on_moved_ports(stack: Run, base_port: int) -> None:
    stack("start", *ENGINES)
    moved = json.loads(stack("status", "--json", ROWLOCK_STACK_BASE_PORT="").stdout)
    address = next(part["address"] for part in moved["parts"] if part["part"] == "valkey")
    assert address == f"127.0.0.1:{base_port + DISTANCES['valkey']}"


def test_interrupted_start_leaves_nothing_running(stack: Run, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "stack", "start", *ENGINES]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as start:
        assert start.stdout
        assert "Starting" in start.stdout.readline()
        run = Path(environment["ROWLOCK_HOME"]) / "run"
        while not list(run.glob("*.json")):
            time.sleep(0.01)
        start.send_signal(signal.SIGINT)
        assert start.wait(30) == 130
    assert not any(pids(stack).values())


def test_two_commands_do_not_meet(stack: Run, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "stack", "start", *ENGINES]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as start:
        assert start.stdout
        assert "Starting" in start.stdout.readline()
        refused = stack("start", *ENGINES)
        assert start.wait(60) == 0
    assert "Another command is starting or stopping the stack" in refused.stderr


def test_store_given_by_url_is_migrated_and_used(stack: Run, postgres: str, tmp_path: Path) -> None:
    name = f"given_{os.getpid()}"
    with closing(psycopg2.connect(postgres)) as connection:
        connection.autocommit = True
        connection.cursor().execute(f"CREATE DATABASE {name}")
        url = postgres.rpartition("/")[0] + f"/{name}"
        started = stack("start", "--only", "catalog", ROWLOCK_CATALOG_DATABASE_URL=url)
        assert "migrated catalog: catalog/0001" in started.stdout
        assert "ready    catalog" in started.stdout
        assert {part for part, pid in pids(stack).items() if pid} == {"catalog"}
        stack("stop")
        connection.cursor().execute(f"DROP DATABASE {name}")


def test_service_without_its_database_is_told_in_one_sentence(stack: Run) -> None:
    refused = stack("start", "--only", "catalog")
    assert refused.returncode == 1
    assert refused.stderr.startswith("rowlock: The databases could not be prepared: ")
    assert "Traceback" not in refused.stderr


def test_full_disk_is_told_before_anything_starts(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    nearly_full = shutil.disk_usage("/")._replace(free=200 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: nearly_full)
    for name in ("ROWLOCK_HOME", "ROWLOCK_STACK_BASE_PORT"):
        monkeypatch.setenv(name, environment[name])
    house = House(load_settings(StackSettings))
    with pytest.raises(StackError, match=r"Only 200 MB are free where .* make room, or set ROWLOCK_HOME"):
        house.start(["postgres"])
    assert house.processes.all_running() == []
