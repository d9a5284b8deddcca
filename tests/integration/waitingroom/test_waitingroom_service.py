"""The three services over gRPC, as the gateway and the peers call them."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc
import jwt
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.invariant.v1.invariant_pb2 import CheckInvariantsRequest
from rowlock.invariant.v1.invariant_pb2_grpc import InvariantAdminServiceStub
from rowlock.waitingroom.v1 import waitingroom_pb2 as pb2
from rowlock.waitingroom.v1 import waitingroom_pb2_grpc as pb2_grpc

from chassis.errors import reason_of
from chassis.ids import parse_id
from chassis.invariants import invariant_service
from chassis.tokens import ACCOUNT_HEADER, EPOCH_HEADER, EVENT_HEADER, POSITION_HEADER, Key, KeyRing
from services.waitingroom.admitter import Admitter
from services.waitingroom.invariants import DESCRIPTIONS, check_invariants
from services.waitingroom.rows import Counts, Terms
from services.waitingroom.server import WaitingRoomInternalServicer, WaitingRoomServicer
from services.waitingroom.store.scripts import keys_of
from tests.integration.waitingroom.room import EVENT, Room
from tests.support.servers import Servers

SECRET = b"a secret that is long enough for tests"
OTHER_EVENT = "evt_s1_8"
SERVICES = pb2.DESCRIPTOR.services_by_name


class Service:
    """Stubs of a running service, and headers as the gateway makes them of a queue token."""

    def __init__(self, channel: grpc.aio.Channel, room: Room) -> None:
        self.fan = pb2_grpc.WaitingRoomServiceStub(channel)
        self.internal = pb2_grpc.WaitingRoomInternalServiceStub(channel)
        self.promises = InvariantAdminServiceStub(channel)
        self.room = room

    async def announce(self, **policy: Any) -> None:
        request = pb2.PutLinePolicyRequest(event_id=EVENT, version=1, line=True, capacity=10)
        request.sale_end_time.FromSeconds(int(time.time()) + 3600)
        request.MergeFrom(pb2.PutLinePolicyRequest(**policy))
        await self.internal.PutLinePolicy(request)

    async def join(self, account: str) -> Any:
        return await self.fan.JoinLine(pb2.JoinLineRequest(event_id=EVENT), metadata=[(ACCOUNT_HEADER, account)])


def headers(queue_token: str) -> list[tuple[str, str]]:
    claims = jwt.decode(queue_token, SECRET, algorithms=["HS256"], audience="rowlock-queue")
    named = {ACCOUNT_HEADER: "sub", EVENT_HEADER: "eid", POSITION_HEADER: "pos", EPOCH_HEADER: "epoch"}
    return [(header, str(claims[claim])) for header, claim in named.items()]


async def refusal(call: Any) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code().name, reason_of(refused.value)[0]


@pytest.fixture
async def service(redis_url: str, servers: Servers) -> AsyncIterator[Service]:
    room, terms, ring = Room.open(redis_url), Terms(), KeyRing([Key("k1", SECRET)])
    public = WaitingRoomServicer(lines=room.lines, leases=room.leases, ring=ring, terms=terms)
    internal = WaitingRoomInternalServicer(room.lines)
    channel = await servers.start(
        (SERVICES["WaitingRoomService"], pb2_grpc.add_WaitingRoomServiceServicer_to_server, public),
        (SERVICES["WaitingRoomInternalService"], pb2_grpc.add_WaitingRoomInternalServiceServicer_to_server, internal),
        invariant_service(partial(check_invariants, room.lines)),
    )
    yield Service(channel, room)
    await room.client.aclose()


async def test_a_fan_joins_waits_enters_stays_and_leaves(service: Service) -> None:
    await service.announce()
    joined = await service.join("ann")
    assert (joined.position, joined.state, joined.HasField("eta")) == (1, pb2.POSITION_STATE_WAITING, False)
    queue = headers(joined.queue_token)
    assert await refusal(service.fan.EnterEvent(pb2.EnterEventRequest(event_id=EVENT), metadata=queue)) == (
        "ABORTED",
        "NOT_YET",
    )
    await Admitter(service.room.lines).run_once()
    line = await service.fan.GetLine(pb2.GetLineRequest(event_id=EVENT))
    assert (line.admitted_through, line.tail, line.epoch) == (1, 1, joined.epoch)
    assert line.state == pb2.LINE_STATE_MOVING
    assert abs(line.as_of.ToSeconds() - time.time()) < 60

    entered = await service.fan.EnterEvent(pb2.EnterEventRequest(event_id=EVENT), metadata=queue)
    assert entered.heartbeat_interval.seconds == 20
    assert entered.max_stay_time.ToSeconds() - entered.lease_expire_time.ToSeconds() == 780
    beat = await service.fan.Heartbeat(pb2.HeartbeatRequest(event_id=EVENT), metadata=queue)
    assert beat.lease_expire_time.ToMilliseconds() >= entered.lease_expire_time.ToMilliseconds()
    assert (await service.join("ann")).state == pb2.POSITION_STATE_ENTERED

    await service.fan.LeaveEvent(pb2.LeaveEventRequest(event_id=EVENT), metadata=queue)
    again = service.fan.Heartbeat(pb2.HeartbeatRequest(event_id=EVENT), metadata=queue)
    assert await refusal(again) == ("ABORTED", "LEASE_ENDED")


async def test_tokens_say_whose_position_it_is_and_live_as_long_as_they_should(service: Service) -> None:
    await service.announce()
    queue_token = (await service.join("ann")).queue_token
    await Admitter(service.room.lines).run_once()
    request, metadata = pb2.EnterEventRequest(event_id=EVENT), headers(queue_token)
    entered = await service.fan.EnterEvent(request, metadata=metadata)
    for token, audience, seconds in ((queue_token, "queue", 3600), (entered.admission_token, "admission", 60)):
        claims = jwt.decode(token, SECRET, algorithms=["HS256"], audience=f"rowlock-{audience}")
        assert (claims["sub"], claims["eid"], claims["pos"]) == ("ann", EVENT, 1)
        assert isinstance(claims["epoch"], int)
        assert abs(claims["exp"] - claims["iat"] - seconds) <= 2


async def test_an_admission_token_does_not_outlive_the_longest_stay(service: Service) -> None:
    await service.announce(sale_end_time=Timestamp(seconds=1_900_000_000))
    room = service.room
    room.at(0)
    queue = headers((await service.join("ann")).queue_token)
    await room.lines.tick(EVENT)
    await service.fan.EnterEvent(pb2.EnterEventRequest(event_id=EVENT), metadata=queue)
    for second in range(100, 900, 100):
        room.at(second)
        await room.leases.heartbeat(EVENT, "ann")
    room.at(890)
    beat = await service.fan.Heartbeat(pb2.HeartbeatRequest(event_id=EVENT), metadata=queue)
    claims = jwt.decode(beat.admission_token, SECRET, algorithms=["HS256"], audience="rowlock-admission")
    assert claims["exp"] - claims["iat"] == 10


async def test_an_event_without_a_line_is_entered_at_once(service: Service) -> None:
    await service.internal.PutLinePolicy(pb2.PutLinePolicyRequest(event_id=EVENT, version=1))
    joined = await service.join("ann")
    assert (joined.position, joined.state, joined.eta.ToSeconds()) == (0, pb2.POSITION_STATE_ADMITTED, 0)
    queue = headers(joined.queue_token)
    assert (await service.fan.EnterEvent(pb2.EnterEventRequest(event_id=EVENT), metadata=queue)).admission_token
    assert (await service.fan.Heartbeat(pb2.HeartbeatRequest(event_id=EVENT), metadata=queue)).admission_token
    assert (await service.fan.GetLine(pb2.GetLineRequest(event_id=EVENT))).state == pb2.LINE_STATE_OPEN


async def test_a_token_of_another_event_and_a_call_without_an_account_are_refused(service: Service) -> None:
    await service.announce()
    queue = headers((await service.join("ann")).queue_token)
    calls: list[tuple[Any, Any]] = [
        (service.fan.EnterEvent, pb2.EnterEventRequest(event_id=OTHER_EVENT)),
        (service.fan.Heartbeat, pb2.HeartbeatRequest(event_id=OTHER_EVENT)),
        (service.fan.LeaveEvent, pb2.LeaveEventRequest(event_id=OTHER_EVENT)),
    ]
    for call, request in calls:
        assert await refusal(call(request, metadata=queue)) == ("PERMISSION_DENIED", "TOKEN_FOR_ANOTHER")
        assert await refusal(call(request)) == ("UNAUTHENTICATED", "TOKEN_INVALID")
    joined = service.fan.JoinLine(pb2.JoinLineRequest(event_id=EVENT))
    assert await refusal(joined) == ("UNAUTHENTICATED", "TOKEN_INVALID")


@pytest.mark.parametrize("event_id", ["", OTHER_EVENT, "evt_s1_", "x}{y", "ord_s1_7", "evt_s1_7\n", "é" * 500])
async def test_an_unknown_or_malformed_event_is_not_found(service: Service, event_id: str) -> None:
    await service.announce()
    fan = [(ACCOUNT_HEADER, "ann")]
    assert await refusal(service.fan.GetLine(pb2.GetLineRequest(event_id=event_id))) == ("NOT_FOUND", "EVENT_NOT_FOUND")
    joined = service.fan.JoinLine(pb2.JoinLineRequest(event_id=event_id), metadata=fan)
    assert await refusal(joined) == ("NOT_FOUND", "EVENT_NOT_FOUND")
    if parse_id("evt", event_id) is None:
        put = service.internal.PutLinePolicy(pb2.PutLinePolicyRequest(event_id=event_id, version=1))
        assert await refusal(put) == ("NOT_FOUND", "EVENT_NOT_FOUND")
    assert {key for key in await service.room.client.keys() if EVENT not in key} == {"waitingroom:lines"}


async def test_a_policy_or_report_that_makes_no_sense_is_refused(service: Service) -> None:
    put, report = service.internal.PutLinePolicy, service.internal.ReportSales
    requests: list[Any] = [
        put(pb2.PutLinePolicyRequest(event_id=EVENT, version=0)),
        put(pb2.PutLinePolicyRequest(event_id=EVENT, version=1, line=True)),
        put(
            pb2.PutLinePolicyRequest(
                event_id=EVENT, version=1, sale_start_time=Timestamp(seconds=20), sale_end_time=Timestamp(seconds=10)
            )
        ),
        report(pb2.ReportSalesRequest(events=[pb2.EventSales(event_id=EVENT)] * 2)),
        report(
            pb2.ReportSalesRequest(
                events=[pb2.EventSales(event_id=f"evt_s1_{n}") for n in range(100_000_000, 100_001_001)]
            )
        ),
    ]
    for request in requests:
        assert await refusal(request) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
    assert await service.room.client.keys() == []


async def test_report_sales_ends_the_lease_of_an_account_that_finished(service: Service) -> None:
    await service.announce()
    queue = headers((await service.join("ann")).queue_token)
    await Admitter(service.room.lines).run_once()
    await service.fan.EnterEvent(pb2.EnterEventRequest(event_id=EVENT), metadata=queue)
    sales = pb2.EventSales(event_id=EVENT, commits=2, conflicts=1, finished_accounts=["ann", "bob"])
    await service.internal.ReportSales(pb2.ReportSalesRequest(events=[sales]))
    beat = service.fan.Heartbeat(pb2.HeartbeatRequest(event_id=EVENT), metadata=queue)
    assert await refusal(beat) == ("ABORTED", "LEASE_ENDED")


async def test_a_thousand_polls_read_the_store_once(service: Service) -> None:
    await service.announce()
    room, reads = service.room, 0
    run = room.scripts.run

    async def count(name: str, event_id: str, *arguments: str | int) -> Any:
        nonlocal reads
        reads += name == "get_line"
        return await run(name, event_id, *arguments)

    room.scripts.run = count  # type: ignore[method-assign]
    request = pb2.GetLineRequest(event_id=EVENT)
    began = time.monotonic()
    await asyncio.gather(*(service.fan.GetLine(request) for _ in range(1000)))
    assert 1 <= reads <= 1 + (time.monotonic() - began) / 0.25
    await asyncio.sleep(0.26)
    before = reads
    await service.fan.GetLine(request)
    assert reads == before + 1


async def test_check_invariants_names_all_and_finds_what_is_broken(service: Service) -> None:
    await service.announce()
    client = service.room.client
    line, positions, cohorts, _, leases, _ = keys_of(EVENT)
    kept = (await service.promises.CheckInvariants(CheckInvariantsRequest())).invariants
    assert {invariant.name: invariant.violations for invariant in kept} == dict.fromkeys(DESCRIPTIONS, 0)

    later = int(time.time() * 1000) + 1_000_000_000
    await client.hset(line, mapping={"tail": 3, "admitted": 5})
    await client.zadd(cohorts, {"1:0": 9})
    await client.hset(positions, mapping={"ann": 1, "bob": f"1:{later - 1}"})
    await client.zadd(leases, {"bob": later, **{f"ghost{number}": later for number in range(60)}})
    broken = (await service.promises.CheckInvariants(CheckInvariantsRequest())).invariants
    found = {invariant.name: invariant.violations for invariant in broken}
    assert found == {
        "in_flight_over_capacity": 1,
        "admitted_past_tail": 1,
        "cohort_past_admitted": 1,
        "lease_without_position": 60,
        "lease_past_max_stay": 1,
        "lease_too_long": 61,
        "position_given_twice": 1,
    }
    assert all(1 <= len(invariant.examples) <= 10 and invariant.description for invariant in broken)
    assert f"{EVENT} bob" in broken[4].examples


async def test_a_sold_out_line_says_so_and_still_gives_positions(service: Service) -> None:
    await service.announce(capacity=1)
    ann = await service.join("ann")
    await Admitter(service.room.lines).run_once()
    picture = Counts(open=0, held=0, as_of=round(time.time() * 1000))
    assert await service.room.lines.note_counts(EVENT, picture)
    line = await service.fan.GetLine(pb2.GetLineRequest(event_id=EVENT))
    assert (line.state, line.admitted_through) == (pb2.LINE_STATE_SOLD_OUT, 1)
    bob = await service.join("bob")
    assert (bob.position, bob.state, bob.HasField("eta")) == (2, pb2.POSITION_STATE_WAITING, False)
    entered = await service.fan.EnterEvent(pb2.EnterEventRequest(event_id=EVENT), metadata=headers(ann.queue_token))
    assert entered.admission_token
