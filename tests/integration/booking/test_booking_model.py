"""Random sequences of everything that accounts, payments, time and the sweeper do, against a model in plain Python.

The machine's rules are synchronous, as hypothesis has them, and run in a thread; the calls run on the test's loop.

Hypothesis is here for what it makes up, not for its report: it would play the steps of a failure again, shorter and
shorter ones, and that cannot be done. Which seats booking chooses, and which of two right refusals it gives, depends on
how old its picture is, and what the model knows next, and so what hypothesis may draw next, follows from it. So the
first failure is the outcome, as it was raised, with the steps that led to it.
"""

import asyncio
import itertools
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import grpc
import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.money.v1.money_pb2 import Money

from chassis.errors import reason_of
from chassis.ids import format_id
from services.booking.expiry import sweep_holds
from tests.integration.booking.booth import Booth, caller, inventory, timestamp
from tests.integration.booking.model import AREA, CAP, PLACES, SEATS, UNITS, Ask, Hold, Model, Order
from tests.support.soak import SOAK_SEEDS, seeds, size

GRACE_SECONDS = 30.0  # no step takes so long: only the machine moves time
GRACE = timedelta(seconds=GRACE_SECONDS)
ACCOUNTS = st.sampled_from(["ann", "bob", "cid"])
NAMES = {each: pb.HoldState.Name(each).removeprefix("HOLD_STATE_") for each in pb.HoldState.values()}
ORDER_NAMES = {each: pb.OrderState.Name(each).removeprefix("ORDER_STATE_") for each in pb.OrderState.values()}
REACHED = ("BEST", "TOO_MANY_TICKETS", "held units", "sold seats")  # the planted walk reaches what few steps may not
IN_A_SOAK = (
    "blocked seats",
    "SOLD_OUT",
    "NO_BLOCK",
    "TEMPORARILY_UNAVAILABLE",
    "HOLD_BUDGET_SPENT",
    "HOLD_EXPIRED",
    "FAILED order",
    "blocked units",
)

STATES = """
  SELECT seat_id, CASE WHEN state = 'HELD' AND hold_expires_at <= clock_timestamp() THEN 'available'
                       ELSE lower(state) END AS state FROM seat"""
EMPTY = "TRUNCATE event, seat, hold, orders, outbox CASCADE"

numbers = itertools.count(100)  # of events: each run of the machine has one of its own


