"""What the seat feed counts stops a line when nothing is left, and lets it go on when something comes back."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from prometheus_client import REGISTRY
from rowlock.seatfeed.v1 import seatfeed_pb2, seatfeed_pb2_grpc

from chassis.errors import Code, Refusal, Unavailable
from services.waitingroom import counts as counts_module
from services.waitingroom import peers
from services.waitingroom.counts import CountsWatch
from services.waitingroom.line import state_of
from services.waitingroom.peers import GrpcSeatFeed
from services.waitingroom.rows import Counts, LineState, Policy, PositionState, Stop
from services.waitingroom.workers import all_workers
from tests.integration.waitingroom.room import EVENT, START, Room
from tests.support.servers import Servers


class NoSuchEvent(Refusal):
    """What seatfeed says to an event that it has no picture of."""

    code = Code.NOT_FOUND
    reason = "EVENT_NOT_FOUND"


class CountingSeatFeed(seatfeed_pb2_grpc.SeatFeedServiceServicer):
    """Answers with one picture for every event, as of the test's clock, or raises `fault`."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.sections = [seatfeed_pb2.SectionCounts(section="A", open=5, held=1, taken=4)]
        self.age_seconds = 0.0
        self.fault: Exception | None = None
        self.answer_seconds = 0.0
        self.asked: Counter[str] = Counter()
        self.under_way = self.most_under_way = 0
        self.meet, self.met = 0, asyncio.Event()  # the first ones wait until so many are under way

    def count(self, *sections: tuple[int, int]) -> None:
        """(open, held) of each section."""
        self.sections = [
            seatfeed_pb2.SectionCounts(section=str(number), open=opened, held=held, taken=3)
            for number, (opened, held) in enumerate(sections)
        ]

    async def GetSeats(self, request: seatfeed_pb2.GetSeatsRequest, context: Any) -> seatfeed_pb2.GetSeatsResponse:
        assert not request.section
        self.asked[request.event_id] += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        if self.under_way >= self.meet:
            self.met.set()
        try:
            await self.met.wait()
            await asyncio.sleep(self.answer_seconds)
        finally:
            self.under_way -= 1
        if self.fault:
            raise self.fault
        answer = seatfeed_pb2.GetSeatsResponse(sections=self.sections, watermark="e.1")
        now = self.room.scripts.now
        assert now is not None
        answer.as_of.FromMilliseconds(now - round(self.age_seconds * 1000))
        return answer

    def StreamUpdates(self, request: Any, context: Any) -> Any:
        raise AssertionError("waitingroom follows no stream")


class House:
    """A line of twenty with a capacity of ten, a seat feed, and the two workers, moved by hand."""

    def __init__(self, room: Room, feed: CountingSeatFeed, seatfeed: GrpcSeatFeed) -> None:
        self.room, self.feed = room, feed
        self.asking = CountsWatch(room.lines, seatfeed)
        self.seconds = 0.0

    async def pass_time(self, seconds: float = 0.5) -> str:
        """What the tick did after it."""
        self.seconds += seconds
        self.room.at(self.seconds)
        return (await self.room.lines.tick(EVENT)).outcome

    async def ask(self) -> Stop:
        """What the line has heard afterwards."""
        await self.asking.run_once()
        return (await self.room.lines.get_line(EVENT)).stop

    async def state(self) -> LineState:
        return state_of(await self.room.lines.get_line(EVENT))

    async def admitted_through(self) -> int:
        return (await self.room.lines.get_line(EVENT)).admitted_through


@pytest.fixture
async def house(room: Room, servers: Servers) -> House:
    feed = CountingSeatFeed(room)
    service = seatfeed_pb2.DESCRIPTOR.services_by_name["SeatFeedService"]
    channel = await servers.start((service, seatfeed_pb2_grpc.add_SeatFeedServiceServicer_to_server, feed))
    await room.announce()
    for number in range(20):
        await room.join(f"fan{number}")
    return House(room, feed, GrpcSeatFeed(channel))


