"""After the sale: what fans were told, what the services say, and what the processor's ledger says must agree."""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc
from rowlock.invariant.v1 import invariant_pb2, invariant_pb2_grpc

from chassis.client import open_channel
from onsale.fans import UNIT, Seen
from onsale.settings import Addresses
from onsale.venue import Sale

SETTLE_SECONDS = 60.0  # for charges under way and tickets to come; the slow bank takes three
PENDING = booking_pb2.ORDER_STATE_PENDING_PAYMENT
CONFIRMED = booking_pb2.ORDER_STATE_CONFIRMED
PAGE = 1000

STATES = ("available", "held", "pending_payment", "sold", "blocked")

SERVICES = ("catalog", "booking", "payments", "waitingroom", "seatfeed")


@dataclass
class Verdict:
    """Empty lists everywhere are a good sale."""

    double_sold: list[str] = field(default_factory=list)
    double_charged: list[str] = field(default_factory=list)
    lost_orders: list[str] = field(default_factory=list)
    money_wrong: list[str] = field(default_factory=list)
    invariants: list[tuple[str, str, int, str]] = field(default_factory=list)  # service, name, violations, words
    answers_wrong: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    sold: int = 0
    orders: Counter[str] = field(default_factory=Counter)
    seats: dict[str, int] = field(default_factory=dict)
    areas: dict[int, dict[str, int]] = field(default_factory=dict)  # area id → units by state

    def broken(self) -> list[str]:
        """Every broken promise, a line each."""
        lines = [f"{service}: {words} ({n})" for service, _, n, words in self.invariants if n]
        for kind in ("double_sold", "double_charged", "lost_orders", "money_wrong", "answers_wrong", "unfinished"):
            lines += [f"{kind.replace('_', ' ')}: {each}" for each in getattr(self, kind)]
        return lines


async def judge(addresses: Addresses, sale: Sale, seen: Seen) -> Verdict:
    """Waits until nothing is pending, then compares."""
    verdict = Verdict(answers_wrong=list(seen.broken))
    async with open_channel(addresses.booking) as channel:
        admin = booking_pb2_grpc.BookingAdminServiceStub(channel)
        orders = await _settled_orders(admin, sale, verdict)
        counted = await admin.CountSeats(booking_pb2.CountSeatsRequest(event_id=sale.event_id))
    verdict.seats = {name: getattr(counted, name) for name in STATES}
    verdict.areas = {area.area_id: {name: getattr(area, name) for name in STATES} for area in counted.areas}
    check_areas(orders, sale, verdict)
    verdict.sold = counted.sold + sum(area.sold for area in counted.areas)
    verdict.orders = Counter(booking_pb2.OrderState.Name(order.state) for order in orders)
    check_seats(orders, sale, verdict)
    check_fans(orders, seen, verdict)
    check_money(orders, await read_ledger(addresses.processor), verdict)
    verdict.invariants = await check_invariants(addresses)
    return verdict


async def _settled_orders(admin: Any, sale: Sale, verdict: Verdict) -> list[booking_pb2.EventOrder]:
    deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while True:
        orders = await list_orders(admin, sale.event_id)
        waiting = [
            order.order_id
            for order in orders
            if order.state == PENDING or (order.state == CONFIRMED and order.ticket_count < order.quantity)
        ]
        if not waiting:
            return orders
        if asyncio.get_running_loop().time() > deadline:
            verdict.unfinished += [f"{order} is still pending or has no tickets" for order in waiting]
            return orders
        await asyncio.sleep(0.5)


async def list_orders(admin: Any, event_id: str) -> list[booking_pb2.EventOrder]:
    """All orders of an event."""
    orders: list[booking_pb2.EventOrder] = []
    token = ""
    while True:
        page = await admin.ListEventOrders(
            booking_pb2.ListEventOrdersRequest(event_id=event_id, page_size=PAGE, page_token=token), timeout=30
        )
        orders += page.orders
        token = page.next_page_token
        if not token:
            return orders


