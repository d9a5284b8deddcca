"""Who gets in: each token alone, each swapped, each bound to the event and the account of the request."""

import asyncio
import json
import time

import httpx
import jwt
import pytest
from rowlock.catalog.v1 import catalog_pb2

from chassis.tokens import ADMISSION_AUDIENCE, WAITINGROOM_ISSUER, Key, KeyRing
from tests.contract.gateway.forms import reason_of
from tests.contract.gateway.house import ACCOUNT, EVENT, NEW_KEY, OLD_KEY, OTHER_EVENT, House

HOLDS = f"/v1/events/{EVENT}/holds"
ENTER = f"/v1/events/{EVENT}/enter"
SEATS = {"seatIds": [1, 2]}


def test_a_hold_arrives_with_the_identity_of_its_tokens(house: House, client: httpx.Client) -> None:
    headers = {**house.inside(), "idempotency-key": "k-1"}
    assert client.post(HOLDS, headers=headers, json=SEATS).status_code == 201
    [arrival] = house.recorder.arrivals
    assert (arrival.name, arrival.request.event_id, list(arrival.request.seat_ids)) == ("HoldSeats", EVENT, [1, 2])
    assert {key: value for key, value in arrival.metadata.items() if key.startswith("x-rowlock-")} == {
        "x-rowlock-account": ACCOUNT,
        "x-rowlock-email": "ada@example.test",
        "x-rowlock-event": EVENT,
        "x-rowlock-position": "7",
        "x-rowlock-epoch": "3",
    }
    assert arrival.metadata["idempotency-key"] == "k-1"


def test_tokens_go_no_further_than_the_gateway(house: House, client: httpx.Client) -> None:
    client.post(HOLDS, headers={**house.inside(), "x-rowlock-queue": house.queue()}, json=SEATS)
    client.get(f"/v1/events/{EVENT}", headers=house.inside())
    assert house.arrived() == ["HoldSeats", "GetEvent"]
    for arrival in house.recorder.arrivals:
        assert not {"authorization", "x-rowlock-admission", "x-rowlock-queue"} & set(arrival.metadata)


def test_a_queue_token_opens_the_line_s_calls(house: House, client: httpx.Client) -> None:
    headers = {**house.user(), "x-rowlock-queue": house.queue()}
    for call in ("enter", "heartbeat", "leave"):
        assert client.post(f"/v1/events/{EVENT}/{call}", headers=headers, json={}).status_code == 200
    assert house.arrived() == ["EnterEvent", "Heartbeat", "LeaveEvent"]
    assert {arrival.metadata["x-rowlock-position"] for arrival in house.recorder.arrivals} == {"7"}


@pytest.mark.parametrize("key", [NEW_KEY, OLD_KEY], ids=["new", "old"])
def test_both_keys_of_a_rotation_verify(house: House, client: httpx.Client, key: Key) -> None:
    token = KeyRing([key]).sign(ADMISSION_AUDIENCE, 60, sub=ACCOUNT, eid=EVENT, pos=1, epoch=1)
    assert client.post(HOLDS, headers={**house.user(), "x-rowlock-admission": token}, json=SEATS).status_code == 201


def _line_token(**changes: object) -> str:
    now = int(time.time())
    claims = {"iss": WAITINGROOM_ISSUER, "aud": ADMISSION_AUDIENCE, "sub": ACCOUNT, "eid": EVENT, "exp": now + 60}
    claims = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    return jwt.encode(claims, NEW_KEY.secret, algorithm="HS256", headers={"kid": NEW_KEY.kid})


def _unsigned(token: str) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, "", algorithm="none")


BAD_ADMISSIONS = {
    "missing": lambda house: None,
    "empty": lambda house: "",
    "not a token": lambda house: "abc",
    "expired": lambda house: _line_token(exp=int(time.time()) - 8),
    "without expiry": lambda house: _line_token(exp=None),
    "not yet valid": lambda house: _line_token(nbf=int(time.time()) + 60),
    "of another issuer": lambda house: _line_token(iss="somebody"),
    "of another key": lambda house: KeyRing([Key("k2", b"x" * 32)]).sign(
        ADMISSION_AUDIENCE, 60, sub=ACCOUNT, eid=EVENT
    ),
    "unsigned": lambda house: _unsigned(_line_token()),
    "a queue token": lambda house: house.queue(),
    "a user token": lambda house: house.user_token(),
    "changed": lambda house: _line_token()[:-3] + "AAA",
}


@pytest.mark.parametrize("fault", BAD_ADMISSIONS)
def test_an_admission_token_that_is_not_valid_is_refused(house: House, client: httpx.Client, fault: str) -> None:
    token = BAD_ADMISSIONS[fault](house)
    headers = house.user() if token is None else {**house.user(), "x-rowlock-admission": token}
    response = client.post(HOLDS, headers=headers, json=SEATS)
    assert reason_of(response, 401) == "TOKEN_INVALID"
    assert response.json()["details"][0]["metadata"] == ({} if token is None else {"token": "admission"})
    assert house.arrived() == []


