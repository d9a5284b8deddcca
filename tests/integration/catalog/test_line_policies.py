"""Line policies are put again, so that a waiting room that lost its store knows its events again without help."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from rowlock.catalog.v1 import catalog_pb2 as pb2
from rowlock.waitingroom.v1 import waitingroom_pb2, waitingroom_pb2_grpc

from chassis.client import open_channel
from services.catalog import line_policies
from services.catalog.line_policies import put_line_policies
from services.catalog.peers import GrpcPeers
from services.catalog.store.events import BEFORE_ALL, QUERIES, EventStore
from services.catalog.workers import all_workers
from tests.integration.catalog.house import SOON, Catalog
from tests.integration.catalog.peers import RecordingWaitingRoom, WrongShard, lost_answer
from tests.support.servers import Servers


class SlowWaitingRoom(RecordingWaitingRoom):
    """Counts how many calls are under way at once; the first ones wait until `meet` are. Refuses the events in
    `refused`."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.heard = asyncio.Event()
        self.under_way = self.most_under_way = self.meet = 0
        self.met = asyncio.Event()

    async def PutLinePolicy(self, request: Any, context: Any) -> Any:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        if self.under_way >= self.meet:
            self.met.set()
        await self.met.wait()
        await asyncio.sleep(0.005)
        self.under_way -= 1
        if request.event_id in self.refused:
            self.taken.append(request)
            raise WrongShard("no")
        self.heard.set()
        return await super().PutLinePolicy(request, context)


class House:
    """A catalog, and a waiting room of its own that hears the policies put again."""

    def __init__(self, catalog: Catalog, waitingroom: SlowWaitingRoom, peers: GrpcPeers) -> None:
        self.catalog, self.waitingroom, self.peers = catalog, waitingroom, peers
        self.events = EventStore(catalog.pool)

    async def put(self) -> list[str]:
        """A round: the events heard of."""
        self.waitingroom.taken.clear()
        await put_line_policies(self.events, self.peers)
        return [policy.event_id for policy in self.waitingroom.taken]

    async def add_events(self, count: int) -> None:
        """Copies of the one event, published, with sales that end together in threes."""
        await self.catalog.pool.execute(
            """
            INSERT INTO event
            SELECT (e).* FROM (
              SELECT jsonb_populate_record(event, jsonb_build_object(
                'event_id', n, 'request_id', 'copy-' || n, 'sale_end_time', sale_end_time + n / 3 * interval '1 s'
              )) AS e
              FROM event, generate_series(1, $1::int) AS n
            ) AS copies
            """,
            count,
        )


@pytest.fixture
async def house(catalog: Catalog, servers: Servers) -> AsyncIterator[House]:
    waitingroom = SlowWaitingRoom()
    service = waitingroom_pb2.DESCRIPTOR.services_by_name["WaitingRoomInternalService"]
    channel = await servers.start(
        (service, waitingroom_pb2_grpc.add_WaitingRoomInternalServiceServicer_to_server, waitingroom)
    )
    nobody = open_channel("127.0.0.1:1")
    yield House(catalog, waitingroom, GrpcPeers(booking=nobody, waitingroom=channel))
    await nobody.close(None)


async def test_put_line_policies_says_what_publishing_said(house: House) -> None:
    venue = await house.catalog.import_venue()
    await house.catalog.publish(venue.venue_id, rules=pb2.SaleRules(line=True, line_capacity=40))
    await house.catalog.publish(venue.venue_id)  # without a line: joining it must answer too
    await house.put()
    said = {policy.event_id: policy for policy in house.catalog.waitingroom.taken}
    assert {policy.event_id: policy for policy in house.waitingroom.taken} == said
    assert sorted(policy.capacity for policy in said.values()) == [0, 40]


async def test_put_line_policies_leaves_out_what_is_hidden_or_over(house: House) -> None:
    venue = await house.catalog.import_venue()
    await house.catalog.create_event(venue.venue_id)
    over = await house.catalog.publish(venue.venue_id)
    shown = await house.catalog.publish(venue.venue_id, start=SOON + timedelta(days=1))
    await house.catalog.pool.execute(
        "UPDATE event SET sale_start_time = now() - interval '2 s', sale_end_time = now() - interval '1 s'"
        " WHERE request_id = 'request-2'"
    )
    heard = await house.put()
    assert heard == [shown.event_id]
    assert over.event_id not in heard


async def test_put_line_policies_goes_through_all_pages_a_few_at_a_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.catalog.publish((await house.catalog.import_venue()).venue_id)
    await house.add_events(50)
    monkeypatch.setattr(line_policies, "PAGE", 20)  # pages end between events whose sales end together
    house.waitingroom.meet = line_policies.AT_ONCE
    heard = await house.put()
    assert (len(heard), len(set(heard))) == (51, 51)
    assert house.waitingroom.most_under_way == line_policies.AT_ONCE


async def test_put_line_policies_stops_while_the_waiting_room_is_away_and_goes_on_later(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.catalog.publish((await house.catalog.import_venue()).venue_id)
    await house.add_events(50)
    monkeypatch.setattr(line_policies, "PAGE", 20)
    house.waitingroom.faults = [lost_answer()]
    assert len(await house.put()) == 20
    assert not house.waitingroom.faults
    assert len(await house.put()) == 51


async def test_put_line_policies_passes_over_one_that_is_refused(house: House) -> None:
    event = await house.catalog.publish((await house.catalog.import_venue()).venue_id)
    await house.add_events(5)
    house.waitingroom.refused = {event.event_id}
    before = REGISTRY.get_sample_value("catalog_line_policies_total", {"outcome": "REFUSED"}) or 0
    assert len(await house.put()) == 6
    assert REGISTRY.get_sample_value("catalog_line_policies_total", {"outcome": "REFUSED"}) == before + 1


async def test_put_line_policies_reads_no_sale_of_the_past(house: House) -> None:
    await house.catalog.publish((await house.catalog.import_venue()).venue_id)
    await house.add_events(3000)
    await house.catalog.pool.execute(
        "UPDATE event SET sale_start_time = now() - interval '2 d', sale_end_time = now() - interval '1 d'"
        " WHERE event_id <= 2990"
    )
    await house.catalog.pool.execute("ANALYZE event")
    statement = QUERIES.list_line_policies.sql
    plan = await house.catalog.pool.fetch(f"EXPLAIN {statement}", *BEFORE_ALL, 100)
    assert "Index Scan using event_sale_ends_soonest_first" in "\n".join(row[0] for row in plan)
    assert len(await house.put()) == 11


async def test_the_worker_puts_them_by_itself(house: House) -> None:
    event = await house.catalog.publish((await house.catalog.import_venue()).venue_id)
    (worker,) = all_workers(house.events, house.peers)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(20):
        await house.waitingroom.heard.wait()
    running.cancel()
    assert [policy.event_id for policy in house.waitingroom.taken] == [event.event_id]
    assert worker.interval_seconds == 30