async def test_without_the_asking_the_line_moves_into_an_empty_house(house: House) -> None:
    house.feed.count((0, 0))
    assert await house.pass_time() == "ADVANCED"  # the control: the same line, and nobody asked
    assert await house.admitted_through() == 10


async def test_a_sold_out_line_stands_and_moves_on_when_a_seat_comes_back(house: House) -> None:
    house.feed.count((0, 0), (0, 0))
    assert await house.ask() is Stop.SOLD_OUT
    for _ in range(3):
        assert await house.pass_time() == "SOLD_OUT"
        assert await house.state() is LineState.SOLD_OUT
    assert await house.admitted_through() == 0
    house.feed.count((0, 0), (1, 0))
    assert await house.ask() is Stop.NONE
    assert await house.pass_time() == "ADVANCED"
    assert await house.state() is LineState.MOVING
    assert await house.admitted_through() == 10


async def test_a_line_before_held_seats_pauses_until_one_is_open(house: House) -> None:
    house.feed.count((0, 0), (0, 4))
    assert await house.ask() is Stop.ALL_HELD
    assert await house.pass_time() == "ALL_HELD"
    assert await house.state() is LineState.PAUSED
    house.feed.count((0, 0), (1, 3))
    await house.ask()
    assert await house.pass_time() == "ADVANCED"


async def test_held_seats_that_are_paid_for_turn_a_pause_into_sold_out(house: House) -> None:
    house.feed.count((0, 2))
    await house.ask()
    house.feed.count((0, 0))
    assert await house.ask() is Stop.SOLD_OUT
    house.feed.count((0, 1))  # a card was declined, and the seat was held by the next
    assert await house.ask() is Stop.ALL_HELD


async def test_without_news_the_line_moves_on(house: House) -> None:
    house.feed.count((0, 0))
    await house.ask()
    house.feed.fault = Unavailable("gone")
    assert await house.pass_time(9.9) == "SOLD_OUT"
    assert await house.ask() is Stop.SOLD_OUT  # one answer that fails is no news, and not yet the end of the old ones
    assert await house.pass_time(0.5) == "ADVANCED"


async def test_a_picture_that_stands_still_stops_no_line(house: House) -> None:
    house.feed.count((0, 0))
    house.feed.age_seconds = 10
    assert await house.ask() is Stop.NONE
    house.feed.age_seconds = 9
    assert await house.ask() is Stop.SOLD_OUT
    assert await house.pass_time(1) == "ADVANCED"


async def test_a_picture_from_the_future_holds_no_longer_than_another(house: House) -> None:
    house.feed.count((0, 0))
    house.feed.age_seconds = -3600
    assert await house.ask() is Stop.SOLD_OUT
    assert await house.pass_time(10) == "ADVANCED"


async def test_a_slower_process_does_not_undo_what_a_newer_picture_said(house: House) -> None:
    lines = house.room.lines
    assert await lines.note_counts(EVENT, Counts(open=0, held=0, as_of=START - 1000))
    assert not await lines.note_counts(EVENT, Counts(open=7, held=0, as_of=START - 1001))
    assert (await lines.get_line(EVENT)).stop is Stop.SOLD_OUT
    assert await lines.note_counts(EVENT, Counts(open=7, held=0, as_of=START - 1000))
    assert (await lines.get_line(EVENT)).stop is Stop.NONE


async def test_an_event_nobody_announced_keeps_no_counts(room: Room) -> None:
    assert not await room.lines.note_counts("evt_s1_99", Counts(open=0, held=0, as_of=START))
    assert await room.client.keys("*evt_s1_99*") == []


@pytest.mark.parametrize("fault", [NoSuchEvent("no picture"), Unavailable("no picture yet"), RuntimeError("broken")])
async def test_a_seat_feed_that_refuses_stops_no_line(house: House, fault: Exception) -> None:
    house.feed.fault = fault
    assert await house.ask() is Stop.NONE
    assert house.feed.asked[EVENT] == 1
    assert await house.pass_time() == "ADVANCED"


