"""Holds of the best available seats, over the real servicer: what is given out, what is refused, and who races whom."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.money.v1.money_pb2 import Money

from chassis.errors import reason_of
from services.booking import best_seats, picture
from services.booking.picture import Picture
from tests.integration.booking.booth import EVENT, Booth, caller, inventory, refused

Code = grpc.StatusCode
ROW = 10  # seats


def grid(rows: int, **changes: Any) -> pb.PutInventoryRequest:
    """Rows of ten, seats numbered from 1 in the plan's order, and where people look: above the middle of the first."""
    request = inventory(seats=rows * ROW, version=2, focal_point=pb.FocalPoint(x=90, y=-100), **changes)
    for place, seat in enumerate(request.seats):
        seat.row_index, seat.x, seat.y = place // ROW, 20 * (place % ROW), 30 * (place // ROW)
    return request


def seats_of(held: pb.HoldSeatsResponse) -> list[int]:
    return [seat.seat_id for seat in held.seats]


def lost() -> float:
    return best_seats.RACES._value.get()


@pytest.fixture
async def hall(booth: Booth) -> Booth:
    """Two rows of ten."""
    await booth.internal.PutInventory(grid(2))
    return booth


async def test_hold_best_available_gives_out_the_best_block_that_is_left(hall: Booth) -> None:
    held = await hall.best("ann", 2)
    assert seats_of(held) == [5, 6]
    assert (held.total.amount_minor, held.fees.amount_minor) == (2 * 5250, 2 * 250)
    assert held.expires_at.ToNanoseconds() > 0
    assert sorted([seats_of(await hall.best("bob", 4)), seats_of(await hall.best("cleo", 4))]) == [
        [1, 2, 3, 4],
        [7, 8, 9, 10],
    ]
    assert seats_of(await hall.best("dan", 2)) == [15, 16]
    assert (await hall.get_hold("ann", held.hold_id)).state == pb.HOLD_STATE_ACTIVE


async def test_hold_best_available_replays_by_what_was_asked(hall: Booth) -> None:
    held = await hall.best("ann", 2, key="k")
    again = await hall.best("ann", 2, key="k")
    assert (again.hold_id, seats_of(again), again.expires_at) == (held.hold_id, seats_of(held), held.expires_at)
    assert (await refused(hall.best("ann", 3, key="k")))[1] == "IDEMPOTENCY_KEY_REUSED"
    assert (await refused(hall.hold("ann", 5, 6, key="k")))[1] == "IDEMPOTENCY_KEY_REUSED"
    assert (await hall.seats())["held"] == 2


async def test_hold_best_available_replays_when_nothing_is_left(hall: Booth) -> None:
    held = [await hall.best(name, 4) for name in ("ann", "bob", "cleo", "dan", "eve")]
    assert (await refused(hall.best("fay", 4)))[:2] == (Code.ABORTED, "TEMPORARILY_UNAVAILABLE")
    assert (await hall.best("bob", 4)).hold_id == held[1].hold_id
    assert (await refused(hall.best("bob", 3, key="bob-best-4")))[1] == "IDEMPOTENCY_KEY_REUSED"


async def test_hold_best_available_in_parallel_with_one_key_holds_once(hall: Booth) -> None:
    held = await asyncio.gather(*(hall.best("ann", 2, key="k") for _ in range(12)))
    assert len({answer.hold_id for answer in held}) == 1
    assert (await hall.seats())["held"] == 2
    await hall.best("bob", 6)
    assert (await hall.seats())["held"] == 8  # nothing is left in the hands of calls that came too late


