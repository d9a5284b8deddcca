"""Which of an area's counters gives: an account's own, so that a crowd is spread over all, and then those behind it."""

from collections.abc import Awaitable, Callable

import pytest

from tests.integration.booking.booth import Booth
from tests.integration.booking.schedules import guarded_or_not, number_of, take_out
from tests.integration.booking.test_booking_areas import counters, floor

COUNTERS = 16  # of an area of 1000 units
ACCOUNTS = 100
MANY = 12  # counters that 100 accounts find at least; they find 16 nearly always, and which is the same every time
HASHED = "abs(hashtext(p_account)::bigint) % count(*)"


@pytest.fixture
async def booth(open_booth: Callable[..., Awaitable[Booth]]) -> Booth:
    """An area with all its counters; an account may have and hold whatever a test needs."""
    booth = await open_booth("s1")
    await booth.internal.PutInventory(floor(1000, version=1, tickets_per_account=50, holds_per_account=50))
    assert len(await counters(booth)) == COUNTERS
    return booth


async def take(booth: Booth, account: str, quantity: int = 1, *, key: str = "k") -> tuple[list[int], list[int]]:
    """Holds units: the counters they came from, and how many from each."""
    held = await booth.units(account, quantity, key=key)
    sql = "SELECT counters, amounts FROM hold WHERE hold_id = $1"
    (row,) = await booth.execute(sql, number_of(held.hold_id))
    return row["counters"], row["amounts"]


async def leave_one_each(booth: Booth) -> None:
    """All but one unit of each counter were never there."""
    await booth.execute("UPDATE area_counter SET available = 1")
    await booth.execute("UPDATE area SET capacity = $1", COUNTERS)


async def behind_the_first(booth: Booth) -> str:
    """An account whose counter has others before it and behind it: to begin anywhere else would show."""
    for number in range(ACCOUNTS):
        (counter,), _ = await take(booth, f"fan-{number}")
        if 2 <= counter < COUNTERS - 2:
            await booth.execute("DELETE FROM hold")
            return f"fan-{number}"
    raise AssertionError("all accounts begin at the edges")


@guarded_or_not
async def test_accounts_are_spread_over_the_counters(booth: Booth, guarded: bool) -> None:
    """In the control everybody begins at the first."""
    if not guarded:
        await take_out(booth, "hold_area", HASHED, instead="0")
    before = await counters(booth)
    for number in range(ACCOUNTS):
        await booth.units(f"fan-{number}", 1)
    taken = [was - now for was, now in zip(before, await counters(booth), strict=True)]
    assert sum(taken) == ACCOUNTS
    touched = len([units for units in taken if units])
    assert touched >= MANY if guarded else touched <= 2  # the first has 63 units
    assert await booth.broken() == {}


async def test_an_account_always_begins_at_the_same_counter(booth: Booth) -> None:
    found = {account: [await take(booth, account, key=str(n)) for n in range(4)] for account in ("ann", "bob", "cid")}
    for places in found.values():
        assert places == [places[0]] * 4
    assert await booth.broken() == {}


async def test_an_account_whose_counter_is_empty_finds_the_next_and_begins_again_behind_the_last(booth: Booth) -> None:
    account = await behind_the_first(booth)
    await leave_one_each(booth)
    found = [await take(booth, account, key=f"again-{number}") for number in range(COUNTERS)]
    first = found[0][0][0]
    assert first >= 2
    assert found == [([(first + number) % COUNTERS], [1]) for number in range(COUNTERS)]
    assert await booth.areas() == {1: {"held": COUNTERS}}
    assert await booth.broken() == {}


async def test_units_of_several_counters_are_the_accounts_own_and_those_behind_it(booth: Booth) -> None:
    """No counter has three; what is left is gathered in the first."""
    account = await behind_the_first(booth)
    await leave_one_each(booth)
    places, amounts = await take(booth, account, 3, key="again")
    assert places == [places[0], places[0] + 1, places[0] + 2]
    assert places[0] >= 2
    assert amounts == [1, 1, 1]
    assert await counters(booth) == [COUNTERS - 3] + [0] * (COUNTERS - 1)
    assert await booth.broken() == {}
