"""Random sequences of everything that accounts, payments, time and the sweeper do, against a model in plain Python.

The machine's rules are synchronous, as hypothesis has them, and run in a thread; the calls run on the test's loop.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import grpc
import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.errors import reason_of
from chassis.ids import format_id
from services.booking.expiry import sweep_holds
from tests.integration.booking.booth import Booth, caller, inventory, timestamp
from tests.integration.booking.model import AREA, CAP, SEATS, UNITS, Hold, Model, Order
from tests.integration.booking.replicas import change
from tests.support.soak import seeds, size

GRACE_SECONDS = 30.0  # no step takes so long: only the machine moves time
GRACE = timedelta(seconds=GRACE_SECONDS)
ACCOUNTS = st.sampled_from(["ann", "bob", "cid"])
NAMES = {each: pb.HoldState.Name(each).removeprefix("HOLD_STATE_") for each in pb.HoldState.values()}
ORDER_NAMES = {each: pb.OrderState.Name(each).removeprefix("ORDER_STATE_") for each in pb.OrderState.values()}

EMPTY = "TRUNCATE event, seat, hold, orders, outbox CASCADE"

numbers = itertools.count(100)  # of events: each run of the machine has one of its own


class Machine(RuleBasedStateMachine):
    """Does each thing to booking and to the model, and compares."""

    booth: Booth
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.model, self.keys = Model(), itertools.count()
        self.event = format_id("evt", "s1", next(numbers))
        self.ids: dict[Hold | Order, str] = {}
        self.tokens: dict[Order, str] = {}
        request = inventory(
            self.event,
            seats=SEATS,
            resale=True,
            cancel_end_time=timestamp(datetime.now(UTC) + timedelta(days=1)),
            areas=[pb.InventoryArea(area_id=AREA, name="Floor", capacity=UNITS, tier=1)],
        )
        request.tickets_per_account = CAP
        self.run(lambda: self.booth.execute(EMPTY))  # so that nothing of the run before shows in this one
        self.run(lambda: self.booth.internal.PutInventory(request))

    def run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """On the loop where booking runs."""

        async def wait() -> Any:
            return await call()

        return asyncio.run_coroutine_threadsafe(wait(), self.loop).result(30)

    def ask(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """The answer, or the reason of the refusal with what it names."""
        try:
            return self.run(call)
        except grpc.aio.AioRpcError as error:
            reason, metadata = reason_of(error)
            return f"{reason} {metadata.get('lostSeatIds', '')}".strip()

    def hold(self, account: str, key: str, seats: tuple[int, ...], units: int) -> Any:
        """Asks booking alone."""
        request = pb.HoldSeatsRequest(event_id=self.event, seat_ids=seats)
        if units:
            request.general_admission.area_id, request.general_admission.quantity = AREA, units
        return self.ask(
            lambda: self.booth.public.HoldSeats(request, metadata=caller(account, event=self.event, key=key))
        )

    def compare_hold(self, answer: Any, expected: str) -> None:
        """Either both held, and there is a new one, or the same refusal."""
        if expected != "ACTIVE":
            assert answer == expected
            return
        assert NAMES[answer.state] == "ACTIVE"
        self.ids[self.model.holds[-1]] = answer.hold_id

    @rule(account=ACCOUNTS, seats=st.sets(st.integers(1, SEATS), min_size=1, max_size=3))
    def hold_seats(self, account: str, seats: set[int]) -> None:
        key, wanted = f"k{next(self.keys)}", tuple(sorted(seats))
        self.compare_hold(self.hold(account, key, wanted, 0), self.model.hold_seats(account, key, wanted))

    @rule(account=ACCOUNTS, units=st.integers(1, 3))
    def hold_area(self, account: str, units: int) -> None:
        key = f"k{next(self.keys)}"
        self.compare_hold(self.hold(account, key, (), units), self.model.hold_area(account, key, units))

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def replay_hold(self, data: st.DataObject) -> None:
        hold = data.draw(st.sampled_from(self.model.holds))
        again = self.hold(hold.account, hold.key, hold.seats, hold.units)
        assert (again.hold_id, NAMES[again.state]) == (self.ids[hold], hold.shown)
        assert self.hold(hold.account, hold.key, (1, 2, 3, 4, 5), 0) == "IDEMPOTENCY_KEY_REUSED"

    @precondition(lambda self: any(hold.time != "OVER" for hold in self.model.holds))
    @rule(data=st.data())
    def let_time_pass(self, data: st.DataObject) -> None:
        hold = data.draw(st.sampled_from([hold for hold in self.model.holds if hold.time != "OVER"]))
        hold.time = "GRACE" if hold.time == "LIVE" else "OVER"
        seconds = 0.0 if hold.time == "GRACE" else GRACE_SECONDS
        self.run(lambda: self.booth.age(self.ids[hold], seconds))

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def release_hold(self, data: st.DataObject) -> None:
        hold = data.draw(st.sampled_from(self.model.holds))
        request = pb.ReleaseHoldRequest(hold_id=self.ids[hold])
        answer = self.run(lambda: self.booth.public.ReleaseHold(request, metadata=caller(hold.account)))
        assert NAMES[answer.hold.state] == self.model.release_hold(hold)

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def create_order(self, data: st.DataObject) -> None:
        hold = data.draw(st.sampled_from(self.model.holds))
        key, expected = f"o{next(self.keys)}", self.model.create_order(hold)
        answer = self.ask(lambda: self.booth.order(hold.account, self.ids[hold], key=key))
        if expected != "PENDING_PAYMENT":
            assert answer == expected
            return
        assert hold.order
        self.ids[hold.order] = answer
        assert self.run(lambda: self.booth.order(hold.account, self.ids[hold], key=key)) == answer

    @precondition(lambda self: self.model.orders)
    @rule(data=st.data(), outcome=st.sampled_from(["succeed", "succeed", "fail"]))
    def record_payment_outcome(self, data: st.DataObject, outcome: str) -> None:
        order = data.draw(st.sampled_from(self.model.orders))
        word = {"succeed": pb.PAYMENT_OUTCOME_SUCCEEDED, "fail": pb.PAYMENT_OUTCOME_FAILED}[outcome]
        answer = self.ask(lambda: self.booth.outcome(self.ids[order], word, "CARD_DECLINED"))
        expected = getattr(self.model, outcome)(order)
        assert (answer if isinstance(answer, str) else ORDER_NAMES[answer]) == expected

    @precondition(lambda self: self.model.orders)
    @rule(data=st.data())
    def cancel_order(self, data: st.DataObject) -> None:
        order = data.draw(st.sampled_from(self.model.orders))
        request = pb.CancelOrderRequest(order_id=self.ids[order])
        answer = self.ask(lambda: self.booth.public.CancelOrder(request, metadata=caller(order.hold.account)))
        expected = self.model.cancel_order(order)
        assert (answer if isinstance(answer, str) else ORDER_NAMES[answer.order.state]) == expected

    @rule()
    def sweep_holds(self) -> None:
        while self.run(lambda: sweep_holds(self.booth.shards["s1"], grace=GRACE)):
            pass
        self.model.sweep()

    @invariant()
    def nothing_is_lost_or_made(self) -> None:
        answer = self.run(lambda: self.booth.admin.CountSeats(pb.CountSeatsRequest(event_id=self.event)))
        counts = {field.name: value for field, value in answer.ListFields()}
        (area,) = counts.pop("areas")
        units = {field.name: value for field, value in area.ListFields() if field.name != "area_id"}
        assert sum(counts.values()) == SEATS
        assert sum(units.values()) == UNITS
        assert counts == self.model.seat_counts()
        assert units == self.model.unit_counts()

    @invariant()
    def no_promise_is_broken(self) -> None:
        broken = self.run(self.booth.broken)
        broken.pop("hold_overdue", None)  # the sweeper comes when the machine says so
        assert broken == {}

    def teardown(self) -> None:
        for hold in self.model.holds:
            state = self.run(partial(self.booth.get_hold, hold.account, self.ids[hold])).state
            assert NAMES[state] == hold.shown
        for order in self.model.orders:
            state = self.run(partial(self.booth.get_order, order.hold.account, self.ids[order])).state
            assert ORDER_NAMES[state] == order.state


async def check(booth: Booth, seed: int, examples: int, *, shrink: bool = True) -> None:
    """Runs the machine in a thread of its own."""
    machine = type("SeededMachine", (Machine,), {"booth": booth, "loop": asyncio.get_running_loop()})
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
        phases=[hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if shrink else [])],
    )
    await asyncio.to_thread(run_state_machine_as_test, hypothesis.seed(seed)(machine), settings=settings)


@pytest.fixture
async def modelled(database: Callable[..., Awaitable[str]], open_replica: Callable[..., Awaitable[Booth]]) -> Booth:
    """With a grace that only the machine ends."""
    return await open_replica({"s1": await database("booking")}, confirm_grace_seconds=GRACE_SECONDS)


@pytest.mark.parametrize("seed", seeds(2))
async def test_booking_does_what_its_model_does(modelled: Booth, seed: int) -> None:
    await check(modelled, seed, size(8, 150))


@pytest.mark.parametrize(
    ("function", "guard", "instead"),
    [
        (
            "hold_seats",
            "z.state = 'HELD' AND z.hold_expires_at <= clock_timestamp() AS free",
            "z.state = 'HELD' AS free",
        ),
        ("give_units_back", "c.available + u.amount", "c.available + u.amount - 1"),
        ("release_hold", "AND s.state = 'HELD' AND s.hold_id = p_hold", "AND s.state = 'HELD' AND s.hold_id <> p_hold"),
        ("account_at_event", "SELECT coalesce(sum(ticket_count)", "SELECT 0 * coalesce(sum(ticket_count)"),
    ],
    ids=["expiry", "units", "release", "cap"],
)
async def test_the_model_finds_what_is_wrong(modelled: Booth, function: str, guard: str, instead: str) -> None:
    await change(modelled, function, {guard: instead})
    with pytest.raises(AssertionError):
        await check(modelled, 1, 40, shrink=False)
