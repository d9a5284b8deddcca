"""A change of prices in the middle of a hold."""

import asyncio

from tests.integration.booking.booth import inventory
from tests.integration.booking.replicas import Replicas
from tests.integration.booking.rounds import closed_gate, put_gate, until_they_wait
from tests.integration.booking.schedules import WRITE, guarded_or_not

ONE_VERSION = " AND e.version = hold_seats.version[q.place]"
OLD, NEW = 5250, 7950  # with the fee of 250


@guarded_or_not
async def test_hold_seats_judges_and_prices_by_one_version(replicas: Replicas, guarded: bool) -> None:
    """The new version comes when the prices have been read. The hold is run again, by it; the control keeps the old
    price, though it is born after the new one was on sale."""
    a, b = replicas.both
    if not guarded:
        await replicas.take_out("hold_seats", ONE_VERSION)
    await put_gate(replicas, "hold_seats", WRITE)
    dearer = inventory(version=2)
    dearer.tiers[0].price.amount_minor = 7700
    async with closed_gate(a):
        asked = asyncio.create_task(a.hold("ann", 1))
        await until_they_wait(a)
        await asyncio.wait_for(b.internal.PutInventory(dearer), 10)
    held = await asked
    assert held.total.amount_minor == (NEW if guarded else OLD)
    assert (await b.get_hold("ann", held.hold_id)).total == held.total
