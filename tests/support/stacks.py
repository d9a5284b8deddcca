"""A whole embedded stack of a test run's own, beside any that a person has running."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
PORTS = 30  # that a stack uses from its base port on
START_SECONDS = 180


def free_base_port() -> int:
    """A base port with room above it where nobody listens; two runs at once begin to look at different places."""
    first = 20_000 + os.getpid() % 250 * 40
    for base in range(first, 60_000, 40):
        if not any(_is_taken(port) for port in range(base, base + PORTS)):
            return base
    raise AssertionError("no free ports")


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Stack:
    """`python -m stack` with a home and ports of its own."""

    def __init__(self, home: Path) -> None:
        self.home, base_port = home, free_base_port()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ROWLOCK_")},
            "ROWLOCK_HOME": str(home),
            "ROWLOCK_STACK_BASE_PORT": str(base_port),
        }

    def run(
        self, *words: str, module: str = "stack", seconds: float = START_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """`python -m stack WORDS`; fails with what it said."""
        command = [sys.executable, "-m", module, *words]
        ended = subprocess.run(
            command, check=False, env=self.environment, cwd=CHECKOUT, capture_output=True, text=True, timeout=seconds
        )
        if ended.returncode:
            raise RuntimeError(f"{' '.join(words)} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}")
        return ended

    def start(self) -> None:
        """Returns when everything is ready."""
        self.run("start")

    def stop(self) -> None:
        """Everything is kept."""
        self.run("stop")

    @property
    def endpoints(self) -> dict[str, Any]:
        """Where everything is."""
        found: dict[str, Any] = json.loads((self.home / "endpoints.json").read_text())
        return found

    def pids(self, part: str) -> list[int]:
        """Process ids of a part, all replicas: `booking` is booking-1 and booking-2."""
        status = json.loads(self.run("status", "--json").stdout)
        return [each["pid"] for each in status["parts"] if each["part"].startswith(part) and each["pid"]]

    def kill(self, part: str) -> int:
        """SIGKILL to every replica of a part; how many there were."""
        pids = self.pids(part)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)

    def database(self, name: str) -> str:
        """DSN of a database's superuser, for tests that look behind the services or break a guard on purpose."""
        password = json.loads((self.home / "secrets.json").read_text())["postgres_password"]
        port = int(self.environment["ROWLOCK_STACK_BASE_PORT"]) + 5
        return f"postgresql://postgres:{password}@127.0.0.1:{port}/{name}"

    def signing_secret(self) -> tuple[str, bytes]:
        """Key id and secret of the waiting room, for tests that forge."""
        keys = json.loads((self.home / "secrets.json").read_text())["signing_keys"]
        kid, _, secret = keys.split(",")[0].partition(":")
        return kid, base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
