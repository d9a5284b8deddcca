"""Processes that outlive the command that started them, each in a session of its own.

A record says who a process is: its number, the boot and the moment it started. A record whose process is gone, or whose
number belongs to somebody else by now, is harmless: it only says that nothing runs. Nothing is ever started again in
silence.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from stack.settings import Home

LARGEST_LOG_BYTES = 20 * 1024 * 1024  # a log above it is put aside at the part's next start; one old one is kept
POLL_SECONDS = 0.05
REAP_SECONDS = 10  # a process whose first thread is gone can be reaped once the others are, too


@dataclass(frozen=True)
class Record:
    """A process as it was started. `wave` counts upwards in the order of starting; stopping goes the other way.

    `stop_signal` asks it to end. `started` is in seconds since the epoch, for people only.
    """

    part: str
    wave: int
    stop_signal: int
    base_port: int
    pid: int = 0
    identity: str = ""
    started: float = 0


class Processes:
    """The processes of one home."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.children: dict[int, subprocess.Popen[bytes]] = {}  # those of this command: only a parent may reap

    def spawn(self, planned: Record, argv: list[str], environment: Mapping[str, str]) -> Record:
        """Starts a part, its output appended to its log, its files readable by its owner alone."""
        log = self.home.log(planned.part)
        if log.exists() and log.stat().st_size > LARGEST_LOG_BYTES:
            log.rename(log.with_suffix(".log.old"))
        with log.open("ab") as output:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
                umask=0o077,
            )
        self.children[child.pid] = child
        identity = identity_of(child.pid) or "ended at once"
        record = replace(planned, pid=child.pid, identity=identity, started=time.time())
        self._file(planned.part).write_text(json.dumps(asdict(record)))
        return record

    def record(self, part: str) -> Record | None:
        """What was written down when the part was started last, running or not."""
        try:
            return Record(**json.loads(self._file(part).read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def running(self, part: str) -> Record | None:
        """The part's process, if it runs."""
        record = self.record(part)
        return record if record and self.alive(record) else None

    def all_running(self) -> list[Record]:
        """Every process of this home that runs, whatever the settings say now."""
        parts = [file.stem for file in sorted(self.home.run.glob("*.json"))]
        return [record for part in parts if (record := self.running(part))]

    def alive(self, record: Record) -> bool:
        """Whether that very process runs still."""
        child = self.children.get(record.pid)
        if child is not None and child.poll() is not None:
            return False
        return identity_of(record.pid) == record.identity

    def exit_status(self, record: Record) -> str:
        """How a process ended, as a phrase; only a parent knows more than that it did."""
        child = self.children.get(record.pid)
        if child is None:
            return "ended by itself"
        status = child.wait(REAP_SECONDS)
        return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def stop(self, records: Sequence[Record], patience_seconds: float) -> list[Record]:
        """Ends processes, the last wave first; those that it had to kill.

        Those of a wave are asked all at once, and what is left after `patience_seconds` is killed with its session.
        """
        killed = []
        for wave in sorted({record.wave for record in records}, reverse=True):
            killed += self._stop_wave([record for record in records if record.wave == wave], patience_seconds)
        return killed

    def _stop_wave(self, records: Sequence[Record], patience_seconds: float) -> list[Record]:
        for record in records:
            self._signal(record, os.kill, record.stop_signal)
        left = self._wait(records, patience_seconds)
        for record in left:
            self._signal(record, os.killpg, signal.SIGKILL)
        self._wait(left, patience_seconds)
        for record in records:
            self._file(record.part).unlink(missing_ok=True)
        return left

    def _wait(self, records: Sequence[Record], seconds: float) -> list[Record]:
        deadline = time.monotonic() + seconds
        while (left := [record for record in records if self.alive(record)]) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return left

    def _signal(self, record: Record, send: Callable[[int, int], None], number: int) -> None:
        if self.alive(record):
            with suppress(ProcessLookupError):  # it ended between the two
                send(record.pid, number)

    def _file(self, part: str) -> Path:
        return self.home.run / f"{part}.json"


def identity_of(pid: int) -> str | None:
    """The boot and the tick at which a process started: the same number never comes back with the same one.

    None if there is no such process, or nothing of it but its exit status.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, start_tick = fields[0], fields[19]  # fields 3 and 22 of proc(5)
    if state in "ZX":
        return None
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{start_tick}"
