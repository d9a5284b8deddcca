"""A booking service on a real server and a real database, with an event on sale, for tests to buy from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.invariant.v1.invariant_pb2 import CheckInvariantsRequest, Invariant
from rowlock.money.v1.money_pb2 import Money

from chassis.errors import reason_of
from chassis.ids import format_id, parse_id
from chassis.outbox import Message
from chassis.tokens import ACCOUNT_HEADER, EMAIL_HEADER, EVENT_HEADER, IDEMPOTENCY_HEADER

EVENT = format_id("evt", "s1", 7)
PRICE, FEE = 5000, 250


def timestamp(time: datetime) -> Timestamp:
    """As messages carry it."""
    message = Timestamp()
    message.FromDatetime(time)
    return message


def inventory(event_id: str = EVENT, *, seats: int = 20, version: int = 1, **changes: Any) -> pb.PutInventoryRequest:
    """An event on sale, with seats 1 to `seats` in one section."""
    now = datetime.now(UTC)
    request = pb.PutInventoryRequest(
        event_id=event_id,
        version=version,
        name="Night Trains",
        sale_start_time=timestamp(now - timedelta(hours=1)),
        sale_end_time=timestamp(now + timedelta(days=1)),
        tickets_per_account=8,
        hold_seconds=600,
        tiers=[
            pb.InventoryTier(
                tier=1,
                name="Stalls",
                price=Money(currency_code="EUR", amount_minor=PRICE),
                fee=Money(currency_code="EUR", amount_minor=FEE),
            )
        ],
        seats=[
            pb.InventorySeat(
                seat_id=number,
                section="A",
                row=str(1 + number // 10),
                number=str(number),
                tier=1,
                row_index=number // 10,
                x=20 * (number % 10),
                y=30 * (number // 10),
            )
            for number in range(1, seats + 1)
        ],
    )
    request.MergeFrom(pb.PutInventoryRequest(**changes))
    return request


def caller(account: str, *, event: str = EVENT, key: str = "") -> tuple[tuple[str, str], ...]:
    """Metadata as the gateway sets it."""
    identity = ((ACCOUNT_HEADER, account), (EMAIL_HEADER, f"{account}@example.test"), (EVENT_HEADER, event))
    return (*identity, (IDEMPOTENCY_HEADER, key)) if key else identity


async def refused(call: Any) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    """Code, reason and metadata of a call that must be refused."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return (error.code(), *reason_of(error))
    raise AssertionError(f"not refused: {answer}")


