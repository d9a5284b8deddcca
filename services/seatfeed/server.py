"""The gRPC side. Answers are bytes already, made once a tick, so both methods go without a serialiser."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from rowlock.seatfeed.v1 import seatfeed_pb2 as pb

from services.seatfeed import metrics
from services.seatfeed.feeds import Feeds
from services.seatfeed.messages import snapshot_proto, update_proto
from services.seatfeed.rows import Update

SERVICE = pb.DESCRIPTOR.services_by_name["SeatFeedService"]
UPDATES_WAITING = 16  # of a gRPC subscriber, so as many seconds; one more and it starts over


def add_seat_feed_to_server(servicer: "SeatFeed", server: Any) -> None:
    """In the place of the generated function, whose handlers would serialise every answer again."""
    handlers = {
        "GetSeats": grpc.unary_unary_rpc_method_handler(
            servicer.GetSeats, request_deserializer=pb.GetSeatsRequest.FromString
        ),
        "StreamUpdates": grpc.unary_stream_rpc_method_handler(
            servicer.StreamUpdates, request_deserializer=pb.StreamUpdatesRequest.FromString
        ),
    }
    server.add_registered_method_handlers(SERVICE.full_name, handlers)


class SeatFeed:
    """SeatFeedService."""

    def __init__(self, feeds: Feeds) -> None:
        self.feeds = feeds

    async def GetSeats(self, request: pb.GetSeatsRequest, context: Any) -> bytes:
        return snapshot_proto(await self.feeds.get_seats(request.event_id, request.section))

    async def StreamUpdates(self, request: pb.StreamUpdatesRequest, context: Any) -> AsyncIterator[bytes]:
        inbox = Inbox()
        view, first = await self.feeds.subscribe(request.event_id, request.section, inbox)
        metrics.SUBSCRIBERS.labels("grpc").inc()
        try:
            if first is not None:
                yield update_proto(first)
            while True:
                yield update_proto(await inbox.updates.get())
        finally:
            view.unsubscribe(request.section, inbox)
            metrics.SUBSCRIBERS.labels("grpc").dec()


class Inbox:
    """A gRPC stream's updates, until gRPC takes them."""

    def __init__(self) -> None:
        self.updates: asyncio.Queue[Update] = asyncio.Queue()

    def deliver(self, update: Update) -> None:
        """A reader that is too slow loses what waits, and is told to start over."""
        if self.updates.qsize() >= UPDATES_WAITING:
            metrics.DROPPED.labels("grpc").inc()
            while not self.updates.empty():
                self.updates.get_nowait()
            update = Update(update.watermark, update.watermark, update.as_of, resync=True)
        self.updates.put_nowait(update)
