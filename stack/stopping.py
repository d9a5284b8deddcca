"""Stopping a stack and deleting its state. Needs the home alone: neither its secrets nor the settings it began with."""

import fcntl
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stack.errors import StackError
from stack.processes import Processes, Record
from stack.settings import Home

STOP_SECONDS = 15.0  # services take 3 + 10 and a second for their last word, at most; Postgres writes its checkpoint


@contextmanager
def alone(home: Home) -> Iterator[None]:
    """One command at a time in a home. The lock goes with the process that holds it."""
    with home.lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(
                f"Another command is starting or stopping the stack in {home.directory}: wait until it is done, or end "
                f"it with Ctrl-C where it runs."
            ) from None
        yield


def stop(home: Home) -> list[str]:
    """Stops everything that runs in this home; the parts that ran."""
    if not home.run.exists():
        return []
    with undisturbed(), alone(home):
        processes = Processes(home)
        records = processes.all_running()
        home.endpoints.unlink(missing_ok=True)
        end(processes, records)
        for stale in home.run.glob("*.json"):
            stale.unlink()
        return [record.part for record in records]


def end(processes: Processes, records: Sequence[Record]) -> None:
    """Ends processes and says which ones would not."""
    with undisturbed():
        for record in processes.stop(records, STOP_SECONDS):
            print(f"  killed {record.part}, which had not ended after {STOP_SECONDS:.0f} s", flush=True)


@contextmanager
def undisturbed() -> Iterator[None]:
    """An impatient second Ctrl-C must not leave half of the house running."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def unbroken() -> Iterator[None]:
    """An interruption waits until the end: a process that was started and not yet written down would stay for ever."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    waiting = {number: handler for number, handler in before.items() if callable(handler)}  # not what is ignored
    for number in waiting:
        signal.signal(number, lambda arrived, _: came.append(arrived))
    try:
        yield
    finally:
        for number, handler in waiting.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def reset(home: Home) -> list[Path]:
    """Deletes the state of a stopped stack, and nothing else that lies in its directory; what it deleted."""
    deleted = home.contents()
    for path in deleted:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    if home.directory.exists() and not any(home.directory.iterdir()):
        home.directory.rmdir()
    return deleted