async def won(call: Any, *reasons: str) -> Any:
    """The answer of a call that may lose; None when it was refused for one of the reasons."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        if reason_of(error)[0] in reasons:
            return None
        raise


async def told(booth: "Booth") -> list[tuple[str, int]]:
    """Kind and version of what orders told the stream `booking.orders`, in order."""
    sql = "SELECT kind, CAST(payload ->> 'version' AS int) AS version FROM outbox WHERE sink = 'booking.orders'"
    return [(row["kind"], row["version"]) for row in await booth.execute(f"{sql} ORDER BY message_id")]


@dataclass
class Charges:
    """Stands where payments is: remembers what it was asked for."""

    asked: list[tuple[str, Message]] = field(default_factory=list)
    error: Exception | None = None

    async def charge_order(self, shard: str, message: Message) -> None:
        """Takes it on, or raises what the test set."""
        if self.error:
            raise self.error
        self.asked.append((shard, message))


@dataclass
class Booth:
    """Stubs of one running booking, and its database."""

    public: Any
    internal: Any
    admin: Any
    promises: Any
    shards: Any
    workers: Any
    charges: Charges
    dsn: str

    async def hold(self, account: str, *seats: int, key: str = "", event: str = EVENT) -> pb.HoldSeatsResponse:
        """A hold; its key is made of account and seats unless given."""
        metadata = caller(account, event=event, key=key or f"{account}-{seats}")
        request = pb.HoldSeatsRequest(event_id=event, seat_ids=seats)
        answer: pb.HoldSeatsResponse = await self.public.HoldSeats(request, metadata=metadata)
        return answer

    async def units(self, account: str, quantity: int, *, area: int = 1, key: str = "") -> pb.HoldSeatsResponse:
        """A hold of units of an area; its key is made of account and quantity unless given."""
        units = pb.GeneralAdmission(area_id=area, quantity=quantity)
        request = pb.HoldSeatsRequest(event_id=EVENT, general_admission=units)
        answer: pb.HoldSeatsResponse = await self.public.HoldSeats(
            request, metadata=caller(account, key=key or f"{account}-units-{quantity}")
        )
        return answer

    async def best(
        self, account: str, quantity: int, *, key: str = "", event: str = EVENT, **ask: Any
    ) -> pb.HoldSeatsResponse:
        """A hold of the best available; its key is made of account and quantity unless given."""
        metadata = caller(account, event=event, key=key or f"{account}-best-{quantity}")
        wanted = pb.BestAvailable(quantity=quantity, **ask)
        answer: pb.HoldSeatsResponse = await self.public.HoldSeats(
            pb.HoldSeatsRequest(event_id=event, best_available=wanted), metadata=metadata
        )
        return answer

    async def order(self, account: str, hold_id: str, *, key: str = "", token: str = "pm_card_visa") -> str:
        """An order's id."""
        request = pb.CreateOrderRequest(hold_id=hold_id, payment_token=token)
        answer: pb.CreateOrderResponse = await self.public.CreateOrder(
            request, metadata=caller(account, key=key or hold_id)
        )
        return answer.order_id

    async def outcome(self, order_id: str, outcome: pb.PaymentOutcome.ValueType, reason: str = "") -> int:
        """Tells what became of a charge; the order's state."""
        request = pb.RecordPaymentOutcomeRequest(order_id=order_id, outcome=outcome, failure_reason=reason)
        answer: pb.RecordPaymentOutcomeResponse = await self.internal.RecordPaymentOutcome(request)
        return answer.state

    async def cancel(self, account: str, order_id: str) -> pb.Order:
        """The order as it ended."""
        request = pb.CancelOrderRequest(order_id=order_id)
        answer: pb.CancelOrderResponse = await self.public.CancelOrder(request, metadata=caller(account))
        return answer.order

    async def release(self, account: str, hold_id: str) -> pb.Hold:
        """The hold as it ended."""
        request = pb.ReleaseHoldRequest(hold_id=hold_id)
        answer: pb.ReleaseHoldResponse = await self.public.ReleaseHold(request, metadata=caller(account))
        return answer.hold

    async def get_hold(self, account: str, hold_id: str) -> pb.Hold:
        """As its owner sees it."""
        request = pb.GetHoldRequest(hold_id=hold_id)
        answer: pb.GetHoldResponse = await self.public.GetHold(request, metadata=caller(account))
        return answer.hold

    async def get_order(self, account: str, order_id: str) -> pb.Order:
        """As its owner sees it."""
        request = pb.GetOrderRequest(order_id=order_id)
        answer: pb.GetOrderResponse = await self.public.GetOrder(request, metadata=caller(account))
        return answer.order

    async def seats(self, event: str = EVENT) -> dict[str, int]:
        """Seats by state, those that there are."""
        counts = await self.admin.CountSeats(pb.CountSeatsRequest(event_id=event))
        return {name.name: value for name, value in counts.ListFields() if name.name != "areas"}

    async def areas(self) -> dict[int, dict[str, int]]:
        """Units by area and state, those that there are."""
        counts = await self.admin.CountSeats(pb.CountSeatsRequest(event_id=EVENT))
        return {
            area.area_id: {name.name: value for name, value in area.ListFields() if name.name != "area_id"}
            for area in counts.areas
        }

    async def execute(self, sql: str, *arguments: Any) -> Any:
        """What no caller may do: move time, look behind the curtain."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return await connection.fetch(sql, *arguments)
        finally:
            await connection.close()

    async def age(self, hold_id: str, seconds: float) -> None:
        """Makes a hold's expiry lie `seconds` in the past, on its record and on its seats."""
        found = parse_id("hld", hold_id)
        assert found
        number = f"{found[1]:032x}"
        connection = await asyncpg.connect(self.dsn)
        async with connection.transaction():
            expiry = await connection.fetchval(
                "UPDATE hold SET expires_at = clock_timestamp() - $2 * interval '1 s' WHERE hold_id = $1::uuid"
                " RETURNING expires_at",
                number,
                seconds,
            )
            await connection.execute(
                "UPDATE seat SET hold_expires_at = $2 WHERE hold_id = $1::uuid AND state = 'HELD'", number, expiry
            )
        await connection.close()

    async def broken(self) -> dict[str, int]:
        """The invariants that do not hold."""
        invariants = await self.check_invariants()
        assert len(invariants) > 5
        return {found.name: found.violations for found in invariants if found.violations}

    async def check_invariants(self) -> Sequence[Invariant]:
        """All of them, as an operator is told."""
        return (await self.promises.CheckInvariants(CheckInvariantsRequest())).invariants
