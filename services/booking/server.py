"""The RPCs: message in, rule, message out."""

from datetime import UTC
from functools import partial
from typing import Any

import grpc
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.booking.v1 import booking_pb2_grpc

from chassis.errors import InvalidArgument
from chassis.invariants import invariant_service
from chassis.outbox import Outboxes
from chassis.outbox.server import outbox_service
from chassis.server import Server
from chassis.tokens import Caller, caller_of, idempotency_key_of
from services.booking.areas import Areas
from services.booking.best_seats import BestSeats
from services.booking.holds import Holds
from services.booking.inventory import Inventories
from services.booking.messages import (
    aggregate_text,
    ask_of,
    counts_message,
    event_order_message,
    held_message,
    hold_message,
    inventory_of,
    order_message,
    order_state,
    ticket_message,
)
from services.booking.monitor import check_invariants
from services.booking.orders import Orders
from services.booking.rows import Hold
from services.booking.store.shards import Shards
from services.booking.store.stream import SINK as ORDERS_SINK
from services.booking.tickets import Tickets

OUTCOMES = {
    pb.PAYMENT_OUTCOME_SUCCEEDED: "SUCCEEDED",
    pb.PAYMENT_OUTCOME_FAILED: "FAILED",
    pb.PAYMENT_OUTCOME_UNKNOWN: "UNKNOWN",
}
LONGEST_REASON = 64  # letters of a stable word

Context = grpc.aio.ServicerContext[Any, Any]


class BookingServicer(booking_pb2_grpc.BookingServiceServicer):
    """What an account does with its own holds and orders."""

    def __init__(self, *, holds: Holds, best: BestSeats, areas: Areas, orders: Orders, tickets: Tickets) -> None:
        self.holds, self.best, self.areas, self.orders, self.tickets = holds, best, areas, orders, tickets

    async def HoldSeats(self, request: pb.HoldSeatsRequest, context: Context) -> pb.HoldSeatsResponse:
        metadata = context.invocation_metadata() or ()  # a new tuple each time
        caller = caller_of(metadata)
        caller.require_event(request.event_id)
        return held_message(await self._hold(request, account=caller.account, key=idempotency_key_of(metadata)))

    async def _hold(self, request: pb.HoldSeatsRequest, *, account: str, key: str) -> Hold:
        ways = (bool(request.seat_ids), request.HasField("best_available"), request.HasField("general_admission"))
        if sum(ways) != 1:
            raise InvalidArgument("Say which seats, or how many of the best, or of an area: exactly one of these.")
        if request.HasField("best_available"):
            return await self.best.hold(
                account=account, event_id=request.event_id, ask=ask_of(request.best_available), key=key
            )
        if request.HasField("general_admission"):
            units = request.general_admission
            return await self.areas.hold(
                account=account, event_id=request.event_id, area=units.area_id, quantity=units.quantity, key=key
            )
        return await self.holds.pick_seats(
            account=account, event_id=request.event_id, seat_ids=request.seat_ids, key=key
        )

    async def GetHold(self, request: pb.GetHoldRequest, context: Context) -> pb.GetHoldResponse:
        hold = await self.holds.get_hold(account=_caller(context).account, hold_id=request.hold_id)
        return pb.GetHoldResponse(hold=hold_message(hold))

    async def ReleaseHold(self, request: pb.ReleaseHoldRequest, context: Context) -> pb.ReleaseHoldResponse:
        hold = await self.holds.release_hold(account=_caller(context).account, hold_id=request.hold_id)
        return pb.ReleaseHoldResponse(hold=hold_message(hold))

    async def CreateOrder(self, request: pb.CreateOrderRequest, context: Context) -> pb.CreateOrderResponse:
        metadata = context.invocation_metadata() or ()
        caller = caller_of(metadata)
        order_id = await self.orders.create_order(
            account=caller.account,
            email=caller.email,
            hold_id=request.hold_id,
            payment_token=request.payment_token,
            key=idempotency_key_of(metadata),
        )
        return pb.CreateOrderResponse(order_id=order_id)

    async def GetOrder(self, request: pb.GetOrderRequest, context: Context) -> pb.GetOrderResponse:
        order = await self.orders.get_order(account=_caller(context).account, order_id=request.order_id)
        return pb.GetOrderResponse(order=order_message(order))

    async def ListOrders(self, request: pb.ListOrdersRequest, context: Context) -> pb.ListOrdersResponse:
        orders, token = await self.orders.list_orders(
            account=_caller(context).account, page_size=request.page_size, page_token=request.page_token
        )
        return pb.ListOrdersResponse(orders=map(order_message, orders), next_page_token=token)

    async def CancelOrder(self, request: pb.CancelOrderRequest, context: Context) -> pb.CancelOrderResponse:
        order = await self.orders.cancel_order(account=_caller(context).account, order_id=request.order_id)
        return pb.CancelOrderResponse(order=order_message(order))

    async def ListTickets(self, request: pb.ListTicketsRequest, context: Context) -> pb.ListTicketsResponse:
        tickets = await self.tickets.list_tickets(account=_caller(context).account, order_id=request.order_id)
        return pb.ListTicketsResponse(tickets=map(ticket_message, tickets))


