"""A real process that is told to end, and has something that does not."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from chassis.ending import CUT_SHORT

SECONDS = 20

PROGRAM = """
import asyncio, threading, time
from chassis import ending, server
from chassis.postgres import finish
from chassis.settings import ServiceSettings
from chassis.workers import Worker
{change}

async def busy():
    await finish(asyncio.sleep(0.02))
    return True

async def deaf():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if deaf.heard:
                raise
            deaf.heard = True

deaf.heard = False
ending.CANCEL_AGAIN_SECONDS = 0.1

async def main():
    settings = ServiceSettings(drain_seconds=0, close_seconds={close_seconds})
    await server.Server(settings, "tried").run([Worker(str(i), run, 0.1) for i in range(8) for run in [{worker}]])
    print("closing", flush=True)
    {closing}

server.run_main(main)
"""


def told_to_end(
    *,
    worker: str = "busy",
    closing: str = "pass",
    close_seconds: int = 60,
    change: str = "",
    patience_seconds: float = SECONDS,
) -> tuple[int, str, list[dict[str, Any]]]:
    """The exit status, what was printed, and the log, of a process that ran until SIGTERM."""
    program = PROGRAM.format(worker=worker, closing=closing, close_seconds=close_seconds, change=change)
    process = subprocess.Popen(
        [sys.executable, "-c", "from chassis.telemetry import configure_logs\nconfigure_logs()\n" + program],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    try:
        log = [json.loads(process.stderr.readline())]
        assert log[0]["event"] == "listening"
        process.send_signal(signal.SIGTERM)
        printed, said = process.communicate(timeout=patience_seconds)
    finally:
        process.kill()
        process.wait()
    return process.returncode, printed, log + [json.loads(line) for line in said.splitlines() if line[0] == "{"]


@pytest.mark.parametrize("worker", ["busy", "deaf"])
def test_workers_that_are_busy_or_miss_a_cancellation_do_not_keep_it(worker: str) -> None:
    status, printed, log = told_to_end(worker=worker)
    assert (status, printed) == (0, "closing\n")
    assert [line["event"] for line in log] == ["listening", "draining"]


@pytest.mark.parametrize(
    "closing",
    [
        "await asyncio.Event().wait()",
        "time.sleep(3600)",
        "asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)",
        "threading.Thread(target=time.sleep, args=(3600,)).start()",
    ],
    ids=["a wait", "the loop", "an executor", "a thread"],
)
def test_what_hangs_is_cut_short_whatever_it_is(closing: str) -> None:
    status, printed, log = told_to_end(closing=closing, close_seconds=1)
    assert (status, printed) == (CUT_SHORT, "closing\n")
    assert [line["event"] for line in log] == ["listening", "draining", "did not end in time"]
    assert (log[-1]["service"], log[-1]["seconds"]) == ("tried", 1)


def test_the_log_names_what_is_waited_for() -> None:
    _, _, log = told_to_end(closing="await asyncio.create_task(deaf())", close_seconds=1)
    assert "deaf" in log[-1]["waits_for"]


def test_a_log_that_nobody_reads_does_not_keep_it() -> None:
    """The speaker is held up as by a full pipe."""
    status, _, log = told_to_end(
        closing="await asyncio.Event().wait()",
        close_seconds=1,
        change="ending.SAY_SECONDS = 0.1; ending._say = lambda *_: time.sleep(3600)",
    )
    assert status == CUT_SHORT
    assert log[-1]["event"] == "draining"


def test_control_without_the_bound_it_hangs() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        told_to_end(
            closing="await asyncio.Event().wait()",
            close_seconds=1,
            change="server.end_within = lambda *_: None",
            patience_seconds=3,
        )
