"""A whole edge for tests: a real Envoy before real grpc.aio servers that record what reaches them.

Everything runs in one thread with its own loop, so that tests stay synchronous and look from outside, as clients do.
"""

import asyncio
import base64
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc
from rowlock.catalog.v1 import catalog_pb2, catalog_pb2_grpc
from rowlock.seatfeed.v1 import seatfeed_pb2, seatfeed_pb2_grpc
from rowlock.waitingroom.v1 import waitingroom_pb2, waitingroom_pb2_grpc

from chassis.server import Server
from chassis.settings import ServiceSettings
from chassis.tokens import ADMISSION_AUDIENCE, QUEUE_AUDIENCE, USER_AUDIENCE, Key, KeyRing
from gateway.__main__ import render
from gateway.page import PageSettings
from gateway.page import make_app as make_page
from gateway.settings import Endpoint, GatewaySettings
from sandbox.issuer.app import make_app as make_issuer
from sandbox.issuer.grants import Grants
from sandbox.issuer.keys import Keys
from stack.engines import envoy_command
from tests.contract.gateway.relay import Relay

EVENT = "evt_s1_1"
OTHER_EVENT = "evt_s1_2"
ACCOUNT = "acc_ada"
ORIGIN = "http://page.test"
NEW_KEY, OLD_KEY = Key("k2", b"n" * 32), Key("k1", b"o" * 32)
START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call that reached a service."""

    name: str
    request: Any
    metadata: dict[str, str]
    port: int


@dataclass(slots=True)
class Recorder:
    """What arrived, and what is answered instead of an empty message."""

    arrivals: list[Arrival] = field(default_factory=list)
    answers: dict[str, Callable[[Any], Coroutine[Any, Any, Any]]] = field(default_factory=dict)

    def clear(self) -> None:
        self.arrivals.clear()
        self.answers.clear()


PUBLIC = {
    "catalog": (catalog_pb2, catalog_pb2_grpc, "CatalogService"),
    "booking": (booking_pb2, booking_pb2_grpc, "BookingService"),
    "waitingroom": (waitingroom_pb2, waitingroom_pb2_grpc, "WaitingRoomService"),
    "seatfeed": (seatfeed_pb2, seatfeed_pb2_grpc, "SeatFeedService"),
}


class House:
    """`url` is the gateway's. Two replicas of booking run, each behind a relay that can kill it."""

    def __init__(self, scratch: Path) -> None:
        self.scratch, self.recorder = scratch, Recorder()
        self.ring = KeyRing([NEW_KEY, OLD_KEY])
        self.keys = Keys.open(scratch / "issuer")
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.servers: dict[str, list[Server]] = {}
        self.stream = EventStream()

    def start(self) -> None:
        self.thread.start()
        self.port, admin = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.run(self._start_upstreams())
        while not all(server.started for server in self.web):
            time.sleep(0.02)
        self.settings = self._settings(admin)
        render(self.settings, self.scratch / "envoy.json")
        self.log = (self.scratch / "envoy.log").open("wb")
        self.envoy = subprocess.Popen(envoy_command(self.scratch / "envoy.json"), stdout=self.log, stderr=self.log)
        self._wait(f"http://127.0.0.1:{admin}/ready")

    def stop(self) -> None:
        self.envoy.terminate()
        self.envoy.wait(10)
        self.log.close()
        self.run(self._stop_upstreams())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    async def start_server(
        self, name: str, listen: str = "127.0.0.1:0", settings: ServiceSettings | None = None
    ) -> Server:
        messages, stubs, service = PUBLIC[name]
        server = Server(settings or ServiceSettings(listen=listen, drain_seconds=0), name)
        descriptor = messages.DESCRIPTOR.services_by_name[service]
        server.add(descriptor, getattr(stubs, f"add_{service}Servicer_to_server"), self._servicer(server, name))
        await server.start()
        return server

    def _servicer(self, server: Server, name: str) -> Any:
        messages, stubs, service = PUBLIC[name]

        def method(called: Any) -> Any:
            async def answer(_self: Any, request: Any, context: Any) -> Any:
                metadata = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
                self.recorder.arrivals.append(Arrival(called.name, request, metadata, server.port))
                if called.name in self.recorder.answers:
                    return await self.recorder.answers[called.name](request)
                return getattr(messages, called.output_type.name)()

            return answer

        methods = messages.DESCRIPTOR.services_by_name[service].methods
        made = {called.name: method(called) for called in methods}
        return type(f"Recording{service}", (getattr(stubs, f"{service}Servicer"),), made)()

    async def _start_upstreams(self) -> None:
        for name in PUBLIC:
            replicas = 2 if name == "booking" else 1
            self.servers[name] = [await self.start_server(name) for _ in range(replicas)]
        self.relays = [Relay(server.port) for server in self.servers["booking"]]
        for relay in self.relays:
            await relay.start()
        self.stream_server = await asyncio.start_server(self.stream.serve, "127.0.0.1", 0)
        pages = self.scratch / "dist"
        (pages / "assets").mkdir(parents=True)
        (pages / "index.html").write_text("<!doctype html><title>Rowlock</title>")
        (pages / "mark.svg").write_text("<svg/>")
        (pages / "assets" / "main-1a2b.js").write_text("export {}")
        issuer_url = f"http://127.0.0.1:{free_port()}"
        self.issuer_url = issuer_url
        issuer = make_issuer(url=issuer_url, origins=(ORIGIN,), keys=self.keys, grants=Grants())
        self.page_port = free_port()
        page = make_page(PageSettings(directory=pages, issuer=issuer_url))
        self.web = [uvicorn_server(issuer, int(issuer_url.rpartition(":")[2])), uvicorn_server(page, self.page_port)]
        self.web_tasks = [asyncio.ensure_future(server.serve()) for server in self.web]

    async def _stop_upstreams(self) -> None:
        for server in self.web:
            server.should_exit = True
        await asyncio.gather(*self.web_tasks)
        self.stream.end.set()
        self.stream_server.close()
        for relay in self.relays:
            await relay.kill()
        for servers in self.servers.values():
            for each in servers:
                await each.stop()

    def _settings(self, admin: int) -> GatewaySettings:
        addresses: dict[str, Any] = {
            f"{name}_addresses": tuple(Endpoint("127.0.0.1", server.port) for server in servers)
            for name, servers in self.servers.items()
        }
        addresses["booking_addresses"] = tuple(Endpoint("127.0.0.1", relay.port) for relay in self.relays)
        stream_port = self.stream_server.sockets[0].getsockname()[1]
        return GatewaySettings(
            **addresses,
            listen=Endpoint("127.0.0.1", self.port),
            admin_listen=Endpoint("127.0.0.1", admin),
            seatfeed_stream_addresses=(Endpoint("127.0.0.1", stream_port),),
            page_address=Endpoint("127.0.0.1", self.page_port),
            oidc_issuer=self.issuer_url,
            oidc_jwks_url=f"{self.issuer_url}/jwks.json",
            signing_keys=",".join(f"{key.kid}:{_b64(key.secret)}" for key in self.ring.keys),
            cors_origins=(ORIGIN,),
        )

    def _wait(self, ready: str) -> None:
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            try:
                if httpx.get(ready).status_code == 200:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            if self.envoy.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError((self.scratch / "envoy.log").read_text()[-2000:])

    # What a client has in hand.

    def user_token(self, account: str = ACCOUNT, **claims: Any) -> str:
        now = int(time.time())
        person = {"email": "ada@example.test", "email_verified": True, "iat": now, "exp": now + 600}
        return self.keys.sign({"iss": self.issuer_url, "aud": USER_AUDIENCE, "sub": account, **person, **claims})

    def user(self, account: str = ACCOUNT, **claims: Any) -> dict[str, str]:
        return {"authorization": f"Bearer {self.user_token(account, **claims)}"}

    def admission(self, account: str = ACCOUNT, event: str = EVENT, **claims: Any) -> str:
        return self.ring.sign(ADMISSION_AUDIENCE, 60, sub=account, eid=event, pos=7, epoch=3, **claims)

    def queue(self, account: str = ACCOUNT, event: str = EVENT) -> str:
        return self.ring.sign(QUEUE_AUDIENCE, 60, sub=account, eid=event, pos=7, epoch=3)

    def inside(self, account: str = ACCOUNT, event: str = EVENT) -> dict[str, str]:
        return {**self.user(account), "x-rowlock-admission": self.admission(account, event)}

    def arrived(self) -> list[str]:
        return [arrival.name for arrival in self.recorder.arrivals]


class EventStream:
    """An HTTP/1.1 listener that writes one event at once and the next when told, as the feed does."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.more = asyncio.Event()
        self.end = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\r\n")
        writer.write(b'retry: 1000\n\nid: e.1\ndata: {"a":"\xc3\xa9"}\n\n')
        await writer.drain()
        await self.more.wait()
        writer.write(b": still here\n\nid: e.2\nevent: resync\ndata: {}\n\n")
        await writer.drain()
        writer.close()


def uvicorn_server(app: Any, port: int) -> uvicorn.Server:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", lifespan="off"))
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    return server


class _NoSignals:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: object) -> None:
        return None


def _no_signals() -> Any:
    return _NoSignals()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _b64(secret: bytes) -> str:
    return base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