async def test_three_things_to_do_have_three_reasons(hall: Booth) -> None:
    for number in range(9):
        held = await hall.best(f"fan-{number}", 2)
        await hall.outcome(await hall.order(f"fan-{number}", held.hold_id), pb.PAYMENT_OUTCOME_SUCCEEDED)
    code, reason, metadata = await refused(hall.best("ann", 3))
    assert (code, reason, metadata) == (Code.ABORTED, "NO_BLOCK", {"largest": "2"})
    last = await hall.best("bob", 2)
    assert (await refused(hall.best("ann", 1)))[:2] == (Code.ABORTED, "TEMPORARILY_UNAVAILABLE")
    order_id = await hall.order("bob", last.hold_id)
    assert (await refused(hall.best("ann", 1)))[1] == "TEMPORARILY_UNAVAILABLE"  # the card may be declined
    await hall.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
    assert (await refused(hall.best("ann", 1)))[:2] == (Code.ABORTED, "SOLD_OUT")


async def test_hold_best_available_keeps_to_section_and_tier(hall: Booth) -> None:
    request = grid(2)
    request.version = 3
    request.tiers.add(tier=2, name="Box", price=Money(currency_code="EUR", amount_minor=9), fee=Money())
    request.tiers.add(tier=3, name="Empty", price=Money(currency_code="EUR", amount_minor=9), fee=Money())
    for seat in request.seats[10:]:
        seat.section, seat.row_index, seat.tier = "B", 0, 2
    await hall.best("ann", 1)  # there is a picture of the version before
    await hall.internal.PutInventory(request)
    await asyncio.sleep(1.1)
    assert seats_of(await hall.best("ann", 2, section="B")) == [15, 16]
    assert seats_of(await hall.best("bob", 4, tier=2)) in ([11, 12, 13, 14], [17, 18, 19, 20])
    assert (await refused(hall.best("cleo", 1, section="C")))[:2] == (Code.NOT_FOUND, "SECTION_NOT_FOUND")
    assert (await refused(hall.best("cleo", 1, tier=4)))[:2] == (Code.NOT_FOUND, "TIER_NOT_FOUND")
    assert (await refused(hall.best("cleo", 1, tier=3)))[1] == "SOLD_OUT"
    assert (await refused(hall.best("cleo", 1, section="A", tier=2)))[1] == "SOLD_OUT"


async def test_hold_best_available_gives_accessible_seats_when_asked(hall: Booth) -> None:
    request = grid(2)
    request.version = 3
    request.seats[4].accessible = request.seats[5].companion = True
    await hall.internal.PutInventory(request)
    assert seats_of(await hall.best("ann", 2)) in ([3, 4], [7, 8])
    assert seats_of(await hall.best("bob", 2, accessible=1)) == [5, 6]
    assert (await refused(hall.best("cleo", 2, accessible=1)))[1] == "TEMPORARILY_UNAVAILABLE"


