"""Bugs that are planted and that the model must find: on one way through its machine, the same each time."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from services.booking import best_available, best_seats, rows
from services.booking.best_available import largest
from services.booking.best_seats import BestSeats
from services.booking.errors import SoldOut
from services.booking.seat_plan import Plan, Row
from services.booking.steps import Steps
from tests.integration.booking.booth import Booth
from tests.integration.booking.model import CAP, Ask
from tests.integration.booking.replicas import change
from tests.integration.booking.test_booking_model import Machine, modelled

__all__ = ["modelled"]  # a fixture


async def walk(booth: Booth) -> Counter[str]:
    """One way through all that can go wrong, the same each time; what it met."""
    words: Counter[str] = Counter()
    machine = type("Walker", (Machine,), {"booth": booth, "words": words, "loop": asyncio.get_running_loop()})

    def go() -> None:
        walker = machine()
        walker.put_event(resale=False, budget=3)
        for account, seats in (("ann", 2), ("bob", 0)):
            walker.buy(account, seats, 2, cancel=True)
            walker.nothing_is_lost_or_made()
        for _ in range(4):
            walker.hold_seats("cid", {7})
            walker.release(walker.model.holds[-1])
            walker.nothing_is_lost_or_made()
        walker.put_event(resale=True, budget=1000)
        walker.hold_seats("ann", {1, 2, 3})
        walker.hold_seats("ann", {4, 5})
        walker.hold_seats("bob", {1})
        walker.units("bob", 2)
        walker.release(walker.model.holds[-1])
        walker.nothing_is_lost_or_made()
        walker.put_event(resale=True, budget=1000)
        be_late(walker)

    await asyncio.to_thread(go)
    return words


def be_late(walker: Machine) -> None:
    """Orders within the grace and after it; a charge that fails, and after all does not."""
    walker.hold_seats("ann", {1, 2, 3})
    walker.hold_seats("bob", {4})
    in_time, too_late = walker.model.holds
    walker.age(in_time)
    walker.hold_seats("ann", {5, 6})  # more than her cap: the grace counts
    walker.age(too_late)
    walker.age(too_late)
    walker.order(too_late)
    walker.order(in_time)
    for outcome in ("fail", "fail", "succeed", "succeed"):
        walker.tell(walker.model.orders[-1], outcome)
        walker.nothing_is_lost_or_made()
    walker.units("cid", 2)
    walker.order(walker.model.holds[-1])
    walker.tell(walker.model.orders[-1], "fail")
    walker.nothing_is_lost_or_made()


async def test_booking_goes_the_models_way(modelled: Booth) -> None:
    words = await walk(modelled)
    assert words["HOLD_EXPIRED"]
    assert words["FAILED order"]


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
        ("account_at_event", "expires_at > clock_timestamp() - p_grace", "expires_at > clock_timestamp()"),
        ("create_order", "AND expires_at > clock_timestamp() - p_grace", ""),
        (
            "fail_order",
            "o.order_id, p_seats, 'PENDING_PAYMENT', 'AVAILABLE'",
            "o.order_id, '{}', 'PENDING_PAYMENT', 'AVAILABLE'",
        ),
        ("fail_order", "IF o.area_id IS NOT NULL", "IF o.area_id IS NULL"),
        ("account_at_event", "WHERE state <> 'CONFIRMED' AND create_time", "WHERE state = 'CONFIRMED' AND create_time"),
        ("cancel_order", "CASE WHEN e.resale THEN 'AVAILABLE' ELSE 'BLOCKED' END", "'AVAILABLE'"),
        ("cancel_order", "CASE WHEN NOT e.resale THEN o.counters END", "NULL"),
    ],
    ids=[
        "expiry",
        "units",
        "release",
        "cap",
        "grace",
        "late",
        "failed-seats",
        "failed-units",
        "budget",
        "seats-sold-again",
        "units-sold-again",
    ],
)
async def test_the_model_finds_what_is_wrong(modelled: Booth, function: str, guard: str, instead: str) -> None:
    await change(modelled, function, {guard: instead})
    with pytest.raises(AssertionError):
        await walk(modelled)


async def ask_for_the_best(booth: Booth) -> None:
    """Until all is held, again and again; seats alone, and none of the machine's other steps."""
    machine = type(
        "AskingMachine", (Machine,), {"booth": booth, "words": Counter(), "loop": asyncio.get_running_loop()}
    )

    def ask() -> None:
        dice, asking = random.Random(1), machine()
        for _ in range(4):
            asking.put_event(resale=True, budget=1000)
            for number in range(14):
                quantity = dice.randint(1, CAP)
                wheels = min(dice.choice([0, 0, 1, 2]), quantity)
                wanted = Ask(quantity, dice.choice(["", "A", "B"]), dice.choice([None, 1, 2]), wheels)
                asking.best(f"fan-{number}", wanted)
                asking.nothing_is_lost_or_made()

    await asyncio.to_thread(ask)


async def always_sold_out(*_: object) -> SoldOut:
    return SoldOut()


def one_too_few(plan: Plan, free: Sequence[int], ask: rows.Ask) -> Steps[int]:
    return max((yield from largest(plan, free, ask)) - 1, 0)


async def test_the_best_available_are_what_the_model_allows(modelled: Booth) -> None:
    await ask_for_the_best(modelled)


@pytest.mark.parametrize(
    ("place", "name", "wrong"),
    [
        (Row, "usable", lambda row, mask, tier: mask),
        (Plan, "ranked_rows", lambda plan, section, accessible=False: plan.ranked),
        (best_available, "_proper", lambda *_: True),
        (BestSeats, "_why_not", always_sold_out),
        (best_seats, "largest", one_too_few),
    ],
    ids=["tier", "section", "accessible", "reason", "largest"],
)
async def test_the_model_finds_what_is_wrong_with_the_best(
    modelled: Booth, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, wrong: Callable[..., Any]
) -> None:
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError):
        await ask_for_the_best(modelled)
