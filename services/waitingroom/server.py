"""The gRPC services for fans and for other services: proto in, rule, proto out."""

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.waitingroom.v1 import waitingroom_pb2 as pb2
from rowlock.waitingroom.v1 import waitingroom_pb2_grpc as pb2_grpc

from chassis.ids import parse_id
from chassis.telemetry import span
from chassis.tokens import KeyRing, caller_of
from services.waitingroom.admissions import Admissions
from services.waitingroom.errors import EventNotFound
from services.waitingroom.intake import put_line_policy, report_sales
from services.waitingroom.line import SharedLines, state_of
from services.waitingroom.positions import join_line
from services.waitingroom.rows import Policy, Sales, Terms
from services.waitingroom.store.leases import LeaseStore
from services.waitingroom.store.lines import LineStore


class WaitingRoomServicer(pb2_grpc.WaitingRoomServiceServicer):
    """What a fan does in a line."""

    def __init__(self, *, lines: LineStore, leases: LeaseStore, ring: KeyRing, terms: Terms) -> None:
        self.lines, self.ring, self.terms = lines, ring, terms
        self.shared = SharedLines(lines.get_line)
        self.admissions = Admissions(leases, ring, terms)

    async def JoinLine(self, request: pb2.JoinLineRequest, context: Any) -> pb2.JoinLineResponse:
        event_id, caller = _event(request.event_id), caller_of(context.invocation_metadata())
        with span("waitingroom.join_line"):
            joined = await join_line(self.lines, self.ring, event_id, caller.account)
        return pb2.JoinLineResponse(
            epoch=joined.position.epoch,
            position=joined.position.position,
            queue_token=joined.queue_token,
            state=pb2.PositionState.Value(f"POSITION_STATE_{joined.position.state}"),
            eta=None if joined.eta_seconds is None else _duration(joined.eta_seconds),
        )

    async def GetLine(self, request: pb2.GetLineRequest, context: Any) -> pb2.GetLineResponse:
        line = await self.shared.get_line(_event(request.event_id))
        return pb2.GetLineResponse(
            epoch=line.epoch,
            admitted_through=line.admitted_through,
            tail=line.tail,
            rate_per_second=line.rate_per_second,
            as_of=_timestamp(line.as_of),
            state=pb2.LineState.Value(f"LINE_STATE_{state_of(line)}"),
        )

    async def EnterEvent(self, request: pb2.EnterEventRequest, context: Any) -> pb2.EnterEventResponse:
        event_id, caller = _event(request.event_id), caller_of(context.invocation_metadata())
        with span("waitingroom.enter_event"):
            admission = await self.admissions.enter_event(event_id, caller)
        return pb2.EnterEventResponse(
            admission_token=admission.token,
            lease_expire_time=_timestamp(admission.lease.expires),
            max_stay_time=_timestamp(admission.lease.max_stay),
            heartbeat_interval=_duration(self.terms.heartbeat_seconds),
        )

    async def Heartbeat(self, request: pb2.HeartbeatRequest, context: Any) -> pb2.HeartbeatResponse:
        event_id, caller = _event(request.event_id), caller_of(context.invocation_metadata())
        with span("waitingroom.heartbeat"):
            admission = await self.admissions.heartbeat(event_id, caller)
        expires = _timestamp(admission.lease.expires)
        return pb2.HeartbeatResponse(admission_token=admission.token, lease_expire_time=expires)

    async def LeaveEvent(self, request: pb2.LeaveEventRequest, context: Any) -> pb2.LeaveEventResponse:
        event_id, caller = _event(request.event_id), caller_of(context.invocation_metadata())
        with span("waitingroom.leave_event"):
            await self.admissions.leave_event(event_id, caller)
        return pb2.LeaveEventResponse()


class WaitingRoomInternalServicer(pb2_grpc.WaitingRoomInternalServiceServicer):
    """What other services say."""

    def __init__(self, lines: LineStore) -> None:
        self.lines = lines

    async def PutLinePolicy(self, request: pb2.PutLinePolicyRequest, context: Any) -> pb2.PutLinePolicyResponse:
        start = _milliseconds(request.sale_start_time) if request.HasField("sale_start_time") else 0
        end = _milliseconds(request.sale_end_time) if request.HasField("sale_end_time") else 0
        policy = Policy(request.version, request.line, request.capacity, start, end)
        with span("waitingroom.put_line_policy"):
            await put_line_policy(self.lines, _event(request.event_id), policy)
        return pb2.PutLinePolicyResponse()

    async def ReportSales(self, request: pb2.ReportSalesRequest, context: Any) -> pb2.ReportSalesResponse:
        report = [
            Sales(_event(event.event_id), event.commits, event.conflicts, tuple(event.finished_accounts))
            for event in request.events
        ]
        with span("waitingroom.report_sales"):
            await report_sales(self.lines, report)
        return pb2.ReportSalesResponse()


def _event(event_id: str) -> str:
    """Only what could be an event's id reaches the store: a key's hash tag must not be a stranger's to choose."""
    if parse_id("evt", event_id) is None:
        raise EventNotFound
    return event_id


def _timestamp(milliseconds: int) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromMilliseconds(milliseconds)
    return timestamp


def _milliseconds(timestamp: Timestamp) -> int:
    return timestamp.ToMilliseconds()


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration
