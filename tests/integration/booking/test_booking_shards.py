"""One database or three: everything is found by its id, and lists gather."""

import itertools
from collections.abc import Awaitable, Callable

import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.ids import format_id, parse_id
from services.booking.store.shards import open_shards
from tests.integration.booking.booth import Booth, caller, inventory, refused

OpenBooth = Callable[..., Awaitable[Booth]]

several = pytest.mark.parametrize("names", [("s1",), ("s1", "s2", "s3")], ids=["one", "three"])


async def put_events(booth: Booth, names: tuple[str, ...]) -> list[str]:
    """An event on each shard, all with the same number: only the shard tells them apart."""
    events = [format_id("evt", name, 7) for name in names]
    for event in events:
        await booth.internal.PutInventory(inventory(event))
    return events


@several
async def test_everything_of_an_event_is_on_its_shard(open_booth: OpenBooth, names: tuple[str, ...]) -> None:
    booth = await open_booth(*names)
    for name, event in zip(names, await put_events(booth, names), strict=True):
        held = await booth.hold("ann", 1, 2, key="k", event=event)
        assert await booth.hold("ann", 1, 2, key="k", event=event) == held
        order_id = await booth.order("ann", held.hold_id)
        assert await booth.order("ann", held.hold_id) == order_id
        assert await booth.outcome(order_id, pb.PAYMENT_OUTCOME_SUCCEEDED) == pb.ORDER_STATE_CONFIRMED
        await booth.workers.issuers[name].run_once()
        request = pb.ListTicketsRequest(order_id=order_id)
        tickets = (await booth.public.ListTickets(request, metadata=caller("ann"))).tickets
        assert len(tickets) == 2
        for prefix, found in (("hld", held.hold_id), ("ord", order_id), ("tkt", tickets[0].ticket_id)):
            parsed = parse_id(prefix, found)
            assert parsed
            assert parsed[0] == name
        assert await booth.seats(event) == {"available": 18, "sold": 2}
        assert [await booth.shards[each].pool.fetchval("SELECT count(*) FROM orders") for each in names] == [
            int(names.index(each) <= names.index(name)) for each in names
        ]
    assert await booth.broken() == {}


@several
async def test_list_orders_gathers_and_pages_over_shards(open_booth: OpenBooth, names: tuple[str, ...]) -> None:
    booth = await open_booth(*names)
    events = await put_events(booth, names)
    made = []
    for seat, event in zip(range(1, 9), itertools.cycle(events), strict=False):
        held = await booth.hold("ann", seat, event=event)
        made.append(await booth.order("ann", held.hold_id))
    await booth.order("bob", (await booth.hold("bob", 20, event=events[0])).hold_id)
    for size in (1, 3, 8, 20):
        listed, token, pages = [], "", 0
        while not pages or token:
            request = pb.ListOrdersRequest(page_size=size, page_token=token)
            page = await booth.public.ListOrders(request, metadata=caller("ann"))
            listed += [order.order_id for order in page.orders]
            token, pages = page.next_page_token, pages + 1
        assert listed == made[::-1]
        assert pages == -(-8 // size)


async def test_an_event_of_no_shard_here_is_refused(open_booth: OpenBooth) -> None:
    booth = await open_booth("s1", "s2", "s3")
    refusal = await refused(booth.internal.PutInventory(inventory(format_id("evt", "s4", 9))))
    assert refusal[1] == "WRONG_SHARD"
    assert [await shard.pool.fetchval("SELECT count(*) FROM event") for shard in booth.shards.values()] == [0, 0, 0]


async def test_an_id_of_another_shard_finds_nothing_here(open_booth: OpenBooth) -> None:
    booth = await open_booth("s1", "s2", "s3")
    (event, *_) = await put_events(booth, ("s1", "s2", "s3"))
    held = await booth.hold("ann", 1, event=event)
    for name in ("s2", "s9"):
        elsewhere = held.hold_id.replace("_s1_", f"_{name}_")
        refusal = await refused(booth.public.GetHold(pb.GetHoldRequest(hold_id=elsewhere), metadata=caller("ann")))
        assert refusal[1] == "HOLD_NOT_FOUND"


async def test_shards_whose_names_are_swapped_are_refused(database: Callable[..., Awaitable[str]]) -> None:
    dsns = {name: await database("booking", shard=name) for name in ("s1", "s2", "s3")}
    swapped = {"s1": dsns["s1"], "s2": dsns["s3"], "s3": dsns["s2"]}
    with pytest.raises(RuntimeError, match="configured as shard s2 is shard s3"):
        await open_shards(swapped, pool_size=2)
