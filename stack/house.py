"""Starting the whole house, and looking at it."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import asyncpg

from chassis.migrate import ChangedMigration, MigrationError
from stack.databases import prepare_databases
from stack.errors import StackError
from stack.keys import load_secrets
from stack.parts import BOOKING_REPLICAS, WAVES, Part, Plan, python
from stack.ports import Ports, require_free
from stack.processes import Processes, Record
from stack.settings import Home, StackSettings
from stack.stopping import alone, end, unbroken
from stack.stores import choose_stores

LEAST_FREE_BYTES = 1 << 30  # Postgres keeps up to 2 GB of log; with less than this an on-sale may stop half way
PROBE_PAUSE_SECONDS = 0.1
TAIL_LINES = 8
SAMPLE_CATALOG_SECONDS = 300


class House:
    """One stack, in one home. Makes the home's folders and secrets."""

    def __init__(self, settings: StackSettings) -> None:
        self.settings = settings
        self.home = Home(settings.home)
        self.home.make()
        self.ports = Ports(settings.base_port)
        self.secrets = load_secrets(self.home)
        self.stores = choose_stores(settings.shards, self.secrets, self.ports, os.environ)
        self.parts = Plan(self.home, self.secrets, self.ports, self.stores).parts()
        self.processes = Processes(self.home)

    def start(self, only: Sequence[str] = ()) -> None:
        """Starts what does not run yet, in order, and returns when all is ready.

        If one of the parts fails, those that this call started are stopped again.
        """
        with alone(self.home):
            chosen = self._choose(only)
            missing = [part for part in chosen if not self.processes.running(part.name)]
            self._check(missing)
            say_what_is_started(chosen, missing)
            started: list[Record] = []
            try:
                for wave in WAVES:
                    self._start_wave([part for part in missing if part.wave == wave], started)
                    if wave == "engines" and missing:
                        self._prepare_databases(chosen)
                self.home.endpoints.write_text(json.dumps(self.endpoints(), indent=2) + "\n")
                if len(chosen) == len(self.parts):
                    self._load_sample_catalog()
            except BaseException:
                end(self.processes, started)
                raise

    def status(self) -> dict[str, Any]:
        """What runs: `{"state": "running" | "partial" | "stopped", "parts": […], "endpoints": {…}, …}`."""
        parts = [self._status_of(part) for part in self.parts]
        states = {part["state"] for part in parts}
        state = "running" if states == {"ready"} else "stopped" if states == {"stopped"} else "partial"
        endpoints = {} if state == "stopped" else self.endpoints()
        return {"state": state, "home": str(self.home.directory), "parts": parts, "endpoints": endpoints}

    def endpoints(self) -> dict[str, Any]:
        """Where everything is, as tools and tests read it."""
        names = ("catalog", "payments", "waitingroom", "seatfeed")
        metrics = [part.name for part in self.parts if f"{part.name}-metrics" in part.ports]
        return {
            **{name: self.ports.url(name) for name in ("gateway", "issuer", "processor")},
            **{name: self.ports.address(name) for name in names},
            "booking": [self.ports.address(replica) for replica in BOOKING_REPLICAS],
            "seatfeed_stream": self.ports.url("seatfeed-stream"),
            "metrics": {name: f"{self.ports.url(f'{name}-metrics')}/metrics" for name in metrics},
        }

    def dead(self) -> dict[str, str]:
        """Parts that were started and run no more, with how each ended."""
        records = [record for part in self.parts if (record := self.processes.record(part.name))]
        return {
            record.part: self.processes.exit_status(record) for record in records if not self.processes.alive(record)
        }

    def _choose(self, only: Sequence[str]) -> list[Part]:
        unknown = set(only) - {part.name for part in self.parts}
        if unknown:
            names = ", ".join(part.name for part in self.parts)
            raise StackError(f"There is no part named {', '.join(sorted(unknown))}; there are {names}.")
        return [part for part in self.parts if not only or part.name in only]

    def _check(self, missing: Sequence[Part]) -> None:
        """What would make a start fail half way is found before it begins."""
        other = {record.base_port for record in self.processes.all_running()} - {self.ports.base}
        if other:
            raise StackError(
                f"A stack in {self.home.directory} runs with ROWLOCK_STACK_BASE_PORT={other.pop()}: stop it first "
                f"(`make stop`), or set ROWLOCK_HOME to another directory for a second one."
            )
        free = shutil.disk_usage(self.home.directory).free
        if missing and free < LEAST_FREE_BYTES:
            raise StackError(
                f"Only {free >> 20} MB are free where {self.home.directory} lies, and {LEAST_FREE_BYTES >> 20} MB are "
                f"needed: make room, or set ROWLOCK_HOME to a directory on another disk."
            )
        require_free(self.ports, [port for part in missing for port in part.ports])

    def _start_wave(self, parts: Sequence[Part], started: list[Record]) -> None:
        for part in parts:
            environment = part.environment()
            planned = Record(part.name, WAVES.index(part.wave), part.stop_signal, self.ports.base)
            argv = part.prepare(environment)
            with unbroken():
                started.append(self.processes.spawn(planned, argv, environment))
        self._wait_ready(parts)

    def _prepare_databases(self, chosen: Sequence[Part]) -> None:
        """Those of the chosen parts: with `--only`, a database may belong to a service that is not there."""
        services = {part.name.partition("-")[0] for part in chosen}
        databases = [database for database in self.stores.databases if database.service in services]
        try:
            applied = asyncio.run(prepare_databases(databases, self.secrets, self.ports))
        except ChangedMigration as error:
            raise StackError(
                f"The data under {self.home.directory} was made by another version ({error}): go back to that one, or "
                f"run `make reset`, which deletes what was sold."
            ) from error
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, MigrationError) as error:
            raise StackError(f"The databases could not be prepared: {error}.") from error
        for name in applied:
            print(f"  migrated {name}", flush=True)

    def _wait_ready(self, parts: Sequence[Part]) -> None:
        waiting, deadline = list(parts), time.monotonic() + self.settings.ready_seconds
        while waiting:
            for part in tuple(waiting):
                self._require_alive(part)
                if part.ready():
                    waiting.remove(part)
                    print(f"  ready    {part.name:<12} {self.ports.address(part.ports[0])}", flush=True)
            if waiting and time.monotonic() > deadline:
                raise StackError(
                    f"Not ready after {self.settings.ready_seconds:.0f} s: {', '.join(part.name for part in waiting)}. "
                    f"Look into {self.home.logs}, or allow more time with ROWLOCK_STACK_READY_SECONDS."
                )
            time.sleep(PROBE_PAUSE_SECONDS)

    def _require_alive(self, part: Part) -> None:
        record = self.processes.record(part.name)
        if record and not self.processes.alive(record):
            log = self.home.log(part.name)
            tail = "\n".join(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
            status = self.processes.exit_status(record)
            raise StackError(f"{part.name} {status} while it started. The end of {log}:\n{tail}")

    def _load_sample_catalog(self) -> None:
        """Once for each home: an organiser who takes an event away does not get it back."""
        if not self.settings.sample_catalog or self.home.catalog_loaded.exists():
            return
        print("  loading the sample catalog", flush=True)
        try:
            loaded = subprocess.run(
                [*python("cli"), "sample-catalog"],
                check=False,
                env={**os.environ, "ROWLOCK_HOME": str(self.home.directory)},
                capture_output=True,
                text=True,
                timeout=SAMPLE_CATALOG_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise StackError(f"The sample catalog was not loaded within {SAMPLE_CATALOG_SECONDS} s.") from None
        if loaded.returncode:
            raise StackError(f"The sample catalog could not be loaded: {(loaded.stderr or loaded.stdout).strip()}")
        self.home.catalog_loaded.touch()

    def _status_of(self, part: Part) -> dict[str, Any]:
        record = self.processes.record(part.name)
        alive = bool(record and self.processes.alive(record))
        return {
            "part": part.name,
            "state": "stopped" if not record else "dead" if not alive else "ready" if part.ready() else "not ready",
            "pid": record.pid if record and alive else None,
            "address": self.ports.address(part.ports[0]),
            "up_seconds": int(time.time() - record.started) if record and alive else None,
            "log": str(self.home.log(part.name)),
        }


def say_what_is_started(chosen: Sequence[Part], missing: Sequence[Part]) -> None:
    """Tells a half-started stack from a fresh one."""
    if not missing:
        print("Rowlock is already running.", flush=True)
    elif len(missing) < len(chosen):
        print(f"Rowlock runs in part. Starting what is missing: {', '.join(p.name for p in missing)}.", flush=True)
    else:
        print("Starting Rowlock.", flush=True)
