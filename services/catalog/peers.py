"""Calls to booking and waitingroom, the only ones that catalog makes."""

from collections import Counter
from collections.abc import Awaitable
from datetime import datetime
from typing import TypeVar

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc
from rowlock.money.v1 import money_pb2
from rowlock.waitingroom.v1 import waitingroom_pb2, waitingroom_pb2_grpc

from chassis.errors import Unavailable, reason_of
from services.catalog.errors import PeerRefused
from services.catalog.ids import event_text
from services.catalog.rows import Event, LinePolicy, Plan, Tier
from services.catalog.sale_rules import cancel_end_time

T = TypeVar("T")

INVENTORY_SECONDS = 25.0  # 200,000 seats are 8 MB to send and one transaction to write
POLICY_SECONDS = 5.0
SELECTION_MODES = {True: booking_pb2.SELECTION_MODE_BEST_AVAILABLE, False: booking_pb2.SELECTION_MODE_ANY}
UNDECIDED = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class GrpcPeers:
    """The peers of publishing, by their internal services."""

    def __init__(self, *, booking: grpc.aio.Channel, waitingroom: grpc.aio.Channel) -> None:
        self.booking = booking_pb2_grpc.BookingInternalServiceStub(booking)
        self.waitingroom = waitingroom_pb2_grpc.WaitingRoomInternalServiceStub(waitingroom)

    async def put_inventory(self, event: Event, plan: Plan) -> None:
        """Booking takes a version once. Refuses with UNAVAILABLE or PEER_REFUSED."""
        await _ask("booking", self.booking.PutInventory(inventory_of(event, plan), timeout=INVENTORY_SECONDS))

    async def put_line_policy(self, policy: LinePolicy) -> None:
        """Waitingroom ignores an older version. Refuses with UNAVAILABLE or PEER_REFUSED."""
        request = waitingroom_pb2.PutLinePolicyRequest(
            event_id=event_text(policy.shard, policy.event_id),
            version=policy.version,
            line=policy.line,
            capacity=policy.line_capacity if policy.line else 0,
            sale_start_time=timestamp(policy.sale_start_time),
            sale_end_time=timestamp(policy.sale_end_time),
        )
        await _ask("waitingroom", self.waitingroom.PutLinePolicy(request, timeout=POLICY_SECONDS))


def inventory_of(event: Event, plan: Plan) -> booking_pb2.PutInventoryRequest:
    """All that booking needs to sell: it never asks catalog again."""
    cancel_end = cancel_end_time(event.rules, event.start_time)
    return booking_pb2.PutInventoryRequest(
        event_id=event_text(event.shard, event.event_id),
        version=event.version,
        name=event.name,
        sale_start_time=timestamp(event.sale_start_time),
        sale_end_time=timestamp(event.sale_end_time),
        tickets_per_account=event.rules.tickets_per_account,
        hold_seconds=event.rules.hold_seconds,
        onsale_hold_seconds=event.rules.onsale_hold_seconds,
        onsale_window_seconds=event.rules.onsale_window_seconds,
        selection_mode=SELECTION_MODES[event.rules.best_available_only],
        holds_per_account=event.rules.holds_per_account,
        resale=not event.rules.no_resale,
        cancel_end_time=timestamp(cancel_end) if cancel_end else None,
        tiers=[_tier(tier, event.currency_code) for tier in event.tiers],
        seats=_seats(plan),
        areas=[
            booking_pb2.InventoryArea(area_id=area.area_id, name=area.name, capacity=area.capacity, tier=area.tier)
            for area in event.areas
        ],
        focal_point=booking_pb2.FocalPoint(x=plan.focal_x, y=plan.focal_y),
    )


def timestamp(time: datetime) -> Timestamp:
    """From an aware time."""
    message = Timestamp()
    message.FromDatetime(time)
    return message


def _seats(plan: Plan) -> list[booking_pb2.InventorySeat]:
    """In the plan's order. A section's rows are counted, because they may share a name."""
    seats: list[booking_pb2.InventorySeat] = []
    rows_so_far: Counter[str] = Counter()
    for row in plan.rows:
        lists = zip(row.numbers, row.xs, row.ys, row.categories, row.accessible, row.companion, strict=True)
        seats += [
            booking_pb2.InventorySeat(
                seat_id=seat_id,
                section=row.section,
                row=row.row_name,
                row_index=rows_so_far[row.section],
                number=number,
                tier=tier,
                x=x,
                y=y,
                accessible=accessible,
                companion=companion,
            )
            for seat_id, (number, x, y, tier, accessible, companion) in enumerate(lists, row.first_seat_id)
        ]
        rows_so_far[row.section] += 1
    return seats


def _tier(tier: Tier, currency: str) -> booking_pb2.InventoryTier:
    return booking_pb2.InventoryTier(
        tier=tier.tier,
        name=tier.name,
        price=money_pb2.Money(currency_code=currency, amount_minor=tier.price_minor),
        fee=money_pb2.Money(currency_code=currency, amount_minor=tier.fee_minor),
    )


async def _ask(peer: str, call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        if error.code() in UNDECIDED:
            raise Unavailable(f"{peer} did not answer; nothing is shown yet. Publish again.", peer=peer) from error
        reason, _ = reason_of(error)
        raise PeerRefused(f"{peer} refused: {error.details()}", peer=peer, reason=reason) from error
