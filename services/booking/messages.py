"""Rows to messages and back."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.invariant.v1 import invariant_pb2
from rowlock.money.v1.money_pb2 import Money

from services.booking.rows import (
    EventOrder,
    Finding,
    Hold,
    Inventory,
    Order,
    PricedSeat,
    Sale,
    SeatCounts,
    Ticket,
    Tier,
    id_text,
)


def hold_message(hold: Hold) -> pb.Hold:
    """For its owner."""
    return pb.Hold(
        hold_id=id_text("hld", hold.shard, hold.hold),
        event_id=id_text("evt", hold.shard, hold.event),
        state=pb.HoldState.Value(f"HOLD_STATE_{hold.state}"),
        expires_at=_timestamp(hold.expires_at),
        seats=_seats(hold.seats, hold.currency),
        total=Money(currency_code=hold.currency, amount_minor=hold.total),
        fees=Money(currency_code=hold.currency, amount_minor=hold.fees),
        order_id=id_text("ord", hold.shard, hold.order) if hold.order else "",
    )


def order_message(order: Order) -> pb.Order:
    """For its owner."""
    return pb.Order(
        order_id=id_text("ord", order.shard, order.order),
        event_id=id_text("evt", order.shard, order.event),
        hold_id=id_text("hld", order.shard, order.hold),
        state=order_state(order.state),
        payment_state=pb.PaymentState.Value(f"PAYMENT_STATE_{order.payment_state}"),
        tickets_state=pb.TicketsState.Value(f"TICKETS_STATE_{order.tickets_state}"),
        seats=_seats(order.seats, order.currency),
        total=Money(currency_code=order.currency, amount_minor=order.total),
        fees=Money(currency_code=order.currency, amount_minor=order.fees),
        create_time=_timestamp(order.create_time),
        failure_reason=order.failure_reason,
    )


def order_state(state: str) -> pb.OrderState.ValueType:
    """The enum's value."""
    return pb.OrderState.Value(f"ORDER_STATE_{state}")


def event_order_message(order: EventOrder) -> pb.EventOrder:
    """For an operator."""
    return pb.EventOrder(
        order_id=id_text("ord", order.shard, order.order),
        account=order.account,
        state=order_state(order.state),
        payment_state=pb.PaymentState.Value(f"PAYMENT_STATE_{order.payment_state}"),
        seat_ids=order.seats,
        total=Money(currency_code=order.currency, amount_minor=order.total),
        ticket_count=order.ticket_count,
    )


def ticket_message(ticket: Ticket) -> pb.Ticket:
    """For its owner. The barcode is the ticket's id."""
    ticket_id = id_text("tkt", ticket.shard, ticket.ticket)
    return pb.Ticket(
        ticket_id=ticket_id,
        order_id=id_text("ord", ticket.shard, ticket.order),
        event_id=id_text("evt", ticket.shard, ticket.event),
        seat=_seats([ticket.seat], ticket.currency)[0],
        state=pb.TicketState.Value(f"TICKET_STATE_{ticket.state}"),
        barcode=ticket_id,
    )


def counts_message(counts: SeatCounts) -> pb.CountSeatsResponse:
    """For an operator."""
    return pb.CountSeatsResponse(
        available=counts.available,
        held=counts.held,
        pending_payment=counts.pending_payment,
        sold=counts.sold,
        blocked=counts.blocked,
    )


def invariant_message(finding: Finding) -> invariant_pb2.Invariant:
    """For an operator."""
    return invariant_pb2.Invariant(
        name=finding.name,
        description=finding.description,
        violations=finding.violations,
        examples=finding.examples,
    )


def inventory_of(request: pb.PutInventoryRequest) -> Inventory:
    """An event as catalog hands it over; not yet checked."""
    tiers = tuple(
        Tier(t.tier, t.name, _one_currency(t), t.price.amount_minor, t.fee.amount_minor) for t in request.tiers
    )
    return Inventory(
        version=request.version,
        name=request.name,
        sale=Sale(_datetime(request.sale_start_time), _datetime(request.sale_end_time), request.tickets_per_account),
        hold_duration=timedelta(seconds=request.hold_seconds),
        currency=tiers[0].currency if tiers else "",
        tiers=tiers,
        seats=tuple(seat.seat_id for seat in request.seats),
        seat_tiers=tuple(seat.tier for seat in request.seats),
        sections=tuple(seat.section for seat in request.seats),
        row_names=tuple(seat.row for seat in request.seats),
        numbers=tuple(seat.number for seat in request.seats),
    )


def _one_currency(tier: pb.InventoryTier) -> str:
    """Of price and fee; neither's when they differ, which the rule refuses. A fee of nothing may leave it out."""
    fee = tier.fee.currency_code or tier.price.currency_code
    return tier.price.currency_code if fee == tier.price.currency_code else ""


def _seats(seats: Iterable[PricedSeat], currency: str) -> list[pb.HeldSeat]:
    return [
        pb.HeldSeat(
            seat_id=seat.seat,
            section=seat.section,
            row=seat.row,
            number=seat.number,
            price=Money(currency_code=currency, amount_minor=seat.price),
        )
        for seat in seats
    ]


def _timestamp(time: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(time)
    return timestamp


def _datetime(timestamp: Timestamp) -> datetime:
    return timestamp.ToDatetime(tzinfo=UTC)
