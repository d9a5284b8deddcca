"""The stream `booking.orders`: relays on real shards, a real Redis-protocol server."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio
from rowlock.booking.v1 import booking_pb2 as pb

from chassis import outbox
from chassis.ids import format_id
from chassis.outbox import Message, Relay, SinkUnavailable
from services.booking.store import stream as store
from services.booking.store.shards import Shard, open_shards
from services.booking.store.stream import SINK, OrderStream
from tests.integration.booking.booth import Booth
from tests.support.engines import free_port

EVENT = 7


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a round: a slow machine is no straggler."""
    monkeypatch.setattr("chassis.outbox.relay.STRAGGLER_SECONDS", 20)


def payload(order: uuid.UUID, version: int, **more: Any) -> dict[str, Any]:
    return {"order_id": str(order), "event_id": str(EVENT), "version": version, "state": "CONFIRMED", **more}


async def put(shard: Shard, order: uuid.UUID, version: int, kind: str = "confirmed") -> None:
    async def write(connection: Any) -> None:
        await outbox.put(connection, sink=SINK, aggregate_id=str(order), kind=kind, payload=payload(order, version))

    await shard.write(write)


async def entries(url: str) -> list[dict[str, str]]:
    async with redis.asyncio.from_url(url, decode_responses=True) as client:
        found: Any = await client.xrange(SINK)
        return [fields for _, fields in found]


def relay(shard: Shard, stream: OrderStream) -> Relay:
    async def deliver(message: Message) -> None:
        await stream.publish_order(shard.name, message)

    return Relay(shard.pool, SINK, deliver)


async def test_orders_of_all_shards_reach_the_stream_in_order(
    database: Callable[..., Awaitable[str]], redis_url: str
) -> None:
    shards = await open_shards({name: await database("booking", name) for name in ("s1", "s2")}, pool_size=4)
    stream = OrderStream(redis_url)
    first, second = uuid.UUID(int=1), uuid.UUID(int=2)
    await put(shards["s1"], first, 2)
    await put(shards["s1"], first, 3, "cancelled")
    await put(shards["s2"], second, 2, "failed")
    relays = [relay(shard, stream) for shard in shards.values() for _ in range(2)]
    while any(await asyncio.gather(*(each.run_once() for each in relays))):
        pass
    found = await entries(redis_url)
    assert len(found) == 3
    of_first = [entry for entry in found if entry["order_id"] == format_id("ord", "s1", 1)]
    assert [(entry["version"], entry["kind"]) for entry in of_first] == [("2", "confirmed"), ("3", "cancelled")]
    (other,) = [entry for entry in found if entry["order_id"] == format_id("ord", "s2", 2)]
    assert set(other) == {"order_id", "event_id", "version", "kind", "payload"}
    assert other["event_id"] == format_id("evt", "s2", EVENT)
    assert json.loads(other["payload"]) == {
        "order_id": other["order_id"],
        "event_id": other["event_id"],
        "version": 2,
        "state": "CONFIRMED",
    }
    await stream.close()
    await shards.close()


async def test_what_redis_cannot_take_waits_and_spends_no_try(booth: Booth, redis_url: str) -> None:
    shard = booth.shards["s1"]
    await put(shard, uuid.UUID(int=1), 2)
    nowhere = OrderStream(f"redis://127.0.0.1:{free_port()}/0")
    assert await relay(shard, nowhere).run_once() == 0
    full = redis.asyncio.from_url(redis_url)
    await full.config_set("maxmemory", "1")
    stream = OrderStream(redis_url)
    try:
        await booth.execute("UPDATE outbox SET claimed_until = NULL")
        assert await relay(shard, stream).run_once() == 0
    finally:
        await full.config_set("maxmemory", "0")
    (row,) = await booth.execute("SELECT refusals, published_time FROM outbox")
    assert tuple(row) == (0, None)
    await booth.execute("UPDATE outbox SET claimed_until = NULL")
    assert await relay(shard, stream).run_once() == 1
    assert len(await entries(redis_url)) == 1
    for client in (nowhere, stream):
        await client.close()
    await full.aclose()


async def test_an_answer_that_does_not_come_is_a_sink_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    monkeypatch.setattr(store, "SOCKET_SECONDS", 0.2)
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    stream = OrderStream(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
    with pytest.raises(SinkUnavailable):
        await stream.publish_order("s1", Message(1, str(uuid.UUID(int=1)), "failed", payload(uuid.UUID(int=1), 2)))
    await stream.close()
    server.close()


async def test_the_stream_is_bounded(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_ENTRIES", 200)
    stream = OrderStream(redis_url)
    for version in range(1000):
        order = uuid.UUID(int=1)
        await stream.publish_order("s1", Message(version, str(order), "confirmed", payload(order, version)))
    await stream.close()
    found = await entries(redis_url)
    assert 200 <= len(found) < 500
    assert found[-1]["version"] == "999"


async def test_an_order_of_a_buyer_reaches_the_stream(booth: Booth, redis_url: str) -> None:
    hold = await booth.hold("ada", 1, 2)
    order = await booth.order("ada", hold.hold_id)
    await booth.outcome(order, pb.PAYMENT_OUTCOME_SUCCEEDED)
    shard, stream = booth.shards["s1"], OrderStream(redis_url)
    assert await relay(shard, stream).run_once() == 1
    (entry,) = await entries(redis_url)
    assert (entry["order_id"], entry["kind"]) == (order, "confirmed")
    assert "example.test" not in str(entry)  # the buyer's address
    assert "pm_card" not in str(entry)
    await stream.close()


async def test_without_a_redis_url_messages_wait_and_no_promise_is_broken(booth: Booth) -> None:
    await put(booth.shards["s1"], uuid.UUID(int=1), 2)
    await booth.execute("UPDATE outbox SET due_time = clock_timestamp() - interval '6 days'")
    names = [worker.name for worker in booth.workers.all()]
    assert "relay_payments_s1" in names
    assert not [name for name in names if name.startswith("relay_orders")]
    (keeper,) = booth.workers.keepers
    await keeper.run_once()
    assert len(await booth.execute("SELECT FROM outbox")) == 1
    assert await booth.broken() == {}
    await booth.execute("UPDATE outbox SET created_time = created_time - interval '7 days'")
    await keeper.run_once()
    assert await booth.execute("SELECT FROM outbox") == []


async def test_messages_that_wait_too_long_and_parked_ones_break_a_promise(booth: Booth) -> None:
    for number in (1, 2, 3):
        await put(booth.shards["s1"], uuid.UUID(int=number), 2)
    await booth.execute("UPDATE outbox SET due_time = due_time - interval '6 minutes', claim_number = 1")
    await booth.execute("UPDATE outbox SET parked_time = clock_timestamp() WHERE message_id = 2")
    await booth.execute("UPDATE outbox SET published_time = clock_timestamp() WHERE message_id = 3")
    assert await booth.broken() == {"outbox_parked": 1, "outbox_undelivered": 1}
