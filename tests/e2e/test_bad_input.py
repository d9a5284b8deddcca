"""What must be refused: with a 4xx, a stable reason, a sentence, and nothing written."""

import asyncio
import re
import time
import uuid
from typing import Any

import asyncpg
import jwt
import pytest

from chassis.tokens import ADMISSION_AUDIENCE, WAITINGROOM_ISSUER
from tests.support.buyers import Account, Answer, Gateway, publish_event
from tests.support.stacks import Stack

LEAKS = re.compile(r"Traceback|asyncpg|SELECT |UPDATE |INSERT |plpgsql|/services/|grpc\.aio", re.IGNORECASE)


@pytest.fixture
async def sale(stack: Stack, gateway: Gateway) -> tuple[str, list[int], Account, Account]:
    """An event, its seats, somebody inside, and somebody else inside."""
    event_id, seats = await publish_event(stack.endpoints["catalog"], 40)
    ann, bob = await gateway.accounts(2)
    await asyncio.gather(ann.enter(event_id), bob.enter(event_id))
    return event_id, seats, ann, bob


async def held(stack: Stack) -> int:
    """Holds ever written."""
    connection = await asyncpg.connect(stack.database("booking_s1"))
    try:
        count: int = await connection.fetchval("SELECT count(*) FROM hold")
        return count
    finally:
        await connection.close()


def refused(answer: Answer, status: int, reason: str) -> None:
    """In our form, with nothing of the inside in it."""
    assert (answer.status, answer.reason) == (status, reason), answer.text
    assert answer.body["message"]
    assert not LEAKS.search(answer.text), answer.text


def forge(stack: Stack, account: str, event_id: str, **changes: Any) -> dict[str, str]:
    """An admission token with the real secret, and whatever is changed of it."""
    kid, secret = stack.signing_secret()
    now = int(time.time())
    claims = {
        "iss": WAITINGROOM_ISSUER,
        "aud": ADMISSION_AUDIENCE,
        "sub": account,
        "eid": event_id,
        "pos": 0,
        "epoch": 0,
    }
    claims |= {"iat": now, "exp": now + 60} | {k: v for k, v in changes.items() if k != "secret"}
    token = jwt.encode(claims, changes.get("secret", secret), algorithm="HS256", headers={"kid": kid})
    return {"x-rowlock-admission": token}


async def test_bodies_that_are_no_request(stack: Stack, gateway: Gateway, sale: Any) -> None:
    event_id, seats, ann, _ = sale
    before = await held(stack)
    refused(await ann.hold(event_id, []), 400, "INVALID_ARGUMENT")
    refused(await ann.hold(event_id, seats + list(range(1, 1000))), 400, "INVALID_ARGUMENT")
    refused(await ann.hold(event_id, [-1]), 404, "SEAT_NOT_FOUND")
    headers = {**ann.user, **ann.admission, "idempotency-key": "k", "content-type": "application/json"}
    path = f"/v1/events/{event_id}/holds"
    for raw in (b"{", b"[]", b'{"seatIds":["front row"]}', b'{"seatIds":[99999999999]}', b"\xff\xfe"):
        refused(await gateway.call("POST", path, headers, raw=raw), 400, "INVALID_ARGUMENT")
    refused(await gateway.call("POST", path, headers, raw=b" " * 10_000_000), 413, "BODY_TOO_LARGE")
    assert await held(stack) == before


async def test_a_repeated_seat_counts_once(sale: Any) -> None:
    event_id, seats, ann, _ = sale
    answer = await ann.hold(event_id, [seats[0]] * 5)
    assert answer.status == 201, answer
    assert [each["seatId"] for each in answer.body["seats"]] == [seats[0]]


async def test_a_missing_key_is_refused(gateway: Gateway, sale: Any) -> None:
    event_id, seats, ann, _ = sale
    path, headers = f"/v1/events/{event_id}/holds", {**ann.user, **ann.admission}
    refused(await gateway.call("POST", path, headers, {"seatIds": seats[:1]}), 400, "IDEMPOTENCY_KEY_REQUIRED")


async def test_seats_and_events_that_are_not_there(stack: Stack, sale: Any) -> None:
    event_id, seats, ann, _ = sale
    other, others_seats = await publish_event(stack.endpoints["catalog"], 60)
    before = await held(stack)
    answer = await ann.hold(event_id, [seats[0], others_seats[0]])
    refused(answer, 404, "SEAT_NOT_FOUND")
    assert answer.metadata["seatIds"] == str(others_seats[0])
    refused(await ann.hold(other, others_seats[:1]), 403, "TOKEN_FOR_ANOTHER")
    ann.admission = forge(stack, ann.name, "evt_s1_zzz")
    refused(await ann.hold("evt_s1_zzz", seats[:1]), 404, "EVENT_NOT_FOUND")
    ann.admission = forge(stack, ann.name, "evt_s9_1")
    refused(await ann.hold("evt_s9_1", seats[:1]), 404, "EVENT_NOT_FOUND")
    for path in ("", "/plan", "/seats", "/waiting-room", "/updates"):
        refused(await ann.get(f"/v1/events/evt_s1_zzz{path}"), 404, "EVENT_NOT_FOUND")
    assert await held(stack) == before


