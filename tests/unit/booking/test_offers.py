"""The cache of offers over a store that a test holds up."""

import asyncio
from array import array
from dataclasses import dataclass, field
from datetime import UTC, datetime

from services.booking.offers import Offers
from services.booking.rows import Offer, PricedSeat, Sale

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def offer(version: int = 1, seats: int = 10) -> Offer:
    """Odd seats cost 100 × version, even ones 200 × version; a tenth of it is the fee."""
    ids = array("i", range(1, seats + 1))
    tiers = array("i", [2 - seat % 2 for seat in ids])
    return Offer(
        version,
        Sale(NOW, NOW, 8),
        "EUR",
        {1: 100 * version, 2: 200 * version},
        {1: 10 * version, 2: 20 * version},
        ids,
        tiers,
        ["A"] * seats,
        ["1"] * seats,
        [str(seat) for seat in ids],
    )


@dataclass
class Store:
    """Each load waits until the test lets it go, and gives what was there when it began."""

    version: int = 1
    seats: int = 10
    loads: list[tuple[str, int]] = field(default_factory=list)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def load(self, shard: str, event: int) -> Offer | None:
        self.loads.append((shard, event))
        self.began.set()
        version = self.version
        await self.gate.wait()
        return offer(version, self.seats) if event < 100 else None


def test_an_offer_names_and_prices_its_seats() -> None:
    seats, fees = offer().price([2, 5])
    assert seats == (PricedSeat(2, "A", "1", "2", 200), PricedSeat(5, "A", "1", "5", 100))
    assert fees == 30


async def test_get_loads_once_for_all_that_ask_at_once() -> None:
    store = Store()
    offers = Offers(store.load)
    tasks = [asyncio.create_task(offers.get("s1", 1)) for _ in range(5)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    store.gate.set()
    found = await asyncio.gather(*tasks[1:])
    assert [one.version for one in found if one] == [1] * 4
    assert await offers.get("s1", 1)
    assert store.loads == [("s1", 1)]


async def test_get_notices_a_later_version_also_while_an_old_one_is_loaded() -> None:
    store = Store()
    offers = Offers(store.load)
    old = asyncio.create_task(offers.get("s1", 1))
    await store.began.wait()
    store.version = 2
    new = asyncio.create_task(offers.get("s1", 1, version=2))
    store.gate.set()
    found = await asyncio.gather(old, new)
    assert [one.version for one in found if one] == [1, 2]
    assert (await offers.get("s1", 1)) is found[1]


async def test_an_event_that_is_not_there_is_not_remembered() -> None:
    store = Store()
    store.gate.set()
    offers = Offers(store.load)
    assert await offers.get("s1", 100) is None
    assert await offers.get("s1", 100) is None
    assert len(store.loads) == 2


async def test_the_least_recently_used_go_when_there_are_too_many_seats() -> None:
    store = Store()
    store.gate.set()
    offers = Offers(store.load, most_seats=25)
    for event in (1, 2, 1, 3):
        await offers.get("s1", event)
    assert list(offers.offers) == [("s1", 1), ("s1", 3)]
