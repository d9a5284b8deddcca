"""Sweepers beside one another, and beside those who take what they sweep."""

import asyncio
from datetime import timedelta

from rowlock.booking.v1 import booking_pb2 as pb

from services.booking.expiry import sweep_holds
from tests.integration.booking.booth import Booth, won
from tests.integration.booking.schedules import GRACE, connections, guarded_or_not, take_out, until_it_waits
from tests.integration.booking.test_booking_area_races import LOST
from tests.integration.booking.test_booking_areas import floor


@guarded_or_not
async def test_sweepers_work_side_by_side(booth: Booth, guarded: bool) -> None:
    """One is in the middle of its batch; another sweeps what that one has not, and waits for nothing."""
    for seat in range(1, 21):
        await booth.age((await booth.hold(f"fan-{seat}", seat)).hold_id, 30 - seat)
    if not guarded:
        await take_out(booth, "sweep_holds", " SKIP LOCKED")
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        assert await first.fetchval("SELECT sweep_holds(5, $1)", GRACE) == 5
        task = asyncio.create_task(second.fetchval("SELECT sweep_holds(10, $1)", GRACE))
        await until_it_waits(task, second, booth)
        assert task.done() == guarded
        await transaction.rollback()
        assert await task == 10
        assert await first.fetchval("SELECT sweep_holds(20, $1)", GRACE) == 10
    assert await booth.seats() == {"available": 20}
    assert await booth.broken() == {}


async def test_sweep_holds_against_takeovers_and_confirms(booth: Booth) -> None:
    """Whoever of the three gets an expired hold's seats or units, the other two get nothing of it."""
    await booth.internal.PutInventory(floor(8))
    for turn in range(8):
        seats, floor_hold = await booth.hold(f"a-{turn}", 1, 2), await booth.units(f"b-{turn}", 8)
        for hold in (seats, floor_hold):
            await booth.age(hold.hold_id, 1)
        _, _, *won_by = await asyncio.gather(
            sweep_holds(booth.shards["s1"], grace=timedelta(0)),
            sweep_holds(booth.shards["s1"], grace=timedelta(0)),
            won(booth.order(f"a-{turn}", seats.hold_id), "HOLD_EXPIRED"),
            won(booth.order(f"b-{turn}", floor_hold.hold_id), "HOLD_EXPIRED"),
            won(booth.hold(f"c-{turn}", 1, 2), "SEAT_UNAVAILABLE"),
            won(booth.units(f"d-{turn}", 8), *LOST),
        )
        ordered_seats, ordered_units, held_seats, held_units = won_by
        assert not (ordered_seats and held_seats)
        assert not (ordered_units and held_units)
        assert await booth.broken() == {}
        for order_id in filter(None, (ordered_seats, ordered_units)):
            await booth.outcome(order_id, pb.PAYMENT_OUTCOME_FAILED, "CARD_DECLINED")
        for account, held in ((f"c-{turn}", held_seats), (f"d-{turn}", held_units)):
            if held:
                await booth.release(account, held.hold_id)
        await sweep_holds(booth.shards["s1"], grace=timedelta(0))
    assert (await booth.seats(), await booth.areas()) == ({"available": 20}, {1: {"available": 8}})


async def test_a_sweeper_passes_over_a_hold_with_a_seat_that_is_locked(booth: Booth) -> None:
    held, other = await booth.hold("ann", 1, 2), await booth.hold("bob", 3)
    for hold in (held, other):
        await booth.age(hold.hold_id, 6)
    async with connections(booth, 2) as (first, second):
        transaction = first.transaction()
        await transaction.start()
        await first.execute("SELECT FROM seat WHERE seat_id = 2 FOR NO KEY UPDATE")
        task = asyncio.create_task(second.fetchval("SELECT sweep_holds(10, $1)", GRACE))
        await until_it_waits(task, second, booth)
        assert task.done()
        assert await task == 1
        rows = await booth.execute("SELECT seat_id FROM seat WHERE state = 'HELD' ORDER BY seat_id")
        assert [row["seat_id"] for row in rows] == [1, 2]
        await transaction.commit()
    assert await sweep_holds(booth.shards["s1"], grace=GRACE) == 1
    assert await booth.seats() == {"available": 20}
    assert await booth.broken() == {}
