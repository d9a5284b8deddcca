"""Whether a part answers. Each probe is one quick question; a part is ready when it says so itself."""

import asyncio
import socket
from collections.abc import Callable

import asyncpg
import grpc
import httpx
import redis
from grpc_health.v1 import health_pb2, health_pb2_grpc
from redis.backoff import NoBackoff
from redis.retry import Retry

PROBE_SECONDS = 2.0

Probe = Callable[[], bool]


def grpc_serving(address: str) -> Probe:
    """The server's health service says SERVING."""

    def probe() -> bool:
        with grpc.insecure_channel(address) as channel:
            try:
                request = health_pb2.HealthCheckRequest()
                answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=PROBE_SECONDS)
            except grpc.RpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    return probe


def http_answers(url: str, statuses: range = range(200, 500)) -> Probe:
    """An HTTP server answers GET with one of the statuses."""

    def probe() -> bool:
        try:
            return httpx.get(url, timeout=PROBE_SECONDS, trust_env=False).status_code in statuses
        except httpx.TransportError:
            return False

    return probe


def listens(host: str, port: int) -> Probe:
    """Somebody accepts connections."""

    def probe() -> bool:
        try:
            socket.create_connection((host, port), PROBE_SECONDS).close()
        except OSError:
            return False
        return True

    return probe


def postgres_answers(url: str) -> Probe:
    """A session can be opened, so recovery after a crash is over."""

    async def connect() -> None:
        await (await asyncpg.connect(url, timeout=PROBE_SECONDS)).close()

    def probe() -> bool:
        try:
            asyncio.run(connect())
        except (OSError, TimeoutError, asyncpg.CannotConnectNowError):
            return False
        return True

    return probe


def valkey_answers(host: str, port: int, password: str) -> Probe:
    """PONG, so the append-only file has been read."""
    once = Retry(NoBackoff(), 0)  # by default the client tries for seconds; whoever probes asks again anyway

    def probe() -> bool:
        try:
            with redis.Redis(host, port, password=password, socket_timeout=PROBE_SECONDS, retry=once) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):  # also BusyLoadingError: the file is being read
            return False

    return probe


def every(*probes: Probe) -> Probe:
    """All of them."""
    return lambda: all(probe() for probe in probes)
