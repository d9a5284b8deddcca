"""Event streams over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from google.protobuf import json_format
from rowlock.seatfeed.v1 import seatfeed_pb2 as pb

from services.seatfeed.follow import Follower
from services.seatfeed.ingest import Ingester
from services.seatfeed.listener import StreamListener
from tests.integration.seatfeed.house import EVENT, EVENT_ID, Booking, Event, House, follow, lead, parse_events, tick

PATH = f"/v1/events/{EVENT_ID}/updates"


class Feed:
    """A shard that is followed, and its listener."""

    def __init__(self, ingester: Ingester, follower: Follower, listener: StreamListener) -> None:
        self.ingester, self.follower, self.listener = ingester, follower, listener

    async def tick(self) -> None:
        await tick(self.ingester)
        await follow(self.follower)

    async def connect(self, path: str = PATH, **headers: str) -> "Reader":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        lines = [f"GET {path} HTTP/1.1", "host: x", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)).decode()
        return Reader(reader, writer, head)


class Reader:
    """A client of one stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self.reader, self.writer, self.head = reader, writer, head

    async def block(self) -> str:
        return (await asyncio.wait_for(self.reader.readuntil(b"\n\n"), 20)).decode()

    async def event(self) -> Event:
        while True:
            events = parse_events(await self.block())
            if events:
                return events[0]


@pytest.fixture
async def feed(booking: Booking, house: House) -> AsyncIterator[Feed]:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    listener = StreamListener(house.feeds(follower), "127.0.0.1:0", 20, 65_536, comment_seconds=0.2)
    running = asyncio.create_task(listener.run())
    await listener.listening.wait()
    yield Feed(ingester, follower, listener)
    running.cancel()
    await asyncio.wait([running])


async def test_a_stream_begins_with_a_pause_to_retry_and_a_first_update(feed: Feed) -> None:
    client = await feed.connect()
    assert client.head.startswith("HTTP/1.1 200 OK\r\n")
    assert "content-type: text/event-stream" in client.head
    assert (await client.block()).startswith("retry: ")
    first = await client.event()
    assert first.id == first.data["prev"] == first.data["watermark"]


async def test_deltas_come_as_the_protos_json(booking: Booking, feed: Feed) -> None:
    client = await feed.connect(f"{PATH}?section=A")
    first = await client.event()
    await booking.set_state("SOLD", 1)
    await booking.set_state("HELD", 21)
    await feed.tick()
    event = await client.event()
    assert event.data["prev"] == first.id
    assert event.data["sections"] == [
        {"section": "A", "open": 19, "held": 0, "taken": 1},
        {"section": "B", "open": 19, "held": 1, "taken": 0},
    ]
    assert event.data["seats"] == [{"seatId": 1, "state": "PUBLIC_SEAT_STATE_TAKEN"}]
    message = json_format.Parse(json.dumps(event.data), pb.StreamUpdatesResponse())
    assert message.watermark == event.id


async def test_last_event_id_resumes(booking: Booking, feed: Feed) -> None:
    gone = await feed.connect(f"{PATH}?section=A")
    seen = (await gone.event()).id
    gone.writer.close()
    await booking.set_state("SOLD", 1)
    await feed.tick()
    await booking.set_state("SOLD", 2)
    await feed.tick()
    back = await feed.connect(f"{PATH}?section=A", **{"last-event-id": seen})
    event = await back.event()
    assert (event.event, event.data["prev"]) == ("", seen)
    assert [seat["seatId"] for seat in event.data["seats"]] == [1, 2]


async def test_last_event_id_of_another_epoch_is_a_resync_and_the_stream_goes_on(booking: Booking, feed: Feed) -> None:
    client = await feed.connect(PATH, **{"last-event-id": "ffffffff.0000000000000001"})
    event = await client.event()
    assert event.event == "resync"
    assert event.data["resync"]
    await booking.set_state("SOLD", 1)
    await feed.tick()
    assert (await client.event()).data["prev"] == event.id


async def test_comments_show_that_a_stream_lives(feed: Feed) -> None:
    client = await feed.connect()
    await client.event()
    assert await client.block() == ":\n\n"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/v1/events/evt_s1_8/updates", "EVENT_NOT_FOUND"),
        ("/v1/events/evt_s2_7/updates", "EVENT_NOT_FOUND"),
        ("/v1/events/%2e%2e/updates", "EVENT_NOT_FOUND"),
        (f"{PATH}?section=Z", "SECTION_NOT_FOUND"),
    ],
)
async def test_what_is_not_there_is_a_404(feed: Feed, path: str, reason: str) -> None:
    client = await feed.connect(path)
    assert client.head.startswith("HTTP/1.1 404 ")
    assert json.loads(await client.reader.read())["details"][0]["reason"] == reason


async def test_one_subscriber_too_many_is_turned_away(feed: Feed) -> None:
    clients = [await feed.connect() for _ in range(20)]
    refused = await feed.connect()
    assert refused.head.startswith("HTTP/1.1 503 ")
    for client in clients:
        client.writer.close()


async def test_a_reader_that_does_not_read_is_dropped(booking: Booking, feed: Feed) -> None:
    slow = await feed.connect(f"{PATH}?section=A")
    quick = await feed.connect()
    await asyncio.sleep(0.05)
    slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
    for number in range(400):
        await booking.set_state("HELD" if number % 2 else "SOLD", *range(1, 21))
        await feed.tick()
        await quick.event()
        if len(feed.listener.connections) == 1:
            break
        grow_updates(feed)
    assert len(feed.listener.connections) == 1
    assert sum(len(subscribers) for subscribers in feed.follower.views[EVENT].subscribers.values()) == 1


def grow_updates(feed: Feed) -> None:
    """A socket takes megabytes before anybody notices: the slow reader's section gets updates of that size."""
    view = feed.follower.views[EVENT]
    for connection in list(view.subscribers["A"]):
        update = view.resync()
        update.encoded["sse"] = b":" + b"x" * 1_000_000 + b"\n\n"
        connection.deliver(update)


async def test_a_client_that_leaves_leaves_nothing(feed: Feed) -> None:
    client = await feed.connect()
    await client.event()
    client.writer.close()
    for _ in range(500):
        if not feed.listener.connections:
            break
        await asyncio.sleep(0.02)
    assert not feed.listener.connections
    assert not feed.follower.views[EVENT].subscribers