def check_seats(orders: list[booking_pb2.EventOrder], sale: Sale, verdict: Verdict) -> None:
    owners: defaultdict[int, list[str]] = defaultdict(list)
    for order in orders:
        if order.state in (PENDING, CONFIRMED):
            for seat in order.seat_ids:
                owners[seat].append(order.order_id)
    verdict.double_sold = [f"seat {seat}: {', '.join(ids)}" for seat, ids in owners.items() if len(ids) > 1]
    if sum(verdict.seats.values()) != sale.seat_count:
        verdict.answers_wrong.append(f"seats of all states are {verdict.seats}, not {sale.seat_count} together")
    confirmed = sum(len(order.seat_ids) for order in orders if order.state == CONFIRMED)
    if confirmed != verdict.seats["sold"]:
        verdict.answers_wrong.append(f"{verdict.seats['sold']} seats are sold, confirmed orders have {confirmed}")


def check_areas(orders: list[booking_pb2.EventOrder], sale: Sale, verdict: Verdict) -> None:
    """No unit is lost or made: states add up to the capacity, and orders of units to what is sold and pending."""
    for area, units in sale.areas.items():
        found = verdict.areas.get(area, {})
        if sum(found.values()) != units:
            verdict.answers_wrong.append(f"units of all states of area {area} are {found}, not {units} together")
    for state, name in ((PENDING, "pending_payment"), (CONFIRMED, "sold")):
        counted = sum(found[name] for found in verdict.areas.values())
        ordered = sum(order.quantity for order in orders if order.state == state and not order.seat_ids)
        if counted != ordered:
            verdict.answers_wrong.append(f"{counted} units are {name.replace('_', ' ')}, orders have {ordered}")


def check_fans(orders: list[booking_pb2.EventOrder], seen: Seen, verdict: Verdict) -> None:
    known = {order.order_id: order for order in orders}
    for order_id, state in seen.orders.items():
        order = known.get(order_id)
        if order is None:
            verdict.lost_orders.append(f"{order_id} was accepted and does not exist")
        elif state == "ORDER_STATE_CONFIRMED" and order.state != CONFIRMED:
            verdict.lost_orders.append(f"{order_id} was confirmed to its buyer and is not")
        elif state == "ORDER_STATE_CONFIRMED" and sorted(seen.tickets.get(order_id, [])) != _places(order):
            verdict.lost_orders.append(f"{order_id} is confirmed and its buyer has no tickets for it")


def _places(order: booking_pb2.EventOrder) -> list[int]:
    """Of its tickets: seat ids, or UNIT for each unit."""
    return sorted(order.seat_ids) or [UNIT] * order.quantity


def check_money(orders: list[booking_pb2.EventOrder], ledger: dict[str, list[int]], verdict: Verdict) -> None:
    for order in orders:
        kept = ledger.get(order.order_id, [])
        if len(kept) > 1:
            verdict.double_charged.append(f"{order.order_id}: {len(kept)} captures")
        paid = order.state == CONFIRMED and order.total.amount_minor > 0  # what costs nothing is never charged
        wanted = [order.total.amount_minor] if paid else []
        if order.state != PENDING and kept != wanted and len(kept) < 2:
            state = booking_pb2.OrderState.Name(order.state)
            verdict.money_wrong.append(f"{order.order_id} is {state}: captured {kept}, expected {wanted}")


async def read_ledger(processor: str) -> dict[str, list[int]]:
    """Captures not refunded, by order."""
    captures: defaultdict[str, list[int]] = defaultdict(list)
    async with aiohttp.ClientSession() as session:
        after = 0
        while True:
            async with session.get(f"{processor}/sandbox/ledger", params={"after": after}) as response:
                response.raise_for_status()
                page = await response.json()
            for row in page["rows"]:
                if row["captured"] - row["refunded"] > 0:
                    captures[row["orderId"]].append(row["captured"] - row["refunded"])
            after = page.get("next", 0)
            if not after:
                return captures


async def check_invariants(addresses: Addresses) -> list[tuple[str, str, int, str]]:
    """Every service's own checks."""
    found = []
    for service in SERVICES:
        async with open_channel(getattr(addresses, service)) as channel:
            admin = invariant_pb2_grpc.InvariantAdminServiceStub(channel)
            answer = await admin.CheckInvariants(invariant_pb2.CheckInvariantsRequest(), timeout=60)
        found += [(service, each.name, each.violations, each.description) for each in answer.invariants]
    return found