class Found(BaseException):
    """A failure, on its way past hypothesis: that handles exceptions, and lets go whatever else is raised."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure


class Machine(RuleBasedStateMachine):
    """Does each thing to booking and to the model, and compares."""

    booth: Booth
    words: Counter[str]  # what booking answered, over all runs
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []  # what was done, and refused; holds are told by their keys

    @initialize(resale=st.booleans(), budget=st.sampled_from([3, 1000]))
    def put_event(self, resale: bool, budget: int) -> None:
        self.steps.append(f"put event, resale {resale}, budget {budget}")
        self.model, self.keys = Model(resale=resale, budget=budget), itertools.count()
        self.event = format_id("evt", "s1", next(numbers))
        self.ids: dict[Hold | Order, str] = {}
        self.run(lambda: self.booth.execute(EMPTY))  # so that nothing of the run before shows in this one
        self.run(lambda: self.booth.internal.PutInventory(modelled_event(self.event, resale, budget)))

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
            self.words[reason] += 1
            named = (metadata[name] for name in ("lostSeatIds", "largest", "used") if name in metadata)
            refusal = " ".join([reason, *named])
            self.steps[-1] += f": {refusal}"
            return refusal

    def hold(self, account: str, key: str, seats: tuple[int, ...] = (), units: int = 0, ask: Ask | None = None) -> Any:
        """Asks booking alone."""
        self.steps.append(f"hold {key} of {account}, {ask or (f'{units} units' if units else f'seats {seats}')}")
        request = pb.HoldSeatsRequest(event_id=self.event, seat_ids=() if ask else seats)
        if units:
            request.general_admission.area_id, request.general_admission.quantity = AREA, units
        if ask:
            request.best_available.CopyFrom(pb.BestAvailable(**ask._asdict()))
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
        self.compare_hold(self.hold(account, key, wanted), self.model.hold_seats(account, key, wanted))

    @rule(account=ACCOUNTS, units=st.integers(1, 3))
    def hold_area(self, account: str, units: int) -> None:
        self.units(account, units)

    def units(self, account: str, units: int) -> bool:
        """Whether they are held."""
        key = f"k{next(self.keys)}"
        expected = self.model.hold_area(account, key, units)
        self.compare_hold(self.hold(account, key, units=units), expected)
        return expected == "ACTIVE"

    @rule(
        account=ACCOUNTS,
        quantity=st.integers(1, CAP + 1),
        section=st.sampled_from(["", "", "A", "B"]),
        tier=st.sampled_from([None, None, 1, 2]),
        accessible=st.sampled_from([0, 0, 1, 2]),
    )
    def hold_best_available(self, account: str, quantity: int, section: str, tier: int | None, accessible: int) -> None:
        self.best(account, Ask(quantity, section, tier, min(accessible, quantity)))

    def best(self, account: str, ask: Ask) -> bool:
        """Whether they are held."""
        key, refusals = f"k{next(self.keys)}", self.model.refuse_best(account, ask)
        answer = self.hold(account, key, ask=ask)
        if refusals:
            assert isinstance(answer, str), answer
            assert answer in refusals
            return False
        assert not isinstance(answer, str), answer
        self.words["BEST"] += 1
        seats = [seat.seat_id for seat in answer.seats]
        self.steps[-1] += f": seats {seats}"
        self.model.hold_best(account, key, ask, seats)
        self.compare_hold(answer, "ACTIVE")
        return True

    @rule(account=ACCOUNTS, seats=st.integers(0, 3), units=st.integers(1, 3), cancel=st.booleans())
    def buy(self, account: str, seats: int, units: int, cancel: bool) -> None:
        """From hold to payment, so that much is sold or cancelled before the steps are spent."""
        held = self.best(account, Ask(seats, "", None, 0)) if seats else self.units(account, units)
        if held and self.order(self.model.holds[-1]):
            self.tell(self.model.orders[-1], "succeed")
            if cancel:
                self.cancel(self.model.orders[-1])

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def replay_hold(self, data: st.DataObject) -> None:
        hold = data.draw(st.sampled_from(self.model.holds))
        again = self.hold(hold.account, hold.key, hold.seats, hold.units, hold.ask)
        assert (again.hold_id, NAMES[again.state]) == (self.ids[hold], hold.shown)
        assert self.hold(hold.account, hold.key, (1, 2, 3, 4, 5)) == "IDEMPOTENCY_KEY_REUSED"

    @precondition(lambda self: any(hold.time != "OVER" for hold in self.model.holds))
    @rule(data=st.data())
    def let_time_pass(self, data: st.DataObject) -> None:
        self.age(data.draw(st.sampled_from([hold for hold in self.model.holds if hold.time != "OVER"])))

    def age(self, hold: Hold) -> None:
        """From its time to its grace, and from that to the end."""
        hold.time = "GRACE" if hold.time == "LIVE" else "OVER"
        self.steps.append(f"let time pass, {hold.key} is {hold.time}")
        seconds = 0.0 if hold.time == "GRACE" else GRACE_SECONDS
        self.run(lambda: self.booth.age(self.ids[hold], seconds))

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def release_hold(self, data: st.DataObject) -> None:
        self.release(data.draw(st.sampled_from(self.model.holds)))

    def release(self, hold: Hold) -> None:
        """As its account does."""
        self.steps.append(f"release {hold.key}")
        request = pb.ReleaseHoldRequest(hold_id=self.ids[hold])
        answer = self.run(lambda: self.booth.public.ReleaseHold(request, metadata=caller(hold.account)))
        assert NAMES[answer.hold.state] == self.model.release_hold(hold)

    @precondition(lambda self: self.model.holds)
    @rule(data=st.data())
    def create_order(self, data: st.DataObject) -> None:
        self.order(data.draw(st.sampled_from(self.model.holds)))

    def order(self, hold: Hold) -> bool:
        """Whether it is one now."""
        self.steps.append(f"order {hold.key}")
        key, expected = f"o{next(self.keys)}", self.model.create_order(hold)
        answer = self.ask(lambda: self.booth.order(hold.account, self.ids[hold], key=key))
        if expected != "PENDING_PAYMENT":
            assert answer == expected
            return False
        assert hold.order
        self.ids[hold.order] = answer
        assert self.run(lambda: self.booth.order(hold.account, self.ids[hold], key=key)) == answer
        return True

    @precondition(lambda self: self.model.orders)
    @rule(data=st.data(), outcome=st.sampled_from(["succeed", "succeed", "fail"]))
    def record_payment_outcome(self, data: st.DataObject, outcome: str) -> None:
        self.tell(data.draw(st.sampled_from(self.model.orders)), outcome)

    def tell(self, order: Order, outcome: str) -> None:
        """What became of its charge."""
        self.steps.append(f"the charge for {order.hold.key}, {outcome}")
        word = {"succeed": pb.PAYMENT_OUTCOME_SUCCEEDED, "fail": pb.PAYMENT_OUTCOME_FAILED}[outcome]
        answer = self.ask(lambda: self.booth.outcome(self.ids[order], word, "CARD_DECLINED"))
        expected = getattr(self.model, outcome)(order)
        self.words[f"{order.state} order"] += 1
        assert (answer if isinstance(answer, str) else ORDER_NAMES[answer]) == expected

    @precondition(lambda self: self.model.orders)
    @rule(data=st.data())
    def cancel_order(self, data: st.DataObject) -> None:
        self.cancel(data.draw(st.sampled_from(self.model.orders)))

    def cancel(self, order: Order) -> None:
        """As its account does."""
        self.steps.append(f"cancel the order of {order.hold.key}")
        request = pb.CancelOrderRequest(order_id=self.ids[order])
        answer = self.ask(lambda: self.booth.public.CancelOrder(request, metadata=caller(order.hold.account)))
        expected = self.model.cancel_order(order)
        assert (answer if isinstance(answer, str) else ORDER_NAMES[answer.order.state]) == expected

    @rule()
    def sweep_holds(self) -> None:
        self.steps.append("sweep")
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
        states = self.model.seat_states()
        self.words.update({f"{state} seats": count for state, count in counts.items()})
        self.words.update({f"{state} units": count for state, count in units.items()})
        assert counts == Counter(states.values())
        assert {row["seat_id"]: row["state"] for row in self.run(self.states)} == states
        assert units == self.model.unit_counts()

    async def states(self) -> Any:
        """Of each seat, as stored."""
        return await self.booth.shards["s1"].read(lambda connection: connection.fetch(STATES))

    @invariant()
    def no_promise_is_broken(self) -> None:
        broken = self.run(self.booth.broken)
        broken.pop("hold_overdue", None)  # the sweeper comes when the machine says so
        assert broken == {}

    def teardown(self) -> None:
        """Hypothesis comes here after each run, also while a failure is on its way."""
        failure = sys.exception()
        if not failure:
            try:
                self.all_ends_well()
            except Exception as error:
                failure = error
        if isinstance(failure, Exception):
            failure.add_note("\n".join(["It came to this by:", *self.steps]))
            raise Found(failure)

    def all_ends_well(self) -> None:
        """Who asks for a hold or an order reads what the model says."""
        for hold in self.model.holds:
            state = self.run(partial(self.booth.get_hold, hold.account, self.ids[hold])).state
            assert NAMES[state] == hold.shown
        for order in self.model.orders:
            state = self.run(partial(self.booth.get_order, order.hold.account, self.ids[order])).state
            assert ORDER_NAMES[state] == order.state


def modelled_event(event: str, resale: bool, budget: int) -> pb.PutInventoryRequest:
    """Two rows, an area, and two prices."""
    request = inventory(
        event,
        seats=SEATS,
        resale=resale,
        holds_per_account=budget,
        cancel_end_time=timestamp(datetime.now(UTC) + timedelta(days=1)),
        areas=[pb.InventoryArea(area_id=AREA, name="Floor", capacity=UNITS, tier=1)],
    )
    request.tickets_per_account = CAP
    request.tiers.add(tier=2, name="Box", price=Money(currency_code="EUR", amount_minor=9000), fee=Money())
    for seat in request.seats:
        seat.section, seat.tier, seat.accessible = PLACES[seat.seat_id]
    return request


async def check(booth: Booth, seed: int, examples: int) -> Counter[str]:
    """Runs the machine in a thread of its own; what it met."""
    words: Counter[str] = Counter()
    machine = type("SeededMachine", (Machine,), {"booth": booth, "words": words, "loop": asyncio.get_running_loop()})
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
        phases=[hypothesis.Phase.generate],
    )
    try:
        await asyncio.to_thread(run_state_machine_as_test, hypothesis.seed(seed)(machine), settings=settings)
    except Found as found:
        test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")
        found.failure.add_note(f"Seed {seed}. Again: ROWLOCK_SOAK_SEEDS={SOAK_SEEDS} python -m pytest '{test}'")
        raise found.failure from None
    return words


@pytest.fixture
async def modelled(database: Callable[..., Awaitable[str]], open_replica: Callable[..., Awaitable[Booth]]) -> Booth:
    """With a grace that only the machine ends."""
    return await open_replica({"s1": await database("booking")}, confirm_grace_seconds=GRACE_SECONDS)


@pytest.mark.parametrize("seed", seeds(2))
async def test_booking_does_what_its_model_does(modelled: Booth, seed: int) -> None:
    words = await check(modelled, seed, size(6, 150))
    assert not [word for word in REACHED + IN_A_SOAK[: size(0, len(IN_A_SOAK))] if not words[word]], words
