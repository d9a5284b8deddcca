"""Three databases: whatever is done to one event, the databases of others do not change; and each has what goes on by
itself."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.ids import format_id, parse_id
from services.booking.monitor import FAILURES
from services.booking.rows import AbandonAnswer
from services.booking.settings import Settings
from services.booking.store.invariants import NAMES
from services.booking.store.stream import OrderStream
from services.booking.workers import Workers
from tests.integration.booking.booth import Booth, Charges, caller, inventory, timestamp
from tests.integration.booking.test_booking_invariants import gauges, watcher
from tests.integration.booking.test_booking_stream import entries
from tests.support.delay import delay_proxy

SHARDS = ("s1", "s2", "s3")
EVENTS = {name: format_id("evt", name, 7) for name in SHARDS}  # of one number: only the shard tells them apart
UNITS = 60

STATES = """
SELECT 'seats ' || state AS what, count(*) AS many FROM seat GROUP BY state
 UNION ALL SELECT 'holds ' || state || CASE WHEN swept THEN ' swept' ELSE '' END, count(*) FROM hold GROUP BY 1
 UNION ALL SELECT 'orders ' || state, count(*) FROM orders GROUP BY state
 UNION ALL SELECT 'tickets ' || state, count(*) FROM ticket GROUP BY state
 UNION ALL SELECT 'claimed', count(*) FROM orders WHERE abandon_due_time IS NOT NULL
 UNION ALL SELECT 'refunds', count(*) FROM refund_due
 UNION ALL SELECT 'units', sum(available) FROM area_counter
