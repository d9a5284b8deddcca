"""Processes are known by when they began, not by their number alone."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.processes import Processes, Record, identity_of
from stack.settings import Home

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
)
TELLS_ITS_END = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(time.monotonic())))
print(0, flush=True)
time.sleep(60)
"""
OBEDIENT = "import time; print('here', flush=True); time.sleep(60)"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "a home")
    home.make()
    return home


@pytest.fixture
def processes(home: Home) -> Iterator[Processes]:
    processes = Processes(home)
    yield processes
    processes.stop(processes.all_running(), 0.1)


def spawn(processes: Processes, part: str, program: str, wave: int = 0) -> Record:
    planned = Record(part, wave, signal.SIGTERM, 8080)
    record = processes.spawn(planned, [sys.executable, "-c", program], os.environ)
    while not processes.home.log(part).read_text():
        time.sleep(0.01)
    return record


def test_process_runs_in_a_session_of_its_own_and_is_found_by_the_next_command(processes: Processes) -> None:
    record = spawn(processes, "one", OBEDIENT)
    assert os.getsid(record.pid) == record.pid
    assert Processes(processes.home).running("one") == record
    assert processes.home.log("one").read_text() == "here\n"


def test_stop_asks_and_forgets(processes: Processes) -> None:
    record = spawn(processes, "one", OBEDIENT)
    assert processes.stop([record], 10) == []
    assert processes.record("one") is None
    assert processes.exit_status(record) == "was killed by SIGTERM"


def test_stop_kills_what_does_not_listen(processes: Processes) -> None:
    deaf = spawn(processes, "deaf", STUBBORN)
    assert processes.stop([deaf], 0.3) == [deaf]
    assert identity_of(deaf.pid) is None


def test_stop_ends_the_last_wave_first(processes: Processes) -> None:
    records = [spawn(processes, part, TELLS_ITS_END, wave) for part, wave in (("engine", 0), ("edge", 2))]
    processes.stop(records, 10)
    ended = {part: float(processes.home.log(part).read_text().split()[-1]) for part in ("engine", "edge")}
    assert ended["edge"] < ended["engine"]


def test_stale_record_with_a_number_that_another_process_has_is_harmless(processes: Processes) -> None:
    bystander = spawn(processes, "bystander", OBEDIENT)
    stale = {**json.loads((processes.home.run / "bystander.json").read_text()), "part": "gateway", "identity": "boot/1"}
    (processes.home.run / "gateway.json").write_text(json.dumps(stale))
    assert processes.running("gateway") is None
    record = processes.record("gateway")
    assert record is not None
    processes.stop([record], 0.1)
    assert processes.alive(bystander)


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"pid": 1}'])
def test_broken_record_says_that_nothing_runs(processes: Processes, text: str) -> None:
    (processes.home.run / "gateway.json").write_text(text)
    assert processes.running("gateway") is None
    assert processes.all_running() == []


def test_process_that_ended_is_not_running_though_nobody_reaped_it(processes: Processes) -> None:
    record = spawn(processes, "short", "print('bye', flush=True)")
    deadline = time.monotonic() + 5
    while identity_of(record.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Processes(processes.home).running("short") is None  # a zombie: its parent is this very process
    assert not processes.alive(record)
    assert processes.exit_status(record) == "ended with status 0"


def test_large_log_is_put_aside(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stack.processes.LARGEST_LOG_BYTES", 10)
    log = processes.home.log("one")
    log.write_text("x" * 11)
    spawn_quietly(processes)
    assert log.with_suffix(".log.old").read_text() == "x" * 11


def spawn_quietly(processes: Processes) -> None:
    processes.spawn(Record("one", 0, signal.SIGTERM, 8080), [sys.executable, "-c", OBEDIENT], os.environ)