def _user_token_signed_with_the_public_key(house: House) -> str:
    """The old trick: the verifier's public key taken for a shared secret."""
    head, body, _ = house.user_token().split(".")
    header = json.loads(jwt.utils.base64url_decode(head)) | {"alg": "HS256"}
    signed = jwt.utils.base64url_encode(json.dumps(header).encode()).decode() + "." + body
    modulus = house.keys.jwks()["keys"][0]["n"].encode()
    signature = jwt.get_algorithm_by_name("HS256").sign(signed.encode(), modulus)
    return f"{signed}.{jwt.utils.base64url_encode(signature).decode()}"


BAD_USERS = {
    "missing": lambda house: None,
    "expired": lambda house: house.user_token(exp=int(time.time()) - 8),
    "for another audience": lambda house: house.user_token(aud="elsewhere"),
    "of another issuer": lambda house: house.user_token(iss="https://elsewhere.test"),
    "unsigned": lambda house: _unsigned(house.user_token()),
    "signed with the public key": _user_token_signed_with_the_public_key,
    "a queue token": lambda house: house.queue(),
    "without an account": lambda house: house.user_token(account=""),
    "with an account too long for a header": lambda house: house.user_token(account="a" * 256),
    "with an account that breaks a header": lambda house: house.user_token(account="a\r\nx-rowlock-event: e"),
    "with an account of letters that headers lack": lambda house: house.user_token(account="ädä"),
}


@pytest.mark.parametrize("fault", BAD_USERS)
def test_a_user_token_that_is_not_valid_is_refused(house: House, client: httpx.Client, fault: str) -> None:
    token = BAD_USERS[fault](house)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    assert reason_of(client.get("/v1/orders", headers=headers), 401) == "TOKEN_INVALID"
    assert house.arrived() == []


def test_a_token_in_the_query_is_no_token(house: House, client: httpx.Client) -> None:
    response = client.get("/v1/orders", params={"access_token": house.user_token()})
    assert reason_of(response, 401) == "TOKEN_INVALID"


def test_a_clock_may_be_five_seconds_off(house: House, client: httpx.Client) -> None:
    now = int(time.time())
    assert client.get("/v1/orders", headers=house.user(exp=now - 2)).status_code == 200
    assert client.get("/v1/orders", headers=house.user(exp=now - 8)).status_code == 401


FOREIGN = {
    "of another event": lambda house: house.inside(event=OTHER_EVENT),
    "of another account": lambda house: {**house.user("acc_eve"), "x-rowlock-admission": house.admission()},
    "without event": lambda house: {**house.user(), "x-rowlock-admission": _line_token(eid=None)},
    "without account": lambda house: {**house.user(), "x-rowlock-admission": _line_token(sub=None)},
    "of a part of the path": lambda house: house.inside(event=EVENT[:-1]),
    "with the query in it": lambda house: house.inside(event=f"{EVENT}/holds?"),
}


@pytest.mark.parametrize("fault", FOREIGN)
def test_a_token_of_another_is_refused(house: House, client: httpx.Client, fault: str) -> None:
    response = client.post(HOLDS, headers=FOREIGN[fault](house), json=SEATS)
    assert reason_of(response, 403) == "TOKEN_FOR_ANOTHER"
    assert house.arrived() == []


def test_a_queue_token_of_another_is_refused(house: House, client: httpx.Client) -> None:
    for queue in (house.queue(event=OTHER_EVENT), house.queue(account="acc_eve")):
        response = client.post(ENTER, headers={**house.user(), "x-rowlock-queue": queue}, json={})
        assert reason_of(response, 403) == "TOKEN_FOR_ANOTHER"
    assert house.arrived() == []


@pytest.mark.parametrize("query", ["event_id", "eventId", "event_id.x", "seat_ids", "x"])
def test_a_query_cannot_move_a_bound_call_to_another_event(house: House, client: httpx.Client, query: str) -> None:
    response = client.post(f"{HOLDS}?{query}={OTHER_EVENT}", headers=house.inside(), json=SEATS)
    assert reason_of(response, 403) == "TOKEN_FOR_ANOTHER"
    assert house.arrived() == []


@pytest.mark.parametrize("name", ["eventId", "event_id"])
def test_a_body_cannot_move_a_bound_call_to_another_event(house: House, client: httpx.Client, name: str) -> None:
    for body in ({name: OTHER_EVENT, **SEATS}, {**SEATS, name: OTHER_EVENT}):
        client.post(HOLDS, headers=house.inside(), json=body)
    assert {arrival.request.event_id for arrival in house.recorder.arrivals} <= {EVENT}


