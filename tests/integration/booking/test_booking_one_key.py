"""One key, asked with twice at once, for seats apart: the house chooses them, and need not choose the same again. In
one process the gatherer keeps the two apart, in the database the account's lock does, and behind both stands the index
of the keys. Each is seen by the case in which those before it are out; the control is without the index, too."""

import asyncio
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.integration.booking.booth import Booth
from tests.integration.booking.schedules import HOLD_LOCK, connections, hold, take_out, until_it_waits
from tests.integration.booking.test_booking_batches import request
from tests.integration.booking.test_booking_gather import ask_all, held_up, touched_by

INDEX = "hold_is_unique_by_key"

guarded_index_and_control = pytest.mark.parametrize("guard", ["guarded", "index", "control"])


async def set_guards(booth: Booth, guard: str, *locks: str) -> None:
    """Takes out of `hold_seats` and of the tables what the case is without."""
    if guard != "guarded" and locks:
        await take_out(booth, "hold_seats", *locks, instead="NULL;")
    if guard == "control":
        await booth.execute(f"DROP INDEX {INDEX}")


async def holds_of_the_key(booth: Booth) -> int:
    """That ann has by it."""
    (row,) = await booth.execute("SELECT count(*) FROM hold WHERE account = 'ann' AND idempotency_key = 'k'")
    count: int = row["count"]
    return count


@guarded_index_and_control
async def test_one_key_twice_in_one_call(booth: Booth, guard: str) -> None:
    """The index fails the call; each runs again alone, and whoever is second finds what the first made."""
    await set_guards(booth, guard)
    mine = request("ann", 1, 2)
    touched = touched_by if guard == "guarded" else lambda one: one.seats
    with capture_logs() as logs:
        async with held_up(booth, touched) as (gatherer, sizes, gate):
            reruns = gatherer.reruns._value.get()
            asked = (mine, mine._replace(seats=(3, 4)), request("bob", 5))
            one, other, bob = await ask_all(gatherer, gate, *asked)
            reruns = gatherer.reruns._value.get() - reruns
    failed = [log for log in logs if INDEX in log.get("error", "")]
    assert bob.word == "HELD"
    if guard == "control":
        assert (one.word, other.word, sizes, reruns, failed) == ("HELD", "HELD", [1, 3], 0, [])
        assert one.hold != other.hold
        assert await holds_of_the_key(booth) == 2
        return
    assert sorted((one.word, other.word)) == ["HELD", "REPLAY"]
    assert one.hold == other.hold
    assert (sizes, reruns, len(failed)) == (([1, 2, 1], 0, 0) if guard == "guarded" else ([1, 3], 3, 1))
    assert await holds_of_the_key(booth) == 1
    assert await booth.seats() == {"available": 16, "held": 4}
    assert await booth.broken() == {}


@guarded_index_and_control
async def test_one_key_in_two_sessions(booth: Booth, guard: str) -> None:
    """The second comes while the first has not committed: it waits at the account's lock and finds the key used, or
    waits at the index and fails. Without either both have seats."""
    await set_guards(booth, guard, HOLD_LOCK)
    async with connections(booth, 2) as (one, other):
        transaction = one.transaction()
        await transaction.start()
        first = await hold(one, "ann", "k", 1)
        task = asyncio.create_task(hold(other, "ann", "k", 2))
        await until_it_waits(task, other, booth)
        assert task.done() == (guard == "control")
        await transaction.commit()
        second: Any = (await asyncio.gather(task, return_exceptions=True))[0]
    assert first["verdict"] == ["HELD"]
    assert await holds_of_the_key(booth) == (2 if guard == "control" else 1)
    if guard == "guarded":
        assert second["verdict"] == ["REUSED"]
    elif guard == "index":
        assert isinstance(second, asyncpg.UniqueViolationError)
        assert second.constraint_name == INDEX
    else:
        assert second["verdict"] == ["HELD"]