"""


@pytest.fixture
async def booth(open_booth: Callable[..., Awaitable[Booth]]) -> Booth:
    """An event of twenty seats and sixty units on each shard; buyers may cancel."""
    booth = await open_booth(*SHARDS)
    await put_events(booth)
    return booth


async def put_events(booth: Booth) -> None:
    """The same on each."""
    end = timestamp(datetime.now(UTC) + timedelta(hours=1))
    floor = pb.InventoryArea(area_id=1, name="Floor", capacity=UNITS, tier=1)
    for event in EVENTS.values():
        await booth.internal.PutInventory(inventory(event, areas=[floor], cancel_end_time=end, resale=True))


async def states(booth: Booth, shard: str) -> Counter[str]:
    """All that is in a database, counted."""
    rows = await booth.shards[shard].pool.fetch(STATES)
    return Counter({row["what"]: row["many"] for row in rows if row["many"]})


async def others(booth: Booth, shard: str) -> dict[str, Counter[str]]:
    """The databases that must not change."""
    return {name: await states(booth, name) for name in SHARDS if name != shard}


async def hold_units(booth: Booth, account: str, quantity: int, event: str) -> pb.HoldSeatsResponse:
    units = pb.GeneralAdmission(area_id=1, quantity=quantity)
    request = pb.HoldSeatsRequest(event_id=event, general_admission=units)
    metadata = caller(account, event=event, key=f"{account}-units")
    answer: pb.HoldSeatsResponse = await booth.public.HoldSeats(request, metadata=metadata)
    return answer


async def expire(booth: Booth, shard: str) -> None:
    """The holds of one database have been over for a minute."""
    pool = booth.shards[shard].pool
    await pool.execute("UPDATE hold SET expires_at = expires_at - interval '11 min' WHERE state = 'ACTIVE'")
    await pool.execute("UPDATE seat SET hold_expires_at = hold_expires_at - interval '11 min' WHERE state = 'HELD'")


def shard_of(prefix: str, text: str) -> str:
    found = parse_id(prefix, text)
    assert found
    return found[0]


@pytest.mark.parametrize("shard", SHARDS)
async def test_every_way_to_hold_and_to_end_is_on_the_events_shard(booth: Booth, shard: str) -> None:
    event, before = EVENTS[shard], await others(booth, shard)
    best, units = await booth.best("ann", 3, event=event), await hold_units(booth, "bob", 4, event)
    picked = await booth.hold("cid", 20, event=event)
    assert {shard_of("hld", held.hold_id) for held in (best, units, picked)} == {shard}
    assert await states(booth, shard) == {"seats HELD": 4, "seats AVAILABLE": 16, "holds ACTIVE": 3, "units": UNITS - 4}
    await booth.release("cid", picked.hold_id)
    orders = [await booth.order("ann", best.hold_id), await booth.order("bob", units.hold_id)]
    for order in orders:
        await booth.outcome(order, pb.PAYMENT_OUTCOME_SUCCEEDED)
    await booth.workers.issuers[shard].run_once()
    sold = Counter({"seats SOLD": 3, "seats AVAILABLE": 17, "units": UNITS - 4, "tickets VALID": 7})
    ended = Counter({"holds CONFIRMED swept": 2, "holds RELEASED swept": 1})
    assert await states(booth, shard) == sold + ended + Counter({"orders CONFIRMED": 2})
    for account, order in zip(("ann", "bob"), orders, strict=True):
        assert (await booth.cancel(account, order)).state == pb.ORDER_STATE_CANCELLED
    back = Counter({"seats AVAILABLE": 20, "units": UNITS, "tickets REVOKED": 7, "refunds": 2})
    assert await states(booth, shard) == back + ended + Counter({"orders CANCELLED": 2})
    assert await others(booth, shard) == before
    assert await booth.broken() == {}


@pytest.mark.parametrize("shard", SHARDS)
async def test_a_sweeper_frees_what_is_on_its_shard(booth: Booth, shard: str) -> None:
    for name, event in EVENTS.items():
        await booth.hold("ann", 1, 2, event=event)
        await hold_units(booth, "bob", 4, event)
        await expire(booth, name)
    before = await others(booth, shard)
    (sweeper,) = [worker for worker in booth.workers.sweepers if worker.name == f"sweep_holds_{shard}"]
    assert await sweeper.run_once() == 2
    assert await states(booth, shard) == {"seats AVAILABLE": 20, "holds EXPIRED swept": 2, "units": UNITS}
    assert await others(booth, shard) == before
    assert {"holds ACTIVE", "seats HELD"} <= before[next(iter(before))].keys()


@dataclass
class GivingUp(Charges):
    """Stands where payments is: gives up every order that it is asked about, and remembers which."""

    given_up: list[str] = field(default_factory=list)

    async def abandon_order(self, order_id: str) -> AbandonAnswer:
        self.given_up.append(order_id)
        return AbandonAnswer("FAILED", "ABANDONED")


def settings_of(booth: Booth) -> Settings:
    """As they are when nothing is said."""
    return Settings(
        shards=",".join(f"{name}={shard.dsn}" for name, shard in booth.shards.items()), payments_target="x:1"
    )


def workers_of(booth: Booth, **changes: Any) -> Workers:
    """Of one more process."""
    return Workers(shards=booth.shards, sales=booth.workers.sales, waitingroom=None, **changes)


@pytest.mark.parametrize("shard", SHARDS)
async def test_orders_past_their_bound_are_claimed_and_given_up_on_their_shard(booth: Booth, shard: str) -> None:
    made = {}
    for name, event in EVENTS.items():
        made[name] = await booth.order("ann", (await booth.hold("ann", 1, event=event)).hold_id)
        await booth.shards[name].pool.execute("UPDATE orders SET create_time = create_time - interval '20 min'")
    before, payments = await others(booth, shard), GivingUp()
    workers = workers_of(booth, payments=payments, settings=settings_of(booth))
    (abandoner,) = [worker for worker in workers.abandoners if worker.name == f"abandon_orders_{shard}"]
    assert await abandoner.run_once() == 1
    assert payments.given_up == [made[shard]]
    failed = {"seats AVAILABLE": 20, "holds CONFIRMED swept": 1, "orders FAILED": 1, "claimed": 1, "units": UNITS}
    assert await states(booth, shard) == failed
    assert await others(booth, shard) == before
    assert await booth.broken() == {}


async def test_the_stream_has_orders_of_all_three(booth: Booth, redis_url: str) -> None:
    made = {}
    for name, event in EVENTS.items():
        made[name] = await booth.order("ann", (await booth.hold("ann", 1, 2, event=event)).hold_id)
        await booth.outcome(made[name], pb.PAYMENT_OUTCOME_SUCCEEDED)
        await booth.cancel("ann", made[name])
    stream = OrderStream(redis_url)
    workers = workers_of(booth, payments=booth.charges, settings=settings_of(booth), stream=stream)
    assert [relay.name for relay in workers.streams] == [f"relay_orders_{name}" for name in SHARDS]
    for _ in range(2):  # an order's messages go out in turn
        assert [await relay.run_once() for relay in workers.streams] == [1, 1, 1]
    await stream.close()
    told = await entries(redis_url)
    found = [(each["order_id"], each["event_id"], each["kind"]) for each in told]
    assert found == [(made[name], EVENTS[name], kind) for kind in ("confirmed", "cancelled") for name in SHARDS]
    assert {json.loads(each["payload"])["account"] for each in told} == {"ann"}


@pytest.mark.parametrize("shard", SHARDS)
async def test_a_violation_on_one_shard_is_told_with_its_ids(booth: Booth, shard: str) -> None:
    orders = {
        name: await booth.order("ann", (await booth.hold("ann", 1, event=event)).hold_id)
        for name, event in EVENTS.items()
    }
    await booth.shards[shard].pool.execute("UPDATE orders SET total_amount = total_amount + 1")
    await booth.shards[shard].pool.execute("UPDATE area_counter SET available = available - 1")
    invariants = await booth.check_invariants()
    broken = {found.name: (found.violations, list(found.examples)) for found in invariants if found.violations}
    assert broken == {
        "order_total_is_not_its_prices": (1, [orders[shard]]),
        "area_units_do_not_add_up": (1, [f"{EVENTS[shard]} area 1"]),
    }
    await watcher(booth).run_once()
    kept = dict.fromkeys(NAMES, 0)
    assert {name: gauges(name) for name in SHARDS} == dict.fromkeys(SHARDS, kept) | {
        shard: kept | {"order_total_is_not_its_prices": 1, "area_units_do_not_add_up": 1}
    }


async def test_a_shard_that_is_away_is_not_known_and_the_others_are(
    database: Callable[..., Awaitable[str]], open_replica: Callable[[Mapping[str, str]], Awaitable[Booth]]
) -> None:
    dsns = {name: await database("booking", shard=name) for name in SHARDS}
    async with AsyncExitStack() as stack:
        line = await stack.enter_async_context(delay_proxy(dsns["s3"]))
        booth = replace(await open_replica(dsns | {"s3": line.between(dsns["s3"])}), dsn=dsns["s1"])
        await put_events(booth)
        watch = watcher(booth)
        await watch.run_once()
        kept = dict.fromkeys(NAMES, 0)
        assert {name: gauges(name) for name in SHARDS} == dict.fromkeys(SHARDS, kept)
        failed = FAILURES.labels("s3", NAMES[0])._value.get()
        await booth.shards["s2"].pool.execute("UPDATE area_counter SET available = available - 1")
        await line.stop()
        await watch.run_once()
        broken = kept | {"area_units_do_not_add_up": 1}
        assert {name: gauges(name) for name in SHARDS} == {"s1": kept, "s2": broken, "s3": dict.fromkeys(NAMES)}
        assert FAILURES.labels("s3", NAMES[0])._value.get() == failed + 1
        invariants = await booth.check_invariants()
        told = {found.name: found.violations for found in invariants}
        assert told == dict.fromkeys(NAMES, -1) | {"area_units_do_not_add_up": 1}
        assert {why[:3] for found in invariants for why in found.unchecked} == {"s3:"}
