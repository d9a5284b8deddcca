"""A network between a service and its database: it takes time, it stalls, it breaks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

CHUNK = 65_536  # bytes read at once
MOST_CHUNKS = 256  # under way in one direction, so that a stalled line pushes back instead of filling memory


class DelayProxy:
    """Passes bytes on, each `delay_seconds` after it came, in both directions; see `delay_proxy`."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.delay_seconds = 0.0
        self.accepted = 0
        self.caught = bytearray()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.writers: set[asyncio.StreamWriter] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    def between(self, dsn: str) -> str:
        """The DSN by which the same database is reached through here."""
        parts = urlsplit(dsn)
        user = parts.netloc.rpartition("@")[0]
        host = f"127.0.0.1:{self.listening}"
        return urlunsplit((parts.scheme, f"{user}@{host}" if user else host, parts.path, parts.query, ""))

    @property
    def connections(self) -> int:
        """Open now."""
        return len(self.writers) // 2

    def cut(self) -> int:
        """Breaks every connection, as a cable does; how many there were. New ones are let through."""
        count = self.connections
        for writer in self.writers:
            writer.transport.abort()
        return count

    def stall(self) -> None:
        """Nothing comes through any more, and nobody is told. `caught` is what was on its way, or set out since."""
        self.flowing.clear()

    def resume(self) -> None:
        """What was under way arrives."""
        self.flowing.set()

    async def start(self) -> None:
        """Listens at a free port."""
        self.server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.listening: int = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Breaks what is open."""
        self.server.close()
        self.cut()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self.writers |= pair
        ways = [
            asyncio.create_task(self._pass(reader, far_writer)),
            asyncio.create_task(self._pass(far_reader, writer)),
        ]
        self.tasks |= set(ways)
        try:
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self.writers -= pair
            self.tasks -= set(ways)
            for each in pair:
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction. The order of bytes stands whatever the delay is changed to meanwhile."""
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_CHUNKS)

        async def deliver() -> None:
            while True:
                due, data = await under_way.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not self.flowing.is_set():
                    self.caught += data
                await self.flowing.wait()
                if not data:
                    writer.close()
                    return
                writer.write(data)
                await writer.drain()

        delivery = asyncio.create_task(deliver())
        try:
            data = b"-"
            while data:
                data = await reader.read(CHUNK)
                await under_way.put((loop.time() + self.delay_seconds, data))
            await delivery
        except OSError:
            writer.transport.abort()
        finally:
            delivery.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await delivery


@asynccontextmanager
async def delay_proxy(dsn: str, seconds: float = 0.0) -> AsyncIterator[DelayProxy]:
    """A proxy in front of the server of a DSN; `proxy.between(dsn)` leads through it."""
    parts = urlsplit(dsn)
    proxy = DelayProxy(parts.hostname or "127.0.0.1", parts.port or 5432)
    await proxy.start()
    proxy.delay_seconds = seconds
    try:
        yield proxy
    finally:
        await proxy.stop()
