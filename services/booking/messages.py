"""Rows to messages and back."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.money.v1.money_pb2 import Money

from chassis.outbox import Entry
from services.booking.rows import (
    Area,
    AreaCounts,
    Ask,
    EventOrder,
    HeldArea,
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

HOLD_STATES = {name.removeprefix("HOLD_STATE_"): value for name, value in pb.HoldState.items()}
SELECTION_MODES = {
    pb.SELECTION_MODE_UNSPECIFIED: "ANY",
    pb.SELECTION_MODE_ANY: "ANY",
    pb.SELECTION_MODE_BEST_AVAILABLE: "BEST_AVAILABLE",
}


def ask_of(request: pb.BestAvailable) -> Ask:
    """What a buyer wants; not yet checked."""
    tier = request.tier if request.HasField("tier") else None
    return Ask(request.quantity, request.section, tier, request.accessible)


def hold_message(hold: Hold) -> pb.Hold:
    """For its owner."""
    message = pb.Hold(event_id=id_text("evt", hold.shard, hold.event))
    if hold.order:
        message.order_id = id_text("ord", hold.shard, hold.order)
    _fill(message, hold)
    return message


def held_message(hold: Hold) -> pb.HoldSeatsResponse:
    """For who has just asked for it."""
    message = pb.HoldSeatsResponse()
    _fill(message, hold)
    return message


def _fill(message: pb.Hold | pb.HoldSeatsResponse, hold: Hold) -> None:
    """What both say of a hold. In place: a message that is built of others copies each of them."""
    message.hold_id = id_text("hld", hold.shard, hold.hold)
    message.state = HOLD_STATES[hold.state]
    message.expires_at.seconds = int(hold.expires_at.timestamp())
    message.expires_at.nanos = hold.expires_at.microsecond * 1000
    for seat in hold.seats:
        held = message.seats.add(seat_id=seat.seat, section=seat.section, row=seat.row, number=seat.number)
        _fill_money(held.price, hold.currency, seat.price)
    _fill_money(message.total, hold.currency, hold.total)
    _fill_money(message.fees, hold.currency, hold.fees)
    if hold.area:
        message.area.CopyFrom(_area(hold.area, hold.currency))


def _fill_money(money: Money, currency: str, amount: int) -> None:
    money.currency_code = currency
    money.amount_minor = amount


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
        area=_area(order.area, order.currency) if order.area else None,
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
        quantity=order.quantity,
    )


def ticket_message(ticket: Ticket) -> pb.Ticket:
    """For its owner. The barcode is the ticket's id."""
    ticket_id = id_text("tkt", ticket.shard, ticket.ticket)
    return pb.Ticket(
        ticket_id=ticket_id,
        order_id=id_text("ord", ticket.shard, ticket.order),
        event_id=id_text("evt", ticket.shard, ticket.event),
        seat=_seats([ticket.seat], ticket.currency)[0] if ticket.seat else None,
        state=pb.TicketState.Value(f"TICKET_STATE_{ticket.state}"),
        barcode=ticket_id,
        area=_area(ticket.area, ticket.currency) if ticket.area else None,
    )


def counts_message(counts: SeatCounts, areas: Iterable[AreaCounts]) -> pb.CountSeatsResponse:
    """For an operator."""
    return pb.CountSeatsResponse(
        available=counts.available,
        held=counts.held,
        pending_payment=counts.pending_payment,
        sold=counts.sold,
        blocked=counts.blocked,
        areas=[
            pb.AreaCounts(
                area_id=area.area,
                available=area.available,
                held=area.held,
                pending_payment=area.pending_payment,
                sold=area.sold,
                blocked=area.blocked,
            )
            for area in areas
        ],
    )


def aggregate_text(entry: Entry) -> str:
    """Every aggregate of the outbox is an order."""
    return id_text("ord", entry.database, UUID(entry.aggregate_id))


def inventory_of(request: pb.PutInventoryRequest) -> Inventory:
    """An event as catalog hands it over; not yet checked."""
    tiers = tuple(
        Tier(t.tier, t.name, _one_currency(t), t.price.amount_minor, t.fee.amount_minor) for t in request.tiers
    )
    seats = request.seats
    section_indexes, places = _places([(seat.section, seat.row_index) for seat in seats])
    return Inventory(
        version=request.version,
        name=request.name,
        sale=Sale(_datetime(request.sale_start_time), _datetime(request.sale_end_time), request.tickets_per_account),
        hold_duration=timedelta(seconds=request.hold_seconds),
        onsale_hold_duration=timedelta(seconds=request.onsale_hold_seconds or request.hold_seconds),
        onsale_window=timedelta(seconds=request.onsale_window_seconds),
        selection_mode=SELECTION_MODES.get(request.selection_mode, ""),
        holds_per_account=request.holds_per_account or None,
        resale=request.resale,
        cancel_end=_datetime(request.cancel_end_time) if request.HasField("cancel_end_time") else None,
        focal=(request.focal_point.x, request.focal_point.y) if request.HasField("focal_point") else None,
        currency=tiers[0].currency if tiers else "",
        tiers=tiers,
        areas=tuple(Area(area.area_id, area.name, area.capacity, area.tier) for area in request.areas),
        seats=tuple(seat.seat_id for seat in seats),
        seat_tiers=tuple(seat.tier for seat in seats),
        sections=tuple(seat.section for seat in seats),
        row_names=tuple(seat.row for seat in seats),
        numbers=tuple(seat.number for seat in seats),
        section_indexes=section_indexes,
        row_indexes=tuple(seat.row_index for seat in seats),
        places=places,
        x=tuple(seat.x for seat in seats),
        y=tuple(seat.y for seat in seats),
        accessible=tuple(seat.accessible for seat in seats),
        companion=tuple(seat.companion for seat in seats),
    )


def _places(rows: list[tuple[str, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """From each seat's section and row, in the plan's order: its section's index, and its place in its row."""
    sections = {section: index for index, section in enumerate(dict.fromkeys(section for section, _ in rows))}
    so_far: Counter[tuple[str, int]] = Counter()
    places: list[int] = []
    for row in rows:
        places.append(so_far[row])
        so_far[row] += 1
    return tuple(sections[section] for section, _ in rows), tuple(places)


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


def _area(area: HeldArea, currency: str) -> pb.HeldArea:
    price = Money(currency_code=currency, amount_minor=area.price)
    return pb.HeldArea(area_id=area.area, name=area.name, quantity=area.quantity, price=price)


def _timestamp(time: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(time)
    return timestamp


def _datetime(timestamp: Timestamp) -> datetime:
    return timestamp.ToDatetime(tzinfo=UTC)
