"""ChargeOrder and the admin calls on a real server; outcomes on their way to a real booking server."""

from functools import partial
from typing import Any

import asyncpg
import grpc
import pytest
from rowlock.booking.v1 import booking_pb2_grpc
from rowlock.invariant.v1.invariant_pb2 import CheckInvariantsRequest
from rowlock.invariant.v1.invariant_pb2_grpc import InvariantAdminServiceStub
from rowlock.money.v1.money_pb2 import Money
from rowlock.payments.v1 import payments_pb2 as pb
from rowlock.payments.v1 import payments_pb2_grpc as stubs

from chassis.errors import reason_of
from chassis.outbox import Message, SinkUnavailable
from services.payments.peers import Booking as BookingPeer
from services.payments.server import add_servicers
from services.payments.store.attempts import Attempts
from services.payments.store.invariants import check_invariants
from tests.integration.payments.desk import BOOKING, ORDER, Booking, Desk, charge_of
from tests.support.servers import Servers


def request(**changes: Any) -> pb.ChargeOrderRequest:
    fields = {
        "order_id": ORDER,
        "amount": Money(currency_code="EUR", amount_minor=4200),
        "payment_token": "pm_card_visa",
    }
    return pb.ChargeOrderRequest(**{**fields, **changes})


@pytest.fixture
async def woken() -> list[int]:
    return []


@pytest.fixture
async def channel(servers: Servers, pool: asyncpg.Pool, woken: list[int]) -> grpc.aio.Channel:
    attempts = Attempts(pool, ambiguity_seconds=600, claim_seconds=30)
    checks = partial(check_invariants, attempts.pool)
    serve = partial(add_servicers, attempts=attempts, invariants=checks, taken=lambda: woken.append(1))
    return await servers.start_service(serve)


async def refusal(call: Any) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code().name, reason_of(caught.value)[0]


async def test_charge_order_is_durable_and_wakes_the_worker(
    channel: grpc.aio.Channel, pool: asyncpg.Pool, woken: list[int]
) -> None:
    stub = stubs.PaymentsInternalServiceStub(channel)
    answers = [await stub.ChargeOrder(request()) for _ in range(3)]

    assert [answer.state for answer in answers] == [pb.ATTEMPT_STATE_CREATED] * 3
    assert await pool.fetchval("SELECT count(*) FROM attempt WHERE state = 'CREATED' AND send_count = 0") == 1
    assert woken


@pytest.mark.parametrize(
    "other",
    [
        {"amount": Money(currency_code="EUR", amount_minor=4201)},
        {"amount": Money(currency_code="USD", amount_minor=4200)},
        {"payment_token": "pm_card_mastercard"},
    ],
)
async def test_charge_order_refuses_another_charge(channel: grpc.aio.Channel, other: dict[str, Any]) -> None:
    stub = stubs.PaymentsInternalServiceStub(channel)
    await stub.ChargeOrder(request())

    assert await refusal(stub.ChargeOrder(request(**other))) == ("ALREADY_EXISTS", "CHARGE_CONFLICT")


@pytest.mark.parametrize(
    "wrong",
    [
        {"order_id": ""},
        {"order_id": "hld_s1_42"},
        {"amount": Money(currency_code="EUR", amount_minor=0)},
        {"amount": Money(currency_code="EUR", amount_minor=-1)},
        {"amount": Money(currency_code="EUR", amount_minor=10**11)},
        {"amount": Money(currency_code="eur", amount_minor=1)},
        {"amount": Money(currency_code="ZZZ", amount_minor=1)},
        {"payment_token": ""},
        {"payment_token": "two words"},
        {"payment_token": "a" * 256},
    ],
)
async def test_charge_order_refuses_nonsense(
    channel: grpc.aio.Channel, pool: asyncpg.Pool, wrong: dict[str, Any]
) -> None:
    stub = stubs.PaymentsInternalServiceStub(channel)

    assert await refusal(stub.ChargeOrder(request(**wrong))) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
    assert await pool.fetchval("SELECT count(*) FROM attempt") == 0


async def test_get_attempt_tells_all_but_the_token(channel: grpc.aio.Channel, desk: Desk) -> None:
    stub = stubs.PaymentsAdminServiceStub(channel)
    assert await refusal(stub.GetAttempt(pb.GetAttemptRequest(order_id=ORDER))) == ("NOT_FOUND", "ATTEMPT_NOT_FOUND")
    await desk.charge(charge_of())

    attempt = await stub.GetAttempt(pb.GetAttemptRequest(order_id=ORDER))

    assert (attempt.state, attempt.send_count, attempt.amount.amount_minor) == (pb.ATTEMPT_STATE_SUCCEEDED, 2, 4200)
    assert attempt.processor_reference.startswith("pi_")
    assert "pm_card" not in str(attempt)


async def test_check_invariants_is_quiet_and_then_is_not(channel: grpc.aio.Channel, desk: Desk) -> None:
    stub = InvariantAdminServiceStub(channel)
    await desk.charge(charge_of())
    found = (await stub.CheckInvariants(CheckInvariantsRequest())).invariants
    assert [(one.name, one.violations) for one in found if one.violations] == []
    assert all(one.description for one in found)

    await desk.pool.execute("DELETE FROM outbox")
    await desk.attempts.insert(charge_of("ord_s1_2"))
    await desk.pool.execute(
        "UPDATE attempt SET due_time = clock_timestamp() - interval '1 hour' WHERE state = 'CREATED'"
    )

    found = (await stub.CheckInvariants(CheckInvariantsRequest())).invariants
    assert {one.name: list(one.examples) for one in found if one.violations} == {
        "attempt_not_worked_on": ["ord_s1_2"],
        "outcome_without_message": [ORDER],
    }


async def test_a_check_that_fails_is_told_and_the_others_are_made(channel: grpc.aio.Channel, desk: Desk) -> None:
    await desk.attempts.insert(charge_of())
    await desk.pool.execute("UPDATE attempt SET due_time = clock_timestamp() - interval '1 hour'")
    await desk.pool.execute("ALTER TABLE outbox RENAME COLUMN parked_time TO parked_since")
    found = (await InvariantAdminServiceStub(channel).CheckInvariants(CheckInvariantsRequest())).invariants
    told = {one.name: (one.violations, len(one.unchecked)) for one in found}
    assert told["outcome_parked"] == told["outcome_undelivered"] == (-1, 1)
    assert (told["attempt_not_worked_on"], told["unresolved_attempt"]) == ((1, 0), (0, 0))


async def test_outcomes_reach_booking_in_order(desk: Desk, servers: Servers) -> None:
    booking = Booking()
    add = booking_pb2_grpc.add_BookingInternalServiceServicer_to_server
    peer = BookingPeer(await servers.start((BOOKING, add, booking)))
    await desk.charge(charge_of(token="pm_nobody"))
    await desk.work()
    relay = desk.relay(peer)

    while await relay.run_once():
        pass

    assert booking.heard == [(ORDER, "UNKNOWN", ""), (ORDER, "FAILED", "PAYMENT_TOKEN_INVALID")]


async def test_an_outcome_waits_while_booking_is_away() -> None:
    message = Message(1, ORDER, "outcome", {"orderId": ORDER, "outcome": "SUCCEEDED", "failureReason": ""})
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        with pytest.raises(SinkUnavailable):
            await BookingPeer(channel).record_payment_outcome(message)
