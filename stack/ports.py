"""The ports of a stack, all of them at a fixed distance from one base port."""

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from stack.errors import StackError

LOOPBACK = "127.0.0.1"

DISTANCES = {
    "gateway": 0,
    "issuer": 1,
    "processor": 2,
    "page": 3,
    "gateway-admin": 4,
    "postgres": 5,
    "valkey": 6,
    "catalog": 10,
    "catalog-metrics": 11,
    "booking-1": 12,
    "booking-1-metrics": 13,
    "booking-2": 14,
    "booking-2-metrics": 15,
    "payments": 16,
    "payments-metrics": 17,
    "waitingroom": 18,
    "waitingroom-metrics": 19,
    "seatfeed": 20,
    "seatfeed-metrics": 21,
    "seatfeed-stream": 22,
}


@dataclass(frozen=True)
class Ports:
    """`Ports(8080).number("issuer")` is 8081."""

    base: int

    def number(self, name: str) -> int:
        """The port of a listener."""
        return self.base + DISTANCES[name]

    def address(self, name: str) -> str:
        """`127.0.0.1:port`."""
        return f"{LOOPBACK}:{self.number(name)}"

    def url(self, name: str) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://{self.address(name)}"


def require_free(ports: Ports, names: Iterable[str]) -> None:
    """Refuses if a port is taken: which one, by whom, and what moves it."""
    for name in names:
        number = ports.number(name)
        if is_taken(number):
            raise StackError(
                f"Port {number}, where {name} should listen, is taken by {holder_of(number)}: end it, or move the "
                f"whole stack with ROWLOCK_STACK_BASE_PORT (it is {ports.base} now)."
            )


def is_taken(number: int) -> bool:
    """Whether somebody listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that are closing do not count
        try:
            probe.bind((LOOPBACK, number))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return True
    return False


def holder_of(number: int) -> str:
    """Who listens on the port, as far as this user may know."""
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.pid and connection.laddr[1:] == (number,):
            try:
                process = psutil.Process(connection.pid)
                return f"process {process.pid} ({process.name()}: {' '.join(process.cmdline())[:80]})"
            except psutil.NoSuchProcess:
                break
    return "a process of another user"
