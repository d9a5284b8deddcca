"""What an on-sale is run with. Addresses come from what the stack wrote down, or from the environment."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MOST_FANS = 20_000  # one process; beyond this the simulator, not the house, is what is measured
MOST_SEATS = 200_000
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class UsageError(Exception):
    """A sentence for the person who typed the command."""


@dataclass(frozen=True)
class Options:
    """How large, how random, how long."""

    fans: int
    seats: int
    seed: int
    plan: Path | None
    report: Path
    seconds: float  # the whole run ends by then, whatever happens
    units: int = 0  # of an area beside the seats


@dataclass(frozen=True)
class Addresses:
    """Where the gateway, the outside parties and the services' admin RPCs are."""

    gateway: str
    issuer: str
    processor: str
    catalog: str
    booking: str
    payments: str
    waitingroom: str
    seatfeed: str

    def require_loopback(self) -> None:
        """The simulator's traffic is for a machine of one's own."""
        for url in (self.gateway, self.issuer, self.processor):
            if urlsplit(url).hostname not in LOOPBACK:
                raise UsageError(f"{url} is not on this machine: an on-sale sends its traffic to loopback only.")


def home() -> Path:
    """The stack's state directory."""
    return Path(os.environ.get("ROWLOCK_HOME", ".rowlock"))


def find_stack() -> Addresses:
    """The running stack; starts one if none runs."""
    stack = [sys.executable, "-m", "stack"]
    running = subprocess.run([*stack, "status", "--json"], check=False, capture_output=True)
    if running.returncode:
        print("No stack is running; starting one.", file=sys.stderr)
        if subprocess.run([*stack, "start"], check=False, stdout=sys.stderr).returncode:
            raise UsageError("The stack did not start; its own words are above.")
    return read_addresses(json.loads((home() / "endpoints.json").read_text()))


def read_addresses(found: dict[str, Any]) -> Addresses:
    """From endpoints.json; several replicas become one target."""

    def target(value: str | list[str]) -> str:
        return value if isinstance(value, str) else "ipv4:" + ",".join(value)

    services = ("catalog", "booking", "payments", "waitingroom", "seatfeed")
    return Addresses(
        found["gateway"], found["issuer"], found["processor"], **{name: target(found[name]) for name in services}
    )
