"""The callers of a benchmark, in a process of their own so that their CPU is nobody else's.

`python -m tests.load.callers` reads one JSON object a line, `{"what": …, "target": …, "flight": …, "seconds": …}`, and
answers with one: calls, rate, p50 and p99 in microseconds, and the reasons of refusals.
"""

import asyncio
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import uvloop
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.booking.v1 import booking_pb2_grpc

from chassis.errors import reason_of
from chassis.ids import format_id
from chassis.tokens import ACCOUNT_HEADER, EMAIL_HEADER, EVENT_HEADER, IDEMPOTENCY_HEADER

EVENTS, SEATS = 20, 10_000  # of each event
PICKED = range(1, 16)  # events of which buyers pick seats that are free
CHOSEN = range(16, 20)  # events of which the house chooses
BLOCK = 4
SINGLES, BLOCKS = len(PICKED) * SEATS // 2, len(PICKED) * SEATS // 2 // BLOCK
FOUGHT = 20  # seats of the last event, EVENTS, for which many fight; each fight has its own
CALL_SECONDS = 20
CHANNELS = 2

One = Callable[[Any], Awaitable[Any]]


def event_id(number: int) -> str:
    """Events are 1 to EVENTS."""
    return format_id("evt", "s1", number)


def headers(account: str, event: str, key: str) -> tuple[tuple[str, str], ...]:
    """What the gateway sets, and what it passes on."""
    return (
        (ACCOUNT_HEADER, account),
        (EMAIL_HEADER, f"{account}@example.test"),
        (EVENT_HEADER, event),
        (IDEMPOTENCY_HEADER, key),
        ("x-request-id", key),
    )


@dataclass
class Supply:
    """Free seats in random order, none of them twice; half of the seats of an event singly, half in blocks."""

    dice: random.Random = field(default_factory=lambda: random.Random(1))
    accounts: Iterator[int] = field(default_factory=itertools.count)
    holds: list[tuple[str, str]] = field(default_factory=list)  # account and hold that no order was made of

    def __post_init__(self) -> None:
        half = SEATS // 2
        self.singles = [(event, seat) for event in PICKED for seat in range(1, half + 1)]
        self.blocks = [(event, seat) for event in PICKED for seat in range(half + 1, SEATS - BLOCK + 2, BLOCK)]
        self.dice.shuffle(self.singles)
        self.dice.shuffle(self.blocks)

    def take(self, size: int) -> tuple[str, list[int]]:
        """Event and adjacent seats."""
        event, seat = self.singles.pop() if size == 1 else self.blocks.pop()
        return event_id(event), list(range(seat, seat + size))

    def account(self) -> str:
        """A new one."""
        return f"account-{next(self.accounts)}"


class Calls:
    """Each kind of call by its name."""

    def __init__(self) -> None:
        self.supply = Supply()
        self.first_fought = 1  # the first seat of the fight

    def of(self, what: str) -> One:
        """`empty`, `hold`, `hold4`, `best`, `prepare` (holds for `confirm`), `confirm`, `fight`."""
        one: One = getattr(self, what)
        return one

    async def empty(self, stub: Any) -> None:
        account = self.supply.account()
        request = pb.GetHoldRequest(hold_id="hld_s1_1")
        await stub.GetHold(request, metadata=headers(account, event_id(1), account), timeout=CALL_SECONDS)

    async def hold(self, stub: Any) -> None:
        await self._hold(stub, *self.supply.take(1))

    async def hold4(self, stub: Any) -> None:
        await self._hold(stub, *self.supply.take(BLOCK))

    async def fight(self, stub: Any) -> None:
        seat = self.first_fought + self.supply.dice.randrange(FOUGHT)
        await self._hold(stub, event_id(EVENTS), [seat])

    async def best(self, stub: Any) -> None:
        event, account = event_id(self.supply.dice.choice(CHOSEN)), self.supply.account()
        request = pb.HoldSeatsRequest(event_id=event, best_available=pb.BestAvailable(quantity=2))
        await stub.HoldSeats(request, metadata=headers(account, event, account), timeout=CALL_SECONDS)

    async def prepare(self, stub: Any) -> None:
        self.supply.holds.append(await self._hold(stub, *self.supply.take(1)))

    async def confirm(self, stub: Any) -> None:
        account, hold_id = self.supply.holds.pop()
        request = pb.CreateOrderRequest(hold_id=hold_id, payment_token="pm_card_visa")
        await stub.CreateOrder(request, metadata=headers(account, "", hold_id), timeout=CALL_SECONDS)

    async def _hold(self, stub: Any, event: str, seats: list[int]) -> tuple[str, str]:
        account = self.supply.account()
        request = pb.HoldSeatsRequest(event_id=event, seat_ids=seats)
        answer = await stub.HoldSeats(request, metadata=headers(account, event, account), timeout=CALL_SECONDS)
        return account, answer.hold_id


async def measure(stubs: list[Any], one: One, flight: int, seconds: float, most: int | None) -> dict[str, Any]:
    """`flight` callers, each with one call after another, for `seconds` or `most` calls."""
    times: list[float] = []
    refused: Counter[str] = Counter()
    refused_times: list[float] = []
    began = time.perf_counter()
    left = itertools.count() if most is None else iter(range(most))

    async def call(stub: Any) -> None:
        for _ in left:
            start = time.perf_counter()
            if start - began >= seconds:
                return
            try:
                await one(stub)
            except grpc.aio.AioRpcError as error:
                refused[reason_of(error)[0] or error.code().name] += 1
                refused_times.append(time.perf_counter() - start)
            else:
                times.append(time.perf_counter() - start)

    await asyncio.gather(*(call(stubs[number % len(stubs)]) for number in range(flight)))
    took = time.perf_counter() - began
    count = len(times) + len(refused_times)
    return {
        "calls": count,
        "rate": count / took,
        "p50": _quantile(times, 0.5),
        "p99": _quantile(times, 0.99),
        "refused": dict(refused),
        "refused_p99": _quantile(refused_times, 0.99),
    }


def _quantile(times: list[float], part: float) -> float:
    return sorted(times)[int(len(times) * part)] * 1e6 if times else 0.0


async def main() -> None:
    """Until standard input ends."""
    calls, stubs = Calls(), dict[str, list[Any]]()
    async for order in _orders():
        target = order["target"]
        if target not in stubs:
            channels = [grpc.aio.insecure_channel(target, options=[("channel", number)]) for number in range(CHANNELS)]
            stubs[target] = [booking_pb2_grpc.BookingServiceStub(channel) for channel in channels]
        calls.first_fought = order.get("first_fought", 1)
        one = calls.of(order["what"])
        answer = await measure(stubs[target], one, order["flight"], order["seconds"], order.get("most"))
        print(json.dumps(answer), flush=True)


async def _orders() -> AsyncIterator[dict[str, Any]]:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        yield json.loads(line)


if __name__ == "__main__":
    uvloop.run(main())
