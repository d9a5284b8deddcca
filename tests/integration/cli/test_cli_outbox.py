"""`rowlock outbox …` against booking and payments on real servers, over real databases."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import NamedTuple

import asyncpg
import pytest

from chassis import outbox
from chassis.ids import format_id
from services.payments.server import add_servicers
from services.payments.store.attempts import Attempts
from services.payments.store.invariants import check_invariants
from tests.integration.booking.booth import Booth
from tests.integration.booking.conftest import open_booth, open_replica
from tests.integration.cli.conftest import Ended, run_command
from tests.support.servers import Servers

__all__ = ["open_booth", "open_replica"]

ORDER = uuid.UUID(int=7)
ORDER_ID = format_id("ord", "s1", 7)


class House(NamedTuple):
    """Booking with two shards, and payments."""

    s1: asyncpg.Pool
    s2: asyncpg.Pool
    payments: asyncpg.Pool
    environment: dict[str, str]

    async def run(self, *arguments: str, **environment: str) -> Ended:
        return await run_command("outbox", *arguments, **(self.environment | environment))


@pytest.fixture
async def house(
    database: Callable[..., Awaitable[str]], open_booth: Callable[..., Awaitable[Booth]], servers: Servers
) -> AsyncIterator[House]:
    booth = await open_booth("s1", "s2")
    payments = await asyncpg.create_pool(await database("payments"), min_size=1, max_size=4)
    attempts = Attempts(payments, ambiguity_seconds=600, claim_seconds=30)
    checks = partial(check_invariants, payments)
    await servers.start_service(partial(add_servicers, attempts=attempts, invariants=checks, taken=lambda: None))
    booking_port, payments_port = (server.port for server, _ in servers.running)
    environment = {
        "ROWLOCK_CLI_BOOKING": f"127.0.0.1:{booking_port}",
        "ROWLOCK_CLI_PAYMENTS": f"127.0.0.1:{payments_port}",
    }
    yield House(booth.shards["s1"].pool, booth.shards["s2"].pool, payments, environment)
    await payments.close()


async def put(pool: asyncpg.Pool, sink: str, kind: str, aggregate: str = str(ORDER), *, parked: bool = False) -> None:
    async with pool.acquire() as connection, connection.transaction():
        payload = {"payment_token": "pm_secret_token"}
        await outbox.put(connection, sink=sink, aggregate_id=aggregate, kind=kind, payload=payload)
        if parked:
            await connection.execute(
                "UPDATE outbox SET parked_time = clock_timestamp(), refusals = 8, last_refusal = 'CHARGE_CONFLICT'"
                " WHERE message_id = (SELECT max(message_id) FROM outbox)"
            )


async def test_outbox_list_shows_every_database(house: House) -> None:
    await put(house.s1, "payments", "charge", parked=True)
    await put(house.s1, "booking.orders", "failed")
    await put(house.s2, "payments", "charge")
    await put(house.payments, "booking", "outcome", "ord_s2_9")
    table, only = await asyncio.gather(house.run("list"), house.run("list", "--parked", "--json"))
    assert (table.status, table.err) == (0, "")
    ids = ("msg_s1_1", "msg_s1_2", "msg_s2_1", "msg_payments_1")
    for text in ("4 messages", *ids, "parked", ORDER_ID, "ord_s2_9"):
        assert text in table.out
    assert "\nmsg_s1_1: CHARGE_CONFLICT\n" in table.out
    (message,) = only.json()["messages"]["booking"]
    assert (message["messageId"], message["aggregateId"], message["refusals"]) == ("msg_s1_1", ORDER_ID, 8)
    assert only.json()["messages"]["payments"] == []
    assert only.json()["errors"] == {}
    assert "pm_secret" not in table.out + only.out


async def test_outbox_list_of_nothing_says_so(house: House) -> None:
    waiting, parked, empty = await asyncio.gather(
        house.run("list"), house.run("list", "--parked"), house.run("list", "--json")
    )
    assert (waiting.out, parked.out) == ("no message waits\n", "no message is parked\n")
    assert json.loads(empty.out) == {"messages": {"booking": [], "payments": []}, "errors": {}}


async def test_outbox_list_names_the_service_that_is_not_there(house: House) -> None:
    await put(house.payments, "booking", "outcome", "ord_s2_9")
    ended = await house.run("list", ROWLOCK_CLI_BOOKING="127.0.0.1:1")
    assert ended.status == 3
    assert "msg_payments_1" in ended.out
    assert ended.err == "booking does not answer; is the stack running (make start)?\n"


async def test_outbox_retry_and_drop(house: House) -> None:
    await put(house.s2, "payments", "charge", parked=True)
    await put(house.payments, "booking", "outcome", "ord_s2_9", parked=True)
    retried = await house.run("retry", "msg_s2_1")
    assert (retried.status, retried.out) == (0, "msg_s2_1 will be tried again\n")
    assert await house.s2.fetchval("SELECT refusals FROM outbox WHERE parked_time IS NULL") == 0
    unasked = await house.run("drop", "msg_payments_1")
    assert (unasked.status, unasked.err) == (2, "Nobody is here to be asked: say --yes.\n")
    assert await house.payments.fetchval("SELECT count(*) FROM outbox") == 1
    dropped = await house.run("drop", "msg_payments_1", "--yes", "--json")
    assert (dropped.status, dropped.json()) == (0, {"messageId": "msg_payments_1"})
    assert await house.payments.fetchval("SELECT count(*) FROM outbox") == 0


async def test_outbox_refusals_are_one_sentence(house: House) -> None:
    await put(house.s1, "payments", "charge")
    not_parked = (1, "", "There is no parked message of that id.\n")
    assert await house.run("retry", "msg_s1_1") == not_parked
    assert await house.run("drop", "msg_payments_5", "--yes") == not_parked
    nonsense = await house.run("retry", "17")
    assert (nonsense.status, nonsense.err) == (
        2,
        '"17" is no message\'s id; they begin with msg_, see rowlock outbox list.\n',
    )
    old = await house.run("republish", "--since", "8d")
    assert (old.status, old.err) == (1, "Messages are kept for seven days: start_time must not be earlier.\n")
    never = await house.run("republish", "--since", "soon")
    assert (never.status, never.err) == (2, '"soon" is no time; write it like "2027-03-31 20:00", or now.\n')


async def test_outbox_republish_counts_over_the_shards(house: House) -> None:
    for pool in (house.s1, house.s2):
        await put(pool, "booking.orders", "confirmed")
        await put(pool, "payments", "charge")
        await pool.execute("UPDATE outbox SET published_time = clock_timestamp()")
    ended = await house.run("republish", "--since", "6h")
    assert (ended.status, ended.out) == (0, "2 messages go out again\n")
    again = await house.run("republish", "--since", "6h", "--json")
    assert again.json() == {"messageCount": 0}
    for pool in (house.s1, house.s2):
        assert await pool.fetchval("SELECT array_agg(sink) FROM outbox WHERE published_time IS NULL") == [
            "booking.orders"
        ]
