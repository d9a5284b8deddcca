"""The judge of an on-sale: it must be able to find each kind of broken promise."""

from typing import Any

import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.money.v1.money_pb2 import Money

from onsale.checks import Verdict, check_fans, check_money, check_seats
from onsale.fans import Fan, Habit, Seen
from onsale.gateway import Answer
from onsale.venue import Sale

SALE = Sale("evt_s1_1", "Tried", {"A": [[1, 2, 3]]}, {1: "A", 2: "A", 3: "A"}, 20)


def order(name: str, *seats: int, state: str = "CONFIRMED", total: int = 100) -> pb.EventOrder:
    return pb.EventOrder(
        order_id=name,
        state=pb.OrderState.Value(f"ORDER_STATE_{state}"),
        seat_ids=seats,
        total=Money(currency_code="EUR", amount_minor=total),
    )


def verdict_of(orders: list[pb.EventOrder], seen: Seen, ledger: dict[str, list[int]]) -> Verdict:
    verdict = Verdict(sold=2, seats={"available": 1, "sold": 2})
    check_seats(orders, SALE, verdict)
    check_fans(orders, seen, verdict)
    check_money(orders, ledger, verdict)
    return verdict


BOUGHT = order("a", 1, 2)
GOOD: dict[str, Any] = {
    "orders": [BOUGHT, order("f", 3, state="FAILED")],
    "seen": Seen(orders={"a": "ORDER_STATE_CONFIRMED", "f": "ORDER_STATE_FAILED"}, tickets={"a": [2, 1]}),
    "ledger": {"a": [100]},
}
FAILED = "ORDER_STATE_FAILED"
CONFIRMED = "ORDER_STATE_CONFIRMED"


def test_a_good_sale_breaks_nothing() -> None:
    assert verdict_of(**GOOD).broken() == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"orders": [BOUGHT, order("b", 2, state="PENDING_PAYMENT")]}, "double sold"),
        ({"orders": [order("a", 1)]}, "answers wrong"),
        ({"ledger": {"a": [100, 100]}}, "double charged"),
        ({"ledger": {"a": [99]}}, "money wrong"),
        ({"ledger": {}}, "money wrong"),
        ({"ledger": {"a": [100], "f": [100]}}, "money wrong"),
        ({"seen": Seen(orders={"gone": FAILED})}, "lost orders"),
        ({"seen": Seen(orders={"f": CONFIRMED})}, "lost orders"),
        ({"seen": Seen(orders={"a": CONFIRMED}, tickets={"a": [1]})}, "lost orders"),
    ],
)
def test_each_broken_promise_is_found(change: dict[str, Any], kind: str) -> None:
    assert kind in {line.split(":")[0] for line in verdict_of(**{**GOOD, **change}).broken()}


class Presses:
    """Answers the presses of a button, one after the other."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)

    async def call(self, *_: Any) -> Answer:
        return self.answers.pop(0)


HELD, OTHER = Answer(201, {"holdId": "h1"}), Answer(201, {"holdId": "h2"})
LOST = Answer(409, {"details": [{"reason": "SEAT_UNAVAILABLE"}]})


@pytest.mark.parametrize(
    ("answers", "broken"),
    [
        ([HELD, HELD], 0),
        ([HELD, OTHER], 1),
        ([HELD, Answer(503, {})], 0),
        ([LOST, HELD, HELD], 0),  # refused, then the seat came free: a refusal leaves no record
        ([LOST, HELD, OTHER], 1),
        ([HELD, LOST, LOST], 1),  # what a key has brought, it brings for ever
    ],
)
async def test_a_key_pressed_twice_names_one_thing(answers: list[Answer], broken: int) -> None:
    seen = Seen()
    presses = Presses(*answers)
    fan = Fan(1, "token", SALE, presses, seen, seed=1)  # type: ignore[arg-type]
    fan.habit = Habit.DOUBLE_CLICKS
    assert (await fan._press("hold", "/", {}, {}, "holdId")).ok
    assert len(seen.broken) == broken
    assert presses.answers == []
