"""The HTTP/1.1 listener for event streams: raw transports, one shared buffer for all who follow the same.

GET /v1/events/{eventId}/updates[?section=]      Last-Event-ID: <watermark>
"""

import asyncio
import random
from collections.abc import Iterable
from typing import cast

import structlog

from chassis.errors import Refusal
from services.seatfeed import metrics
from services.seatfeed.errors import TooManySubscribers
from services.seatfeed.feeds import Feeds
from services.seatfeed.messages import update_sse
from services.seatfeed.requests import (
    STREAM_HEAD,
    BadRequest,
    RequestParser,
    StreamRequest,
    bad_request,
    defect,
    refusal,
)
from services.seatfeed.rows import Update
from services.seatfeed.views import View

HEAD_SECONDS = 10.0  # for a client to send its request
COMMENT_SECONDS = 15.0  # between signs of life, below every proxy's idle time-out
RETRY_MILLISECONDS = (1000, 5000)  # a client's pause before it comes again, at random: they all lose it together
COMMENTS_AT_ONCE = 500
BACKLOG = 4096  # connections that wait to be accepted, when everybody comes back at once

log = structlog.get_logger()


class StreamListener:
    """`run` until cancelled."""

    def __init__(
        self,
        feeds: Feeds,
        listen: str,
        most_subscribers: int,
        write_buffer_bytes: int,
        comment_seconds: float = COMMENT_SECONDS,
    ) -> None:
        self.feeds, self.listen, self.port = feeds, listen, 0
        self.most_subscribers, self.write_buffer_bytes = most_subscribers, write_buffer_bytes
        self.comment_seconds = comment_seconds
        self.connections: set[StreamConnection] = set()
        self.listening = asyncio.Event()

    async def run(self) -> None:
        """Listens, and closes every stream at the end: clients come back, to another process."""
        host, _, port = self.listen.rpartition(":")
        server = await asyncio.get_running_loop().create_server(
            lambda: StreamConnection(self), host, int(port), backlog=BACKLOG
        )
        self.port = server.sockets[0].getsockname()[1]
        self.listening.set()
        log.info("listening for streams", port=self.port)
        try:
            while True:
                await asyncio.sleep(self.comment_seconds)
                await self._comment(list(self.connections))
        finally:
            server.close()
            for connection in list(self.connections):
                connection.close()

    async def _comment(self, connections: "Iterable[StreamConnection]") -> None:
        for number, connection in enumerate(connections, 1):
            connection.comment()
            if number % COMMENTS_AT_ONCE == 0:
                await asyncio.sleep(0)


class StreamConnection(asyncio.Protocol):
    """One client: its request, then its stream. Kept small: there are tens of thousands."""

    __slots__ = ("listener", "opening", "parser", "section", "timer", "transport", "view")

    def __init__(self, listener: StreamListener) -> None:
        self.listener = listener
        self.transport: asyncio.Transport | None = None
        self.parser: RequestParser | None = RequestParser()
        self.timer: asyncio.TimerHandle | None = None
        self.opening: asyncio.Task[None] | None = None
        self.view: View | None = None
        self.section = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self.timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.transport.abort)
        self.listener.connections.add(self)
        if len(self.listener.connections) > self.listener.most_subscribers:
            self._end(refusal(TooManySubscribers()))

    def data_received(self, data: bytes) -> None:
        """What comes after the request is not read: a stream has nothing to answer."""
        if self.parser is None:
            return
        try:
            request = self.parser.feed(data)
        except BadRequest as error:
            self._end(bad_request(error))
            return
        if request is not None:
            self._head_is_done()
            self.opening = asyncio.create_task(self._open(request))

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_done()
        self.transport = None
        self.listener.connections.discard(self)
        if self.opening is not None:
            self.opening.cancel()
        if self.view is not None:
            self.view.unsubscribe(self.section, self)
            self.view = None
            metrics.SUBSCRIBERS.labels("sse").dec()

    def deliver(self, update: Update) -> None:
        """Drops a reader that does not take what it was sent before; it may come back and resume."""
        if self.transport is None or self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() > self.listener.write_buffer_bytes:
            metrics.DROPPED.labels("sse").inc()
            self.transport.abort()
            return
        self.transport.write(update_sse(update))

    def comment(self) -> None:
        """A sign of life that no client shows."""
        if self.view is not None and self.transport is not None and not self.transport.get_write_buffer_size():
            self.transport.write(b":\n\n")

    def close(self) -> None:
        """Sends what is still unsent, then ends."""
        if self.transport is not None:
            self.transport.close()

    async def _open(self, request: StreamRequest) -> None:
        self.section = request.section
        try:
            view, first = await self.listener.feeds.subscribe(
                request.event_id, request.section, self, request.last_seen
            )
        except Refusal as error:
            self._end(refusal(error))
            return
        except Exception:
            log.exception("a stream could not be opened")
            self._end(defect())
            return
        self.view, self.opening = view, None
        metrics.SUBSCRIBERS.labels("sse").inc()
        assert self.transport is not None  # a connection that is lost cancels this task
        self.transport.write(STREAM_HEAD + b"retry: %d\n\n" % random.randint(*RETRY_MILLISECONDS))
        if first is not None:
            self.deliver(first)

    def _end(self, answer: bytes) -> None:
        self._head_is_done()
        if self.transport is not None:
            self.transport.write(answer)
            self.transport.close()

    def _head_is_done(self) -> None:
        self.parser = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
