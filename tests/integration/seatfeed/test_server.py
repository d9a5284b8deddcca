"""SeatFeedService, and the feed's promises, on a real server."""

import asyncio
from typing import cast

import grpc
import pytest
from rowlock.invariant.v1.invariant_pb2 import CheckInvariantsRequest
from rowlock.invariant.v1.invariant_pb2_grpc import InvariantAdminServiceStub
from rowlock.seatfeed.v1 import seatfeed_pb2 as pb
from rowlock.seatfeed.v1 import seatfeed_pb2_grpc as pb_grpc

from chassis.errors import reason_of
from chassis.invariants import invariant_service
from services.seatfeed.follow import Follower
from services.seatfeed.ingest import Ingester
from services.seatfeed.invariants import Checks
from services.seatfeed.rows import Update
from services.seatfeed.server import SERVICE, UPDATES_WAITING, Inbox, SeatFeed, add_seat_feed_to_server
from tests.integration.seatfeed.house import EVENT, EVENT_ID, Booking, House, follow, lead, tick
from tests.support.servers import Servers


async def serve(house: House, servers: Servers, follower: Follower) -> grpc.aio.Channel:
    checks = Checks({"s1": follower}, {"s1": house.open_log})
    return await servers.start(
        (SERVICE, add_seat_feed_to_server, SeatFeed(house.feeds(follower))),
        invariant_service(checks.check_invariants),
    )


async def test_get_seats(booking: Booking, house: House, servers: Servers) -> None:
    ingester, follower = house.ingester(), house.follower()
    await booking.set_state("HELD", 1)
    await booking.set_state("SOLD", 2)
    await lead(ingester)
    await follow(follower)
    stub = pb_grpc.SeatFeedServiceStub(await serve(house, servers, follower))
    counts = await stub.GetSeats(pb.GetSeatsRequest(event_id=EVENT_ID))
    assert counts.sections[0] == pb.SectionCounts(section="A", open=18, held=1, taken=1)
    assert not counts.seats
    assert counts.as_of.ToMicroseconds() == follower.head.as_of if follower.head else False
    seats = await stub.GetSeats(pb.GetSeatsRequest(event_id=EVENT_ID, section="A"))
    assert [seat.state for seat in seats.seats[:3]] == [
        pb.PUBLIC_SEAT_STATE_OPEN,
        pb.PUBLIC_SEAT_STATE_TAKEN,
        pb.PUBLIC_SEAT_STATE_OPEN,
    ]
    assert len(seats.seats) == 20


@pytest.mark.parametrize(
    ("event_id", "section", "reason"),
    [("evt_s1_8", "", "EVENT_NOT_FOUND"), ("x", "", "EVENT_NOT_FOUND"), (EVENT_ID, "Z", "SECTION_NOT_FOUND")],
)
async def test_what_is_not_there_is_refused(
    booking: Booking, house: House, servers: Servers, event_id: str, section: str, reason: str
) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    stub = pb_grpc.SeatFeedServiceStub(await serve(house, servers, follower))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.GetSeats(pb.GetSeatsRequest(event_id=event_id, section=section))
    assert reason_of(refused.value)[0] == reason
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.StreamUpdates(pb.StreamUpdatesRequest(event_id=event_id, section=section)).read()
    assert reason_of(refused.value)[0] == reason


async def test_get_seats_before_the_first_epoch_is_unavailable(house: House, servers: Servers) -> None:
    follower = house.follower()
    await follower.run_once()
    stub = pb_grpc.SeatFeedServiceStub(await serve(house, servers, follower))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.GetSeats(pb.GetSeatsRequest(event_id=EVENT_ID))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_stream_updates(booking: Booking, house: House, servers: Servers) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    stub = pb_grpc.SeatFeedServiceStub(await serve(house, servers, follower))
    call = stub.StreamUpdates(pb.StreamUpdatesRequest(event_id=EVENT_ID, section="A"))
    first = cast(pb.StreamUpdatesResponse, await call.read())
    await booking.set_state("SOLD", 4)
    await tick(ingester)
    await follow(follower)
    update = cast(pb.StreamUpdatesResponse, await call.read())
    assert update.prev == first.watermark
    assert list(update.seats) == [pb.SeatStatus(seat_id=4, state=pb.PUBLIC_SEAT_STATE_TAKEN)]
    call.cancel()
    for _ in range(500):
        if not follower.views[EVENT].subscribers:
            break
        await asyncio.sleep(0.02)
    assert not follower.views[EVENT].subscribers


def test_a_slow_grpc_reader_is_told_to_start_over() -> None:
    inbox = Inbox()
    for number in range(UPDATES_WAITING + 1):
        inbox.deliver(Update(f"e.{number}", f"e.{number + 1}", 0))
    assert inbox.updates.qsize() == 1
    assert inbox.updates.get_nowait().resync


async def test_get_seats_reads_the_store_once_for_all_who_ask(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    loads = 0
    load = follower.store.load_picture

    async def counted(epoch: str, event: int) -> object:
        nonlocal loads
        loads += 1
        return await load(epoch, event)

    follower.store.load_picture = counted  # type: ignore[method-assign, assignment]
    feeds = house.feeds(follower)
    answers = await asyncio.gather(*(feeds.get_seats(EVENT_ID, "A") for _ in range(50)))
    assert loads == 1
    assert len({id(answer) for answer in answers}) == 1


async def test_redis_away_serves_the_last_picture_with_its_age(booking: Booking, house: House) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    feeds = house.feeds(follower)
    before = await feeds.get_seats(EVENT_ID, "A")
    follower.store._redis = ClosedRedis()
    assert not await follower.run_once()
    assert await feeds.get_seats(EVENT_ID, "A") == before


class ClosedRedis:
    """Nobody listens at its port."""

    async def xread(self, *_: object, **__: object) -> None:
        raise ConnectionRefusedError("no store")


async def test_check_invariants(booking: Booking, house: House, servers: Servers) -> None:
    ingester, follower = house.ingester(), house.follower()
    await lead(ingester)
    await follow(follower)
    await follower.view(EVENT)
    await booking.set_state("SOLD", 1)
    promises = InvariantAdminServiceStub(await serve(house, servers, follower))
    assert ingester.head is not None
    seats = ingester.store._seats(ingester.head.epoch, EVENT)
    ticking = asyncio.create_task(tick_on(ingester))
    try:
        good = await promises.CheckInvariants(CheckInvariantsRequest())
        assert {invariant.name: invariant.violations for invariant in good.invariants} == {
            "slot_is_gone": 0,
            "log_acknowledged_beyond_the_pictures": 0,
            "pictures_are_behind": 0,
            "stored_seat_differs": 0,
            "counts_do_not_add_up": 0,
        }
        await house.redis.hset(seats, "5", "tA")
        broken = await promises.CheckInvariants(CheckInvariantsRequest())
        found = {invariant.name: list(invariant.examples) for invariant in broken.invariants if invariant.violations}
        assert found == {"stored_seat_differs": [f"{EVENT_ID} seat 5"]}
    finally:
        ticking.cancel()
        await asyncio.wait([ticking])


async def tick_on(ingester: Ingester) -> None:
    while True:
        await tick(ingester)
        await asyncio.sleep(0.05)