@pytest.mark.parametrize("ask", [{"quantity": 0}, {"quantity": 51}, {"quantity": 2, "accessible": 3}, {"quantity": -1}])
async def test_hold_best_available_refuses_what_is_no_party(hall: Booth, ask: dict[str, Any]) -> None:
    assert (await refused(hall.best("ann", **ask)))[:2] == (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT")


async def test_hold_seats_takes_exactly_one_way_to_ask(hall: Booth) -> None:
    best, units = pb.BestAvailable(quantity=1), pb.GeneralAdmission(area_id=1, quantity=1)
    for ways in ({}, {"seat_ids": [1], "best_available": best}, {"best_available": best, "general_admission": units}):
        request = pb.HoldSeatsRequest(event_id=EVENT, **ways)
        call = hall.public.HoldSeats(request, metadata=caller("ann", key="k"))
        assert (await refused(call))[:2] == (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT")


async def test_the_rules_of_every_hold_are_those_of_the_best(hall: Booth) -> None:
    assert (await refused(hall.best("ann", 9)))[1:] == ("TOO_MANY_TICKETS", {"limit": "8", "used": "0"})
    assert (await refused(hall.best("ann", 1, event="evt_s1_99")))[1] == "EVENT_NOT_FOUND"
    assert (await refused(hall.best("ann", 1, event="evt_s9_99")))[1] == "EVENT_NOT_FOUND"
    assert seats_of(await hall.best("bob", 8)) in (
        [2, 3, 4, 5, 6, 7, 8, 9],
        [1, 2, 3, 4, 5, 6, 7, 8],
        [3, 4, 5, 6, 7, 8, 9, 10],
    )
    await hall.execute("UPDATE event SET sale_end_time = now() - interval '1 s'")
    assert (await refused(hall.best("cleo", 1)))[1] == "NOT_ON_SALE"


def readings() -> float:
    """Of pictures, by all bookings of this process."""
    (samples,) = (metric.samples for metric in picture.READS.collect())
    return next(sample.value for sample in samples if sample.name.endswith("_count"))


async def test_a_party_over_the_cap_is_refused_before_anybody_looks_for_its_seats(hall: Booth) -> None:
    before = readings()
    for quantity in (9, 50):
        answer = (Code.ABORTED, "TOO_MANY_TICKETS", {"limit": "8", "used": "0"})
        assert await refused(hall.best("ann", quantity)) == answer
    assert readings() == before
    await hall.hold("ann", 1, 2)
    assert (await refused(hall.best("ann", 9)))[2] == {"limit": "8", "used": "2"}
    assert (await refused(hall.best("ann", 7)))[2] == {"limit": "8", "used": "2"}  # the function's own answer
    assert readings() == before + 1


async def test_a_cap_that_was_changed_is_kept_to_at_once_and_replays_stand(hall: Booth) -> None:
    held = await hall.best("ann", 4, key="k")
    await hall.execute("UPDATE event SET tickets_per_account = 3, version = version + 1")
    assert (await refused(hall.best("bob", 4)))[1:] == ("TOO_MANY_TICKETS", {"limit": "3", "used": "0"})
    assert (await refused(hall.best("bob", 4, key="again")))[1:] == ("TOO_MANY_TICKETS", {"limit": "3", "used": "0"})
    assert (await hall.best("ann", 4, key="k")).hold_id == held.hold_id
    assert (await refused(hall.best("ann", 5, key="k")))[1] == "IDEMPOTENCY_KEY_REUSED"
    await hall.execute("UPDATE event SET tickets_per_account = 5, version = version + 1")
    assert len(seats_of(await hall.best("bob", 5))) == 5  # by what was known in memory it is over the cap
    await hall.execute("UPDATE event SET sale_end_time = clock_timestamp()")
    assert (await refused(hall.best("bob", 9)))[1] == "NOT_ON_SALE"


async def test_selection_closed_leaves_the_best_available_open(hall: Booth) -> None:
    picked = await hall.hold("ann", 1, key="k")
    request = grid(2, selection_mode=pb.SELECTION_MODE_BEST_AVAILABLE)
    request.version = 3
    await hall.internal.PutInventory(request)
    await hall.best("bob", 2)
    assert (await refused(hall.hold("cleo", 2)))[:2] == (Code.ABORTED, "SELECTION_CLOSED")
    assert (await hall.hold("ann", 1, key="k")).hold_id == picked.hold_id


async def test_an_old_picture_costs_a_lost_race_and_no_more(hall: Booth) -> None:
    assert seats_of(await hall.best("ann", 2)) == [5, 6]
    before = lost()
    await hall.hold("bob", 3)  # which best available here does not see: it could be at another replica
    assert seats_of(await hall.best("cleo", 2)) == [7, 8]
    assert lost() - before <= 1
    assert await hall.broken() == {}


async def test_what_expired_is_free_again(hall: Booth) -> None:
    held = [await hall.best(name, 4) for name in ("ann", "bob", "cleo", "dan", "eve")]
    await hall.age(held[1].hold_id, 10)
    assert seats_of(await hall.best("fay", 4)) == seats_of(held[1])


async def _crowd(booths: list[Booth], buyers: int) -> tuple[list[list[int]], Counter[str]]:
    """Everybody wants two at once: what was held, and what the others heard."""
    calls = (booths[number % len(booths)].best(f"fan-{number}", 2) for number in range(buyers))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    held = [seats_of(answer) for answer in answers if isinstance(answer, pb.HoldSeatsResponse)]
    reasons = Counter(reason_of(answer)[0] for answer in answers if isinstance(answer, grpc.RpcError))
    assert len(held) + reasons.total() == buyers
    return held, reasons


async def test_a_crowd_of_pairs_takes_every_seat_in_pairs(booth: Booth) -> None:
    await booth.internal.PutInventory(grid(10))
    before = lost()
    held, reasons = await _crowd([booth], 100)
    assert sorted(seat for seats in held for seat in seats) == list(range(1, 101))
    assert all(left + 1 == right and left % ROW for left, right in held)
    assert reasons == {"TEMPORARILY_UNAVAILABLE": 50}
    assert lost() == before  # calls of one process never race each other
    assert await booth.broken() == {}


async def test_without_what_is_in_hand_one_process_races_itself(
    booth: Booth, open_replica: Callable[..., Awaitable[Booth]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Picture, "take", lambda *_: None)
    await booth.internal.PutInventory(grid(10))
    unspread = await open_replica({"s1": booth.dsn}, spread=1)
    before = lost()
    held, _ = await _crowd([unspread], 100)
    assert lost() > before
    assert len({seat for seats in held for seat in seats}) == 2 * len(held)


async def _two_halls(
    open_booth: Callable[..., Awaitable[Booth]], open_replica: Callable[..., Awaitable[Booth]], spread: int
) -> list[Booth]:
    """Two bookings of 600 seats that know nothing of each other, each with a picture."""
    first = await open_booth("s1")
    await first.internal.PutInventory(grid(60))
    replicas = [await open_replica({"s1": first.dsn}, spread=spread) for _ in range(2)]
    for number, replica in enumerate(replicas):
        await replica.best(f"early-{number}", 2)
    return replicas


@pytest.mark.parametrize("spread", [best_seats.MOST_SPREAD, 1])
async def test_a_seat_that_is_gone_costs_a_replica_one_race_at_most(
    open_booth: Callable[..., Awaitable[Booth]], open_replica: Callable[..., Awaitable[Booth]], spread: int
) -> None:
    """Without spread both replicas run for the same seats, in the same order; even so everybody is served."""
    replicas = await _two_halls(open_booth, open_replica, spread)
    before = lost()
    for _ in range(10):
        held, reasons = await _crowd(replicas, 90)
        if not reasons:
            break
        assert set(reasons) == {"CONTENDED"}  # lost too many in a row: asks again, while the others hear the same again
    assert len(held) == 90
    assert len({seat for seats in held for seat in seats}) == 180
    assert lost() - before <= 180 + 2 * 2
    assert await replicas[0].broken() == {}


async def test_without_marking_what_is_gone_a_replica_loses_the_same_race_again(
    open_booth: Callable[..., Awaitable[Booth]],
    open_replica: Callable[..., Awaitable[Booth]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(picture, "FRESH_SECONDS", 1000.0)
    monkeypatch.setattr(picture, "STALE_SECONDS", 1000.0)
    monkeypatch.setattr(best_seats, "RACES_PER_PICTURE", 1000)
    replicas = await _two_halls(open_booth, open_replica, 1)
    monkeypatch.setattr(Picture, "mark", lambda *_: None)
    held, reasons = await _crowd(replicas, 90)
    assert reasons["CONTENDED"] > 0
    assert len({seat for seats in held for seat in seats}) == 2 * len(held)


async def test_two_replicas_sell_every_seat(
    open_booth: Callable[..., Awaitable[Booth]], open_replica: Callable[..., Awaitable[Booth]]
) -> None:
    first = await open_booth("s1")
    await first.internal.PutInventory(grid(10))
    held, reasons = await _crowd([first, await open_replica({"s1": first.dsn})], 100)
    assert sorted(seat for seats in held for seat in seats) == list(range(1, 101))
    assert set(reasons) <= {"TEMPORARILY_UNAVAILABLE", "CONTENDED"}
    assert await first.broken() == {}
