"""What operators ask of outboxes, as calls: message in, what `operators.py` does, message out."""

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from rowlock.outbox.v1 import outbox_pb2 as pb
from rowlock.outbox.v1 import outbox_pb2_grpc

from chassis.outbox.operators import Entry, Outboxes


def outbox_service(
    outboxes: Outboxes, aggregate_id: Callable[[Entry], str] = lambda entry: entry.aggregate_id
) -> tuple[ServiceDescriptor, Callable[[Any, Any], None], "OutboxAdminServicer"]:
    """For `Server.add`. `aggregate_id` is as operators know it, when the row has another."""
    service = pb.DESCRIPTOR.services_by_name["OutboxAdminService"]
    register = outbox_pb2_grpc.add_OutboxAdminServiceServicer_to_server
    return service, register, OutboxAdminServicer(outboxes, aggregate_id)


class OutboxAdminServicer(outbox_pb2_grpc.OutboxAdminServiceServicer):
    """One service's outboxes, for operators."""

    def __init__(self, outboxes: Outboxes, aggregate_id: Callable[[Entry], str]) -> None:
        self.outboxes, self.aggregate_id = outboxes, aggregate_id

    async def ListOutbox(self, request: pb.ListOutboxRequest, context: Any) -> pb.ListOutboxResponse:
        entries, token = await self.outboxes.list_outbox(
            parked=request.parked, page_size=request.page_size, page_token=request.page_token
        )
        return pb.ListOutboxResponse(messages=map(self._message, entries), next_page_token=token)

    async def RetryMessage(self, request: pb.RetryMessageRequest, context: Any) -> pb.RetryMessageResponse:
        await self.outboxes.retry_message(request.message_id)
        return pb.RetryMessageResponse()

    async def DropMessage(self, request: pb.DropMessageRequest, context: Any) -> pb.DropMessageResponse:
        await self.outboxes.drop_message(request.message_id)
        return pb.DropMessageResponse()

    def _message(self, entry: Entry) -> pb.OutboxMessage:
        message = pb.OutboxMessage(
            message_id=entry.message_id,
            sink=entry.sink,
            aggregate_id=self.aggregate_id(entry),
            kind=entry.kind,
            refusals=entry.refusals,
            last_refusal=entry.last_refusal,
        )
        message.create_time.FromDatetime(entry.created_time)
        if entry.parked_time:
            message.park_time.FromDatetime(entry.parked_time)
        return message