class BookingInternalServicer(booking_pb2_grpc.BookingInternalServiceServicer):
    """What other services tell booking."""

    def __init__(self, *, inventories: Inventories, orders: Orders) -> None:
        self.inventories, self.orders = inventories, orders

    async def PutInventory(self, request: pb.PutInventoryRequest, context: Context) -> pb.PutInventoryResponse:
        count = await self.inventories.put_inventory(request.event_id, inventory_of(request))
        return pb.PutInventoryResponse(seat_count=count)

    async def RecordPaymentOutcome(
        self, request: pb.RecordPaymentOutcomeRequest, context: Context
    ) -> pb.RecordPaymentOutcomeResponse:
        if request.outcome not in OUTCOMES:
            raise InvalidArgument("An outcome is SUCCEEDED, FAILED or UNKNOWN.")
        state = await self.orders.record_payment_outcome(
            order_id=request.order_id,
            outcome=OUTCOMES[request.outcome],
            reason=request.failure_reason[:LONGEST_REASON] or "UNSPECIFIED",
        )
        return pb.RecordPaymentOutcomeResponse(state=order_state(state))


class BookingAdminServicer(booking_pb2_grpc.BookingAdminServiceServicer):
    """For operators and the on-sale simulator."""

    def __init__(self, *, shards: Shards, inventories: Inventories, areas: Areas, orders: Orders) -> None:
        self.inventories, self.areas, self.orders = inventories, areas, orders
        self.outboxes = Outboxes({name: shard.pool for name, shard in shards.items()})

    async def ListEventOrders(self, request: pb.ListEventOrdersRequest, context: Context) -> pb.ListEventOrdersResponse:
        orders, token = await self.orders.list_event_orders(
            event_id=request.event_id, page_size=request.page_size, page_token=request.page_token
        )
        return pb.ListEventOrdersResponse(orders=map(event_order_message, orders), next_page_token=token)

    async def CountSeats(self, request: pb.CountSeatsRequest, context: Context) -> pb.CountSeatsResponse:
        seats = await self.inventories.count_seats(request.event_id)
        return counts_message(seats, await self.areas.count_areas(request.event_id))

    async def RepublishOrders(self, request: pb.RepublishOrdersRequest, context: Context) -> pb.RepublishOrdersResponse:
        count = await self.outboxes.republish(ORDERS_SINK, request.start_time.ToDatetime(tzinfo=UTC))
        return pb.RepublishOrdersResponse(message_count=count)


def add_servicers(
    server: Server,
    *,
    shards: Shards,
    holds: Holds,
    best: BestSeats,
    areas: Areas,
    orders: Orders,
    tickets: Tickets,
    inventories: Inventories,
) -> None:
    """What accounts, other services and operators call."""
    services = pb.DESCRIPTOR.services_by_name
    admin = BookingAdminServicer(shards=shards, inventories=inventories, areas=areas, orders=orders)
    server.add(
        services["BookingService"],
        booking_pb2_grpc.add_BookingServiceServicer_to_server,
        BookingServicer(holds=holds, best=best, areas=areas, orders=orders, tickets=tickets),
    )
    server.add(
        services["BookingInternalService"],
        booking_pb2_grpc.add_BookingInternalServiceServicer_to_server,
        BookingInternalServicer(inventories=inventories, orders=orders),
    )
    server.add(services["BookingAdminService"], booking_pb2_grpc.add_BookingAdminServiceServicer_to_server, admin)
    server.add(*invariant_service(partial(check_invariants, shards)))
    server.add(*outbox_service(admin.outboxes, aggregate_text))


def _caller(context: Context) -> Caller:
    return caller_of(context.invocation_metadata() or ())
