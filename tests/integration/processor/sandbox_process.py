"""The sandbox processor as a process of its own, and a line to it that can be cut."""

import asyncio
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx

API_KEY = "sk_test_integration"
START_SECONDS = 60
LISTENING = re.compile(r'"port": (\d+), "event": "listening"')


class Sandbox:
    """`python -m sandbox.processor` with a ledger of its own."""

    def __init__(self, folder: Path) -> None:
        self.ledger, self.log = folder / "ledger.sqlite", folder / f"processor-{secrets.token_hex(4)}.log"
        self.port = 0  # the first start finds one, later ones keep it
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        environment = {
            **os.environ,
            "ROWLOCK_PROCESSOR_LISTEN": f"127.0.0.1:{self.port}",
            "ROWLOCK_PROCESSOR_LEDGER": str(self.ledger),
            "ROWLOCK_PROCESSOR_API_KEY": API_KEY,
        }
        self.log.unlink(missing_ok=True)
        self.process = start_module("sandbox.processor", environment, self.log)
        async with asyncio.timeout(START_SECONDS):
            while not (found := LISTENING.search(self.log.read_text())):
                if self.process.poll() is not None:
                    raise RuntimeError(f"the sandbox ended with {self.process.returncode}: {self.log.read_text()}")
                await asyncio.sleep(0.05)
        self.port = int(found[1])

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            end(self.process, number)

    async def captures(self, order_id: str) -> list[dict[str, Any]]:
        """Of one order, as the ledger has them."""
        async with httpx.AsyncClient(base_url=self.url) as client:
            page = (await client.get("/sandbox/ledger", params={"orderId": order_id})).json()
        rows: list[dict[str, Any]] = page["rows"]
        return rows


Fault = Callable[[], Awaitable[bytes | None]]


class Line:
    """Passes requests on to a processor. A fault is set for a call (`create`, `confirm`, `retrieve`, `cancel`), either
    before the processor hears of it or after it has acted; what the fault returns is the answer, None cuts the line."""

    def __init__(self, target: str) -> None:
        self.client = httpx.AsyncClient(base_url=target, timeout=30)
        self.faults: dict[tuple[str, str], Fault] = {}
        self.calls: list[str] = []
        self.server: asyncio.Server | None = None
        self.url = ""

    async def open(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        assert self.server is not None
        self.server.close()
        await self.client.aclose()
        assert not self.faults, f"set and never met: {list(self.faults)}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while (answer := await self._pass(reader)) is not None:
                writer.write(answer)
                await writer.drain()
        writer.close()

    async def _pass(self, reader: asyncio.StreamReader) -> bytes | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in headers.items() if name.lower() != "host"}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        call = call_of(method, path)
        self.calls.append(call)
        if fault := self.faults.pop((call, "before"), None):
            return await fault()
        response = await self.client.request(method, path, headers=headers, content=body)
        if fault := self.faults.pop((call, "after"), None):
            return await fault()
        return http_answer(response.status_code, response.content)


async def cut() -> bytes | None:
    return None


async def server_error() -> bytes | None:
    return http_answer(500, b'{"error": {"type": "api_error", "message": "Something went wrong."}}')


async def silence() -> bytes | None:
    await asyncio.sleep(5)
    return None


def http_answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def call_of(method: str, path: str) -> str:
    last = path.rsplit("/", 1)[-1]
    return "retrieve" if method == "GET" else last if last in ("confirm", "cancel") else "create"


def start_module(module: str, environment: dict[str, str], log: Path | None = None) -> "subprocess.Popen[bytes]":
    """A service as a process; what it says goes to `log`, or to the test's own stderr."""
    with ExitStack() as stack:
        stderr = stack.enter_context(log.open("ab")) if log else None
        return subprocess.Popen(
            [sys.executable, "-m", module],
            env=environment,
            cwd=Path(__file__).parents[3],
            stdin=subprocess.DEVNULL,
            stderr=stderr,
        )


def end(process: "subprocess.Popen[bytes]", number: int = signal.SIGKILL) -> None:
    if process.poll() is None:
        process.send_signal(number)
    process.wait(20)