async def test_a_picture_without_sections_stops_no_line(house: House) -> None:
    house.feed.count()
    assert await house.ask() is Stop.NONE
    assert await house.pass_time() == "ADVANCED"


async def test_joining_and_entering_go_on_while_sold_out(house: House) -> None:
    await house.pass_time()
    house.feed.count((0, 0))
    await house.ask()
    joined = await house.room.lines.join_line(EVENT, "late")
    assert (joined.position, joined.state, joined.rate_per_second) == (21, PositionState.WAITING, 0)
    assert await house.room.enter("fan3", 4) > START
    assert await house.pass_time() == "SOLD_OUT"
    house.feed.count((2, 0))
    await house.ask()
    assert (await house.room.lines.join_line(EVENT, "late")).rate_per_second > 0


async def test_after_the_sale_the_line_has_ended_also_when_all_is_sold(house: House) -> None:
    house.feed.count((0, 0))
    await house.ask()
    version = Policy(9, line=True, capacity=10, sale_start=START, sale_end=START + 1000)
    await house.room.lines.put_line_policy(EVENT, version)
    assert await house.pass_time(1) == "NOT_ON_SALE"
    assert await house.state() is LineState.ENDED


async def test_only_lines_whose_sale_is_on_are_asked_for(house: House) -> None:
    lines = house.room.lines
    for event, line, start, end in (
        ("evt_s1_21", True, START + 1, 0),
        ("evt_s1_22", True, START - 9, START),
        ("evt_s1_23", False, 0, 0),
        ("evt_s1_24", True, 0, 0),
    ):
        await lines.put_line_policy(event, Policy(1, line, 10, start, end))
    await lines.put_line_policy("evt_s1_24", Policy(2, False, 10, 0, 0))  # had a line, and has none any more
    await house.ask()
    assert house.feed.asked == {EVENT: 1}


async def test_many_lines_are_asked_for_a_few_at_a_time(house: House) -> None:
    for number in range(100, 139):
        await house.room.lines.put_line_policy(f"evt_s1_{number}", Policy(1, True, 10, 0, 0))
    house.feed.answer_seconds, house.feed.meet = 0.02, counts_module.AT_ONCE
    await house.ask()
    assert len(house.feed.asked) == 40
    assert house.feed.most_under_way == counts_module.AT_ONCE


async def test_a_seat_feed_that_hangs_costs_a_deadline_and_nothing_else(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "ANSWER_SECONDS", 0.5)
    house.feed.answer_seconds = 100
    async with asyncio.timeout(30):
        assert await house.ask() is Stop.NONE
    assert house.feed.asked[EVENT] == 1


async def test_a_round_is_cut_short_of_the_end_of_what_was_found(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100, 139):
        await house.room.lines.put_line_policy(f"evt_s1_{number}", Policy(1, True, 10, 0, 0))
    monkeypatch.setattr(counts_module, "ROUND_SECONDS", 0.3)
    house.feed.answer_seconds = 30
    cut = REGISTRY.get_sample_value("waitingroom_counts_total", {"outcome": "CUT"}) or 0
    await house.ask()
    assert REGISTRY.get_sample_value("waitingroom_counts_total", {"outcome": "CUT"}) == cut + 1


async def test_the_worker_runs_only_where_there_is_a_seat_feed(house: House) -> None:
    lines = house.room.lines
    with_feed = all_workers(lines, seatfeed=house.asking.seatfeed, tick_seconds=0.5)
    without = all_workers(lines, seatfeed=None, tick_seconds=0.5)
    assert [worker.name for worker in with_feed] == ["admitter", "watch", "counts"]
    assert [worker.name for worker in without] == ["admitter", "watch"]


async def test_a_line_that_moves_again_is_not_called_paused_for_the_time_it_was_sold_out(house: House) -> None:
    await house.pass_time()
    house.feed.count((0, 0))
    for _ in range(8):
        await house.ask()
        await house.pass_time(5)
    house.feed.count((1, 0))
    await house.ask()
    assert await house.state() is LineState.MOVING
