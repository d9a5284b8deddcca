"""A replay commits something before it answers, so that what it answers is on the standby too. (An outcome told again
locks rows, which is something, and so does a release.)"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiosql
import asyncpg
import pytest
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.ids import parse_id
from services.booking.store import areas, orders, picture
from tests.integration.booking.booth import Booth, inventory, refused
from tests.integration.booking.schedules import (
    EVENT,
    GRACE,
    connections,
    guarded_or_not,
    hold,
    order,
    take_out,
)
from tests.support.databases import at

EMIT = "PERFORM pg_logical_emit_message(true, 'replay', '');"
Call = Callable[[asyncpg.Connection], Awaitable[Any]]


async def hold_area(connection: asyncpg.Connection, everything: bool) -> Any:
    """Of two units."""
    return await areas.queries.hold_area(
        connection,
        event=EVENT,
        account="ann",
        key="area",
        fingerprint=b"",
        area=1,
        quantity=2,
        grace=GRACE,
        all=everything,
    )


async def calls_of(booth: Booth, connection: asyncpg.Connection) -> dict[str, Call]:
    """By function: a call that was made before."""
    await booth.internal.PutInventory(floor())
    held = (await hold(connection, "ann", "k", 1))["hold_id"][0]
    await order(connection, "ann", held)
    await hold_area(connection, False)
    return {
        "hold_seats": lambda each: hold(each, "ann", "k", 1),
        "create_order": lambda each: order(each, "ann", held),
        "hold_area": lambda each: hold_area(each, False),
        "hold_area of all counters": lambda each: hold_area(each, True),
    }


def floor() -> pb.PutInventoryRequest:
    """Seats, and an area."""
    return inventory(version=2, areas=[pb.InventoryArea(area_id=1, name="Floor", capacity=9, tier=1)])


async def commits(connection: asyncpg.Connection, call: Call) -> tuple[Any, bool]:
    """What a call answers, and whether it left anything to commit."""
    async with connection.transaction():
        answer = await call(connection)
        return answer, await connection.fetchval("SELECT pg_current_xact_id_if_assigned()") is not None


@guarded_or_not
@pytest.mark.parametrize("name", ["hold_seats", "create_order", "hold_area", "hold_area of all counters"])
async def test_a_replay_has_something_to_commit(booth: Booth, name: str, guarded: bool) -> None:
    async with connections(booth, 1) as (connection,):
        call = (await calls_of(booth, connection))[name]
        if not guarded:
            await take_out(booth, name.partition(" ")[0], EMIT, instead="NULL;")
        answer, committed = await commits(connection, call)
    assert answer["verdict"] in ("REPLAY", ["REPLAY"])
    assert committed == guarded


@pytest.mark.parametrize("account", ["ann", "bob"], ids=["an order that exists", "a key for other content"])
async def test_what_an_order_is_refused_by_has_something_to_commit(booth: Booth, account: str) -> None:
    """An answer that names an order, or tells of one, is as good as a replay."""
    async with connections(booth, 1) as (connection,):
        first = (await hold(connection, account, "a", 1))["hold_id"][0]
        second = (await hold(connection, account, "b", 2))["hold_id"][0]
        await order(connection, account, first)

        def again(each: asyncpg.Connection) -> Awaitable[Any]:
            asked = {"account": account, "fingerprint": b"other", "grace": GRACE}
            asked |= {"email": "", "payment_token": "pm"}
            if account == "ann":
                return orders.queries.create_order(each, hold=first, key="other", **asked)
            return orders.queries.create_order(each, hold=second, key=str(first), **asked)

        answer, committed = await commits(connection, again)
    assert answer["verdict"] == ("EXISTS" if account == "ann" else "REUSED")
    assert committed


@guarded_or_not
async def test_a_replay_of_the_best_available_has_something_to_commit(
    booth: Booth, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When nothing is left, no candidate leads to the function, and the key is looked up."""
    if not guarded:
        text = Path(picture.__file__).with_suffix(".sql").read_text()
        assert ", pg_logical_emit_message(true, 'replay', '')" in text
        text = text.replace(", pg_logical_emit_message(true, 'replay', '')", "")
        monkeypatch.setattr(picture, "queries", aiosql.from_str(text, "asyncpg"))
    held = await booth.best("ann", 2, key="k")
    async with connections(booth, 1) as (connection,):
        answer, committed = await commits(
            connection, lambda each: picture.queries.get_replay(each, event=EVENT, account="ann", key="k")
        )
        nothing, unneeded = await commits(
            connection, lambda each: picture.queries.get_replay(each, event=EVENT, account="ann", key="other")
        )
    assert answer["hold_id"].int == parse_id("hld", held.hold_id)[1]  # type: ignore[index]
    assert committed == guarded
    assert (nothing, unneeded) == (None, False)


async def test_every_replay_leaves_a_message_in_the_log(booth: Booth) -> None:
    """What is read from the log of the calls that anybody may make. Best available has two ways: while there are seats
    the function finds the key, and when nothing is left it is looked up."""
    await booth.internal.PutInventory(floor())
    held = await booth.hold("ann", 1)
    units, order_id = await booth.units("ann", 2), await booth.order("ann", held.hold_id)
    best = await booth.best("bob", 4)
    async with log_of(booth) as messages:
        assert (await booth.hold("ann", 1)).hold_id == held.hold_id
        assert await messages() == 1
        assert await booth.units("ann", 2) == units
        assert await messages() == 1
        assert await booth.order("ann", held.hold_id) == order_id
        assert await messages() == 1
        assert await booth.best("bob", 4) == best
        assert await messages() == 1
        await booth.execute("UPDATE seat SET state = 'BLOCKED' WHERE state = 'AVAILABLE'")
        assert await refused(booth.best("cid", 1))
        assert await messages() == 0
        assert await booth.best("bob", 4) == best
        assert await messages() == 1


@asynccontextmanager
async def log_of(booth: Booth) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """How many messages of replays were committed since the last look."""
    connection = await asyncpg.connect(at(booth.dsn, user="postgres"))
    slot = f"replays_{connection.get_server_pid()}"
    await connection.execute("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slot)

    async def messages() -> int:
        changes = await connection.fetch(
            "SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, NULL, 'proto_version', '1',"
            " 'publication_names', 'rowlock_seats', 'messages', 'true')",
            slot,
        )
        return len([change for change in changes if change["data"][:1] == b"M" and b"replay" in change["data"]])

    try:
        yield messages
    finally:
        await connection.execute("SELECT pg_drop_replication_slot($1)", slot)
        await connection.close()
