"""A TCP relay before a replica, so that a test can kill the replica as the network sees it: connections break."""

import asyncio


class Relay:
    def __init__(self, target: int) -> None:
        self.target, self.port = target, 0
        self.writers: set[asyncio.StreamWriter] = set()
        self.pumps: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listens; on the same port as before, if there was one."""
        self.server = await asyncio.start_server(self._join, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        """Refuses new connections and resets the ones there are, without a word of goodbye."""
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.target)
        self.writers |= {writer, inner_writer}
        for source, sink in ((reader, inner_writer), (inner_reader, writer)):
            task = asyncio.create_task(_pump(source, sink))
            self.pumps.add(task)
            task.add_done_callback(self.pumps.discard)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        pass  # the other side was killed, which is what a relay is for
    sink.close()
