"""Orders: a hold becomes a purchase, and a payment's outcome decides it."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import structlog
from prometheus_client import Counter

from chassis.errors import InvalidArgument
from chassis.telemetry import span
from services.booking.errors import (
    CancellationClosed,
    EventNotFound,
    HoldExpired,
    HoldNotFound,
    IdempotencyKeyReused,
    NotCancellable,
    OrderExists,
    OrderNotFound,
    OutcomeConflict,
)
from services.booking.gather import Gatherer
from services.booking.requests import (
    CARD_NUMBER,
    PRINTABLE,
    check_account,
    check_email,
    check_key,
    check_page_size,
    check_page_token,
    fingerprint,
)
from services.booking.rows import EventOrder, Order, OrderRequest, OrderVerdict
from services.booking.sales import Sales
from services.booking.store import orders as store
from services.booking.store.shards import Shard, Shards

PAGE, LARGEST_PAGE = 20, 100  # orders of a buyer
LARGEST_EVENT_PAGE = 1000  # orders of an event, for operators: about 200 KB
RERUNS_AT_ONCE = 4  # orders that are replays, or met a lock
FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)

ORDERS = Counter("booking_create_order_total", "Requests for an order", ["verdict"])
OUTCOMES = Counter("booking_payment_outcomes_total", "Outcomes of charges, as told", ["outcome", "verdict"])

CANCELLATIONS = Counter("booking_cancel_order_total", "Requests to cancel an order", ["verdict"])

CLOSED = {
    "CLOSED": "It is too late to cancel this order.",
    "USED": "A ticket of this order has been used.",
}

log = structlog.get_logger()


class Orders:
    """What becomes of a hold. Once that is committed, `created` is called with the shard's name when there is a charge
    to ask for, and `confirmed` when there are tickets to issue."""

    def __init__(
        self,
        *,
        shards: Shards,
        sales: Sales,
        grace: timedelta,
        created: Callable[[str], None],
        confirmed: Callable[[str], None],
    ) -> None:
        self.shards, self.sales, self.grace = shards, sales, grace
        self.created, self.confirmed = created, confirmed
        self.gatherers = {name: _gatherer(store.OrderCalls(shard, grace=grace)) for name, shard in shards.items()}

    async def create_order(self, *, account: str, email: str, hold_id: str, payment_token: str, key: str) -> str:
        """The id of the order, new or replayed."""
        located = self.shards.locate_uuid("hld", hold_id)
        if located is None:
            raise HoldNotFound()
        shard, hold = located
        check_account(account)
        check_email(email)
        check_key(key)
        if not PRINTABLE.fullmatch(payment_token):
            raise InvalidArgument("A payment token is 1 to 255 printable characters.")
        if CARD_NUMBER.fullmatch(payment_token):
            raise InvalidArgument("A payment token is the processor's name for a way to pay, never a card's number.")
        request = OrderRequest(account, hold, key, fingerprint(hold_id, payment_token), email, payment_token)
        verdict = await self.gatherers[shard.name].ask(request)
        ORDERS.labels(verdict.word).inc()
        if verdict.event is not None:
            self._tell(shard, verdict.word, shard.id_of("evt", verdict.event), account)
        return _order_id(shard, verdict.word, verdict.order)

    async def close(self) -> None:
        """When no call comes any more; those under way end first."""
        for gatherer in self.gatherers.values():
            await gatherer.close()

    async def get_order(self, *, account: str, order_id: str) -> Order:
        """The order as it is now. Refuses what is not the account's as if it did not exist."""
        shard, number = self._locate(order_id)
        order = await store.get_order(shard, number)
        if order is None or order.account != account:
            raise OrderNotFound()
        return order

    async def list_orders(self, *, account: str, page_size: int, page_token: str) -> tuple[list[Order], str]:
        """The account's orders over all shards, newest first, and the token of the next page.

        Ids are made in order of time, so those of several shards can be merged.
        """
        size = check_page_size(page_size, default=PAGE, most=LARGEST_PAGE)
        before = check_page_token(self.shards.locate_uuid("ord", page_token))[1] if page_token else LAST
        pages = await asyncio.gather(
            *(store.list_orders(shard, account, before=before, most=size + 1) for shard in self.shards.values())
        )
        orders = list(heapq.merge(*pages, key=lambda order: order.order, reverse=True))
        token = self.shards[orders[size - 1].shard].id_of("ord", orders[size - 1].order) if len(orders) > size else ""
        return orders[:size], token

    async def list_event_orders(
        self, *, event_id: str, page_size: int, page_token: str
    ) -> tuple[list[EventOrder], str]:
        """Every order of an event, by id, and the token of the next page."""
        located = self.shards.locate_event(event_id)
        if located is None:
            raise EventNotFound()
        shard, event = located
        size = check_page_size(page_size, default=LARGEST_EVENT_PAGE, most=LARGEST_EVENT_PAGE)
        after = check_page_token(self.shards.locate_uuid("ord", page_token))[1] if page_token else FIRST
        orders = await store.list_event_orders(shard, event, after=after, most=size + 1)
        token = shard.id_of("ord", orders[size - 1].order) if len(orders) > size else ""
        return orders[:size], token

    async def record_payment_outcome(self, *, order_id: str, outcome: str, reason: str) -> str:
        """The order's state after it. Refuses an outcome that another, recorded before, rules out."""
        shard, number = self._locate(order_id)
        with span("booking.record_payment_outcome"):
            verdict = await store.record_payment_outcome(
                shard, number, outcome=outcome, reason=reason, grace=self.grace
            )
        OUTCOMES.labels(outcome, verdict.word).inc()
        if verdict.word == "NO_ORDER":
            raise OrderNotFound()
        if verdict.word == "CONFLICT":
            log.error("outcome conflicts with the order", order=order_id, outcome=outcome, state=verdict.state)
            raise OutcomeConflict(verdict.state)
        if verdict.state == "CONFIRMED":
            self._tell_confirmed(shard, shard.id_of("evt", verdict.event), verdict.account)
        return verdict.state

    async def cancel_order(self, *, account: str, order_id: str) -> Order:
        """Ends the account's confirmed order; one that was cancelled before stays so."""
        shard, number = self._locate(order_id)
        with span("booking.cancel_order"):
            verdict = await store.cancel_order(shard, number, account=account)
        CANCELLATIONS.labels(verdict.word).inc()
        if verdict.word == "NO_ORDER":
            raise OrderNotFound()
        if verdict.word == "NOT_CONFIRMED":
            raise NotCancellable(verdict.state)
        if verdict.word in CLOSED:
            raise CancellationClosed(CLOSED[verdict.word])
        return await self.get_order(account=account, order_id=order_id)

    def _tell(self, shard: Shard, word: str, event_id: str, account: str) -> None:
        """Whoever is to hear of a new order."""
        if word in ("CREATED", "CONFIRMED"):
            self.sales.committed(event_id)
        if word == "CREATED":
            self.created(shard.name)
        elif word == "CONFIRMED":  # it costs nothing, so no outcome of a charge will tell
            self._tell_confirmed(shard, event_id, account)

    def _tell_confirmed(self, shard: Shard, event_id: str, account: str) -> None:
        self.sales.finished(event_id, account)
        self.confirmed(shard.name)

    def _locate(self, order_id: str) -> tuple[Shard, UUID]:
        located = self.shards.locate_uuid("ord", order_id)
        if located is None:
            raise OrderNotFound()
        return located


def _gatherer(calls: store.OrderCalls) -> Gatherer[OrderRequest, OrderVerdict]:
    """No two orders of a call share an account (and so a key) or a hold."""
    alone = [calls.alone] * RERUNS_AT_ONCE
    return Gatherer("create_order", calls.together, alone, lambda request: (request.account, request.hold))


def _order_id(shard: Shard, word: str, order: UUID | None) -> str:
    if word == "NO_HOLD":
        raise HoldNotFound()
    if word == "REUSED":
        raise IdempotencyKeyReused()
    if word == "EXPIRED" or order is None:
        raise HoldExpired()
    if word == "EXISTS":
        raise OrderExists(shard.id_of("ord", order))
    return shard.id_of("ord", order)