@pytest.mark.parametrize("name", ["event_id", "eventId"])
def test_elsewhere_a_query_that_names_an_event_is_ignored(house: House, client: httpx.Client, name: str) -> None:
    assert client.get(f"/v1/events/{EVENT}?{name}={OTHER_EVENT}").status_code == 200
    assert client.get(f"/v1/events?{name}={OTHER_EVENT}").status_code == 200
    headers = house.user()
    assert client.get(f"/v1/holds/hld_s1_1?hold_id=hld_s1_2&{name}={OTHER_EVENT}", headers=headers).status_code == 200
    event, _, hold = house.recorder.arrivals
    assert (event.request.event_id, hold.request.hold_id) == (EVENT, "hld_s1_1")


@pytest.mark.parametrize("name", ["event%5Fid", "%65vent_id", "event%49d", "x=1&event%5fid", "%65vent%5Fid"])
def test_an_encoded_name_overrides_nothing(house: House, client: httpx.Client, name: str) -> None:
    """The transcoder decodes names after it has looked for those to ignore."""
    assert reason_of(client.get(f"/v1/events/{EVENT}?{name}={OTHER_EVENT}"), 400) == "INVALID_ARGUMENT"
    assert house.arrived() == []


@pytest.mark.parametrize(
    "name", ["event_id.", ".event_id", "event_id.event_id", "EVENT_ID", "event_id+", "eventid", "&&event_id"]
)
def test_a_name_spelled_otherwise_overrides_nothing(house: House, client: httpx.Client, name: str) -> None:
    client.get(f"/v1/events/{EVENT}?{name}={OTHER_EVENT}")
    assert {arrival.request.event_id for arrival in house.recorder.arrivals} <= {EVENT}


SPOOFED = {
    "x-rowlock-account": "acc_eve",
    "x-rowlock-email": "eve@example.test",
    "x-rowlock-event": OTHER_EVENT,
    "x-rowlock-position": "1",
    "x-rowlock-epoch": "9",
    "x-envoy-original-path": "/v1/elsewhere",
    "x-envoy-upstream-rq-timeout-ms": "1",
    "x-envoy-max-retries": "99",
    "grpc-timeout": "1n",
    "evil-bin": "not base64!",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [("x-envoy-upstream-rq-timeout-ms", "1"), ("x-envoy-upstream-alt-stat-name", "eve"), ("grpc-timeout", "1m")],
)
def test_a_caller_gives_envoy_and_grpc_no_orders(house: House, client: httpx.Client, name: str, value: str) -> None:
    async def slowly(_request: object) -> catalog_pb2.GetEventResponse:
        await asyncio.sleep(0.2)
        return catalog_pb2.GetEventResponse()

    house.recorder.answers["GetEvent"] = slowly
    assert client.get(f"/v1/events/{EVENT}", headers={name: value}).status_code == 200
    assert name not in house.recorder.arrivals[0].metadata


@pytest.mark.parametrize("path", [f"/v1/events/{EVENT}", "/v1/orders"])
def test_identity_from_outside_is_stripped(house: House, client: httpx.Client, path: str) -> None:
    needed = house.user() if path == "/v1/orders" else {}
    assert client.get(path, headers={**SPOOFED, **needed}).status_code == 200
    [arrival] = house.recorder.arrivals
    leaked = {name: value for name, value in SPOOFED.items() if arrival.metadata.get(name) == value}
    assert leaked == {}
    assert arrival.metadata.get("x-rowlock-account") == (ACCOUNT if needed else None)
    assert "x-rowlock-event" not in arrival.metadata


def test_where_a_caller_comes_from_is_not_his_to_say(house: House, client: httpx.Client) -> None:
    said = {"x-forwarded-for": "203.0.113.9", "x-request-id": "00000000-0000-4000-8000-000000000000"}
    assert client.get(f"/v1/events/{EVENT}", headers=said).status_code == 200
    metadata = house.recorder.arrivals[0].metadata
    assert metadata["x-forwarded-for"].startswith("203.0.113.9,")  # and then who Envoy saw
    assert metadata["x-request-id"] != said["x-request-id"]


@pytest.mark.parametrize("verified", [False, "true", 1, None])
def test_only_a_verified_address_is_said_inwards(house: House, client: httpx.Client, verified: object) -> None:
    headers = {**house.user(email_verified=verified), "x-rowlock-email": "eve@example.test"}
    assert client.get("/v1/orders", headers=headers).status_code == 200
    assert "x-rowlock-email" not in house.recorder.arrivals[0].metadata


def test_the_public_line_needs_no_token_and_joining_does(house: House, client: httpx.Client) -> None:
    assert client.get(f"/v1/events/{EVENT}/waiting-room").status_code == 200
    assert reason_of(client.post(f"/v1/events/{EVENT}/waiting-room", json={}), 401) == "TOKEN_INVALID"
    assert client.post(f"/v1/events/{EVENT}/waiting-room", headers=house.user(), json={}).status_code == 200
    assert house.arrived() == ["GetLine", "JoinLine"]
