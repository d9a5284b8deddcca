"""Real engines for tests, started once for all workers of a run, from the same wheels as the embedded stack."""

import functools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg2
import redis

from stack.engines import postgres_command, valkey_command
from tests.support.databases import lock

START_SECONDS = 60

# A test's data need not outlive the machine, and many tests replicate or hold many connections.
POSTGRES_SETTINGS = {
    "fsync": "off",
    "max_connections": "400",
    "max_replication_slots": "40",
    "max_wal_senders": "40",
    "log_min_messages": "fatal",
}


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def postgres(scratch: Path) -> str:
    """Starts Postgres if this run has none; the superuser's DSN."""

    command = functools.partial(postgres_command, settings=POSTGRES_SETTINGS)
    port = start_once(scratch, "postgres", command, answers_postgres)
    return f"postgresql://postgres@127.0.0.1:{port}/postgres"


def valkey(scratch: Path, worker: str) -> str:
    """Starts a Redis-protocol server for this worker if it has none."""
    port = start_once(scratch, f"valkey-{worker}", valkey_command, _valkey_ready)
    return f"redis://127.0.0.1:{port}/0"


def stop_all(scratch: Path) -> None:
    """Ends what `start_once` started, by the process ids that it wrote down."""
    for file in scratch.glob("*.pid"):
        pid = int(file.read_text())
        os.killpg(pid, signal.SIGINT if "postgres" in file.name else signal.SIGTERM)
        for _ in range(100):
            if _ended(pid):
                break
            time.sleep(0.05)


def start_once(
    scratch: Path, name: str, command: Callable[[Path, int], list[str]], ready: Callable[[int], bool]
) -> int:
    """Starts an engine in a folder and at a port, unless another worker of this run has; its port, once it is ready."""
    port_file = scratch / f"{name}.port"
    with lock(scratch / f"{name}.lock"):
        if port_file.exists():
            return int(port_file.read_text())
        data, port = scratch / name, free_port()
        argv = command(data, port)
        with (scratch / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        (scratch / f"{name}.pid").write_text(str(process.pid))
        deadline = time.monotonic() + START_SECONDS
        while not ready(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start:\n{(scratch / f'{name}.log').read_text()}")
            time.sleep(0.05)
        port_file.write_text(str(port))
        return port


def answers_postgres(port: int) -> bool:
    """Whether the superuser can connect."""
    try:
        psycopg2.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres", connect_timeout=2).close()
    except psycopg2.OperationalError:
        return False
    return True


def _valkey_ready(port: int) -> bool:
    try:
        with redis.Redis(port=port) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not Path(f"/proc/{pid}").exists()