async def test_tokens_that_do_not_open(stack: Stack, gateway: Gateway, sale: Any) -> None:
    event_id, seats, ann, bob = sale
    before = await held(stack)
    good = ann.admission
    for admission, status in [
        ({}, 401),
        ({"x-rowlock-admission": "rubbish"}, 401),
        (forge(stack, ann.name, event_id, exp=int(time.time()) - 30), 401),
        (forge(stack, ann.name, event_id, secret=b"x" * 32), 401),
        (forge(stack, ann.name, event_id, aud="rowlock-queue"), 401),
        ({"x-rowlock-admission": ann.queue["x-rowlock-queue"]}, 401),
        (forge(stack, ann.name, "evt_s1_another"), 403),
        (bob.admission, 403),
    ]:
        ann.admission = admission
        refused(await ann.hold(event_id, seats[:1]), status, "TOKEN_INVALID" if status == 401 else "TOKEN_FOR_ANOTHER")
    ann.admission, ann.user = good, {}
    refused(await ann.hold(event_id, seats[:1]), 401, "TOKEN_INVALID")
    assert await held(stack) == before


async def test_the_query_and_the_path_cannot_be_bent(stack: Stack, gateway: Gateway, sale: Any) -> None:
    event_id, seats, ann, _ = sale
    other, _ = await publish_event(stack.endpoints["catalog"], 60)
    before = await held(stack)
    for name in ("event_id", "eventId"):
        answer = await ann.hold(event_id, seats[:1], query=f"?{name}={other}")
        assert answer.status in (400, 403), answer
        assert answer.reason in ("TOKEN_FOR_ANOTHER", "INVALID_ARGUMENT")
        shown = await ann.get(f"/v1/events/{event_id}?{name}={other}")
        assert (shown.status, shown.body["event"]["eventId"]) == (200, event_id)
    headers = {**ann.user, **ann.admission, "idempotency-key": uuid.uuid4().hex}
    for path in (f"/v1/events/{event_id}/holds/", f"/v1/events/{event_id}%2fholds", f"/V1/events/{event_id}/holds"):
        answer = await gateway.call("POST", path, headers, {"seatIds": seats[:1]})
        assert answer.status in (400, 404), answer
        assert answer.reason
    assert await held(stack) == before


async def test_somebody_elses_hold_and_order_are_not_found(sale: Any) -> None:
    event_id, seats, ann, bob = sale
    hold_id = (await ann.hold(event_id, seats[:2])).body["holdId"]
    refused(await bob.get(f"/v1/holds/{hold_id}"), 404, "HOLD_NOT_FOUND")
    refused(await bob.gateway.call("DELETE", f"/v1/holds/{hold_id}", bob.user), 404, "HOLD_NOT_FOUND")
    refused(await bob.order(hold_id), 404, "HOLD_NOT_FOUND")
    ordered = await ann.order(hold_id)
    assert ordered.status == 202, ordered
    order_id = ordered.body["orderId"]
    refused(await bob.get(f"/v1/orders/{order_id}"), 404, "ORDER_NOT_FOUND")
    refused(await bob.get(f"/v1/orders/{order_id}/tickets"), 404, "ORDER_NOT_FOUND")
    for never in ("ord_s1_1", "ord_s9_1", "nonsense", "ord_s1_" + "z" * 300):
        assert (await ann.get(f"/v1/orders/{never}")).status == 404
    assert (await bob.get("/v1/orders")).body["orders"] == []


async def test_keys_are_kept_and_not_reused(sale: Any) -> None:
    event_id, seats, ann, _ = sale
    first = await ann.hold(event_id, seats[:2], key="one")
    again = await ann.hold(event_id, [seats[1], seats[0], seats[0]], key="one")
    assert (first.status, again.status) == (201, 201)
    assert again.body["holdId"] == first.body["holdId"]
    assert again.body["expiresAt"] == first.body["expiresAt"]
    refused(await ann.hold(event_id, seats[2:3], key="one"), 409, "IDEMPOTENCY_KEY_REUSED")
    ordered = await ann.order(first.body["holdId"], key="pay")
    replayed = await ann.order(first.body["holdId"], key="pay")
    assert (ordered.status, replayed.status) == (202, 202)
    assert ordered.body == replayed.body
    another = await ann.order(first.body["holdId"], key="pay again")
    refused(another, 409, "ORDER_EXISTS")
    assert another.metadata["orderId"] == ordered.body["orderId"]
    refused(await ann.order(first.body["holdId"], "pm_card_mastercard", key="pay"), 409, "IDEMPOTENCY_KEY_REUSED")


async def test_nobody_takes_more_than_the_cap(sale: Any) -> None:
    event_id, seats, ann, _ = sale
    answers = await asyncio.gather(*(ann.hold(event_id, [seat]) for seat in seats[:16]))
    statuses = sorted(answer.status for answer in answers)
    assert statuses == [201] * 8 + [409] * 8, statuses
    assert {answer.reason for answer in answers} == {"", "TOO_MANY_TICKETS"}


async def test_inside_is_not_reachable_from_outside(gateway: Gateway) -> None:
    for path in ("/metrics", "/rowlock.booking.v1.BookingAdminService/CountSeats", "/grpc.health.v1.Health/Check"):
        answer = await gateway.call("POST", path, {"content-type": "application/grpc"}, raw=b"\0\0\0\0\0")
        assert answer.status in (404, 405, 415), answer
