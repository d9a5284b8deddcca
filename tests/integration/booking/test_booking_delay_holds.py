"""Holds at two bookings that are 20 ms away from their database: takeovers, the budget, the last block."""

import random
from datetime import timedelta

from rowlock.booking.v1 import booking_pb2 as pb

from services.booking.expiry import sweep_holds
from tests.integration.booking.replicas import Replicas
from tests.integration.booking.rounds import answered, contest, failures, put_gate, run_rounds, seeded_and_control
from tests.integration.booking.schedules import HOLD_LOCK, PASSING_LOCK, RECORD_LOCK, TRY_LOCK, WAITING_LOCK, WRITE


async def unlock_seats(replicas: Replicas) -> None:
    """`hold_seats` decides on seats that another may be about to write."""
    await replicas.take_out("hold_seats", WAITING_LOCK, PASSING_LOCK, instead="ORDER BY s.event_id, s.seat_id) z) q;")
    await replicas.take_out("hold_seats", RECORD_LOCK, instead=") q;")


@seeded_and_control
async def test_hold_seats_two_take_over_one_expired_hold(replicas: Replicas, seed: int) -> None:
    """Both want its seat 2, or each another of its seats. Within the grace or after it, with sweepers about."""
    a, b = replicas.both
    await put_gate(replicas, "hold_seats", WRITE)
    if not seed:
        await unlock_seats(replicas)

    async def once(dice: random.Random) -> list[str]:
        old = await a.hold("old", 1, 2, 3)
        await a.age(old.hold_id, dice.choice((1, 6)))
        others = dice.choice(((2, 3), (2, 3), (3,)))
        sweeps = (sweep_holds(booth.shards["s1"], grace=timedelta(seconds=5)) for booth in replicas.both)
        found = await contest(replicas, dice, a.hold("bob", 1, 2), b.hold("cid", *others), *sweeps)
        takers = found[:2]
        wrong = failures(takers, "SEAT_UNAVAILABLE")
        if len(answered(takers)) != 3 - len(others):
            wrong.append(f"{len(answered(takers))} takers")
        if any(isinstance(taker, tuple) and taker[1] != {"lostSeatIds": "2"} for taker in takers):
            wrong.append(f"not what was lost: {takers}")
        if (await a.get_hold("old", old.hold_id)).state != pb.HOLD_STATE_EXPIRED:
            wrong.append("the old hold goes on")
        while await sweep_holds(a.shards["s1"], grace=timedelta(0)):
            pass
        held = 2 if len(others) == 2 else 3
        return wrong if await a.seats() == {"available": 20 - held, "held": held} else [*wrong, "seats are left behind"]

    await run_rounds(replicas, seed, once, breaks="hold_without_its_seats")


@seeded_and_control
async def test_hold_seats_keeps_an_accounts_budget_over_two_bookings(replicas: Replicas, seed: int) -> None:
    """Three holds in ten minutes; two were made and let go. Of four at once one is the third."""
    a, b = replicas.both
    await a.execute("UPDATE event SET holds_per_account = 3")
    await put_gate(replicas, "hold_seats", WRITE)
    if not seed:
        await replicas.take_out("hold_seats", HOLD_LOCK, instead="NULL;")
        await replicas.take_out("hold_seats", TRY_LOCK, instead="false")

    async def once(dice: random.Random) -> list[str]:
        for seat in (1, 2):
            await a.release("ann", (await a.hold("ann", seat)).hold_id)
        calls = (booth.hold("ann", seat) for booth, seat in ((a, 3), (b, 4), (a, 5), (b, 6)))
        found = await contest(replicas, dice, *calls)
        (row,) = await a.execute("SELECT count(*) FROM hold")
        wrong = failures(found, "HOLD_BUDGET_SPENT")
        return wrong if row["count"] == 3 else [*wrong, "over the budget" if row["count"] > 3 else "under the budget"]

    await run_rounds(replicas, seed, once, breaks="over the budget")


@seeded_and_control
async def test_hold_best_available_gives_the_last_block_to_one(replicas: Replicas, seed: int) -> None:
    """Two seats are left, side by side. Six want them as the best, and one has picked one of them."""
    a, b = replicas.both
    await put_gate(replicas, "hold_seats", WRITE)
    if not seed:
        await unlock_seats(replicas)

    async def once(dice: random.Random) -> list[str]:
        left = dice.choice((1, 5, 8, 11, 18))
        await a.execute("UPDATE seat SET state = 'BLOCKED' WHERE seat_id NOT IN ($1, $2)", left, left + 1)
        best = ((a, b)[number % 2].best(f"fan-{number}", 2) for number in range(6))
        found = await contest(replicas, dice, *best, b.hold("picker", left + dice.randint(0, 1)))
        wrong = failures(found[:6], "TEMPORARILY_UNAVAILABLE", "NO_BLOCK") + failures(found[6:], "SEAT_UNAVAILABLE")
        return wrong if len(answered(found)) == 1 else [*wrong, f"{len(answered(found))} got the last block"]

    await run_rounds(replicas, seed, once, breaks="hold_without_its_seats")
