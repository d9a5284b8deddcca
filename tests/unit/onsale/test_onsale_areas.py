"""Units of an area in an on-sale: what the judge finds, and how fans ask."""

from typing import Any

import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from onsale.checks import Verdict, check_areas
from onsale.fans import Fan, Seen, SoldOut, Way
from onsale.gateway import Answer
from onsale.venue import Sale

SALE = Sale("evt_s1_1", "Tried", {"A": [[1, 2]]}, {1: "A", 2: "A"}, 20, {1: 10})
GOOD = {"available": 5, "held": 1, "pending_payment": 1, "sold": 3}


def order(name: str, quantity: int, *seats: int, state: str = "CONFIRMED") -> pb.EventOrder:
    return pb.EventOrder(
        order_id=name, state=pb.OrderState.Value(f"ORDER_STATE_{state}"), seat_ids=seats, quantity=quantity
    )


ORDERS = [
    order("a", 2),
    order("b", 1),
    order("c", 1, state="PENDING_PAYMENT"),
    order("d", 4, state="FAILED"),
    order("e", 2, 1, 2),
]


def judged(units: dict[str, int], orders: list[pb.EventOrder]) -> list[str]:
    verdict = Verdict(areas={1: units})
    check_areas(orders, SALE, verdict)
    return verdict.broken()


def test_units_that_add_up_break_nothing() -> None:
    assert judged(GOOD, ORDERS) == []


@pytest.mark.parametrize(
    ("units", "orders"),
    [
        (GOOD | {"available": 4}, ORDERS),
        (GOOD | {"available": 6}, ORDERS),
        (GOOD | {"held": 0, "sold": 4}, ORDERS),
        (GOOD, ORDERS[1:]),
        (GOOD, [*ORDERS, order("f", 1, state="PENDING_PAYMENT")]),
    ],
)
def test_units_lost_or_made_are_found(units: dict[str, int], orders: list[pb.EventOrder]) -> None:
    assert judged(units, orders)


def test_an_area_that_nobody_counted_is_found() -> None:
    verdict = Verdict()
    check_areas([], SALE, verdict)
    assert verdict.broken()


def refused(reason: str, **metadata: str) -> Answer:
    return Answer(409, {"details": [{"reason": reason, "metadata": metadata}]})


def fan(*ways: Way, party: int = 4) -> Fan:
    made: Any = Fan(1, "token", SALE, None, Seen(), seed=1)  # type: ignore[arg-type]
    made.ways, made.party = list(ways), party
    return made


async def test_a_fan_says_in_each_way_what_it_wants() -> None:
    assert await fan(Way.TAKES_BEST)._wish() == {"bestAvailable": {"quantity": 4}}
    assert await fan(Way.STANDS)._wish() == {"generalAdmission": {"areaId": 1, "quantity": 4}}


async def test_a_fan_goes_on_to_the_next_way_and_then_home() -> None:
    tried = fan(Way.TAKES_BEST, Way.STANDS)
    tried._settle_for_less(refused("TEMPORARILY_UNAVAILABLE"))
    assert "bestAvailable" in await tried._wish()
    tried._settle_for_less(refused("SOLD_OUT"))
    assert "generalAdmission" in await tried._wish()
    tried._settle_for_less(refused("SOLD_OUT"))
    with pytest.raises(SoldOut):
        await tried._wish()


def test_a_fan_takes_the_party_that_can_be_had() -> None:
    tried = fan(Way.STANDS)
    tried._settle_for_less(refused("NO_BLOCK", largest="2"))
    assert (tried.party, tried.seen.broken) == (2, [])


@pytest.mark.parametrize("largest", ["", "0", "4", "9"])
def test_a_refusal_that_offers_as_many_as_were_asked_for_is_a_broken_answer(largest: str) -> None:
    tried = fan(Way.STANDS)
    tried._settle_for_less(refused("NO_BLOCK", largest=largest))
    assert tried.seen.broken
    assert 1 <= tried.party < 4


def test_fans_want_units_only_where_there_are_any() -> None:
    seated = Sale("evt_s1_1", "Tried", {"A": [[1]]}, {1: "A"}, 20)
    for number in range(50):
        with_units = Fan(number, "token", SALE, None, Seen(), seed=1)  # type: ignore[arg-type]
        without = Fan(number, "token", seated, None, Seen(), seed=1)  # type: ignore[arg-type]
        assert Way.STANDS in with_units.ways
        assert Way.STANDS not in without.ways
        assert Way.PICKS in with_units.ways
        assert Way.PICKS in without.ways
