"""Many at once, over several connections. Each race has a control: the same steps, not in one script, break."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.waitingroom.errors import NotYet
from services.waitingroom.rows import Lease
from services.waitingroom.store.scripts import keys_of
from tests.integration.waitingroom.room import EVENT, Room

LINE, POSITIONS, _, _, LEASES, _ = keys_of(EVENT)


@pytest.fixture
async def rooms(redis_url: str) -> AsyncIterator[list[Room]]:
    """Several service processes, at START."""
    opened = [Room.open(redis_url) for _ in range(4)]
    for room in opened:
        room.at(0)
    yield opened
    for room in opened:
        await room.client.aclose()


async def join_in_steps(room: Room, account: str) -> int:
    """What join_line does, as commands of their own."""
    known = await room.client.hget(POSITIONS, account)
    if known:
        return int(known)
    position = int(await room.client.hincrby(LINE, "tail", 1))
    await room.client.hset(POSITIONS, account, position)
    return position


async def tick_in_steps(room: Room, read: asyncio.Barrier) -> int:
    """What a tick does when nobody is inside and nobody promised, as commands of their own; all have
    read before one writes."""
    capacity, tail, admitted = (int(n or 0) for n in await room.client.hmget(LINE, "capacity", "tail", "admitted"))
    inside = await room.client.zcard(LEASES)
    await read.wait()
    advanced = min(capacity - inside - admitted, tail - admitted)
    await room.client.hincrby(LINE, "admitted", advanced)
    return advanced


async def join_500_times(rooms: list[Room], join: object) -> dict[str, set[int]]:
    calls = [(f"fan{number % 100}", rooms[number % 4]) for number in range(500)]
    positions = await asyncio.gather(*(join(room, account) for account, room in calls))  # type: ignore[operator]
    given: dict[str, set[int]] = {}
    for (account, _), position in zip(calls, positions, strict=True):
        given.setdefault(account, set()).add(position)
    return given


async def test_join_line_500_times_at_once_by_100_accounts_is_one_dense_position_each(rooms: list[Room]) -> None:
    await rooms[0].announce()
    given = await join_500_times(rooms, Room.join)
    assert all(len(positions) == 1 for positions in given.values())
    assert sorted(positions.pop() for positions in given.values()) == list(range(1, 101))
    assert (await rooms[0].lines.get_line(EVENT)).tail == 100


async def test_joining_in_steps_gives_an_account_several_positions(rooms: list[Room]) -> None:
    await rooms[0].announce()
    given = await join_500_times(rooms, join_in_steps)
    assert any(len(positions) > 1 for positions in given.values())


async def test_enter_event_at_once_by_one_account_is_one_lease_and_one_claim(rooms: list[Room]) -> None:
    room = rooms[0]
    await room.announce(capacity=5)
    for account in ("ann", "bob"):
        await room.join(account)
    await room.lines.tick(EVENT)
    for number, other in enumerate(rooms):
        other.at(1 + number)  # processes' calls come at different times: another lease would end at another
    leases = await asyncio.gather(*(rooms[number % 4].enter("ann", 1) for number in range(40)))
    assert len(set(leases)) == 1
    assert await room.client.zcard(LEASES) == 1
    assert await room.client.hget(keys_of(EVENT)[3], "c2") == "1"


async def test_enter_event_at_once_by_all_admits_those_passed_and_no_other(rooms: list[Room]) -> None:
    await rooms[0].announce(capacity=30)
    for number in range(1, 101):
        await rooms[0].join(f"fan{number}")
    await rooms[0].lines.tick(EVENT)
    results = await asyncio.gather(
        *(rooms[n % 4].leases.enter_event(EVENT, f"fan{n}", n, 1_800_000_000) for n in range(1, 101)),
        return_exceptions=True,
    )
    assert [isinstance(result, Lease) for result in results] == [number <= 30 for number in range(1, 101)]
    assert all(isinstance(result, NotYet) for result in results[30:])


async def test_tick_by_several_admitters_at_once_advances_once(rooms: list[Room]) -> None:
    await rooms[0].announce(capacity=10)
    for number in range(100):
        await rooms[0].join(f"fan{number}")
    ticks = await asyncio.gather(*(rooms[number % 4].lines.tick(EVENT) for number in range(40)))
    assert sorted(tick.outcome for tick in ticks) == ["ADVANCED", *["TOO_SOON"] * 39]
    assert (await rooms[0].lines.get_line(EVENT)).admitted_through == 10


async def test_ticking_in_steps_admits_the_zone_several_times(rooms: list[Room]) -> None:
    await rooms[0].announce(capacity=10)
    for number in range(100):
        await rooms[0].join(f"fan{number}")
    read = asyncio.Barrier(len(rooms))
    await asyncio.gather(*(tick_in_steps(room, read) for room in rooms))
    assert (await rooms[0].lines.get_line(EVENT)).admitted_through == 40
