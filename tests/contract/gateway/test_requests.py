"""Requests that no browser of ours sends: refused in our form, and nothing reaches a service."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing

import grpc
import httpx
import pytest
from rowlock.booking.v1 import booking_pb2, booking_pb2_grpc

from tests.contract.gateway.forms import reason_of
from tests.contract.gateway.house import EVENT, ORIGIN, OTHER_EVENT, House

HOLDS = f"/v1/events/{EVENT}/holds"
SEATS = {"seatIds": [1]}


@pytest.fixture(autouse=True)
def nothing_arrives(request: pytest.FixtureRequest, house: House) -> Iterator[None]:
    yield
    if "arrives" not in request.fixturenames:
        assert house.arrived() == []


@pytest.fixture
def arrives() -> None:
    """Marks the tests whose request is a good one."""


def raw(house: House, target: str, headers: dict[str, str], method: str = "POST") -> httpx.Response:
    """As written, without a client that tidies up paths and names."""
    with closing(http.client.HTTPConnection("127.0.0.1", house.port, timeout=10)) as connection:
        connection.request(method, target, headers=headers)
        answer = connection.getresponse()
        return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())


UNKNOWN = [
    "/v1",
    "/v1/",
    "/v1/nothing",
    "/v1/events/",
    f"/v1/events/{EVENT}/",
    f"/v1/events/{EVENT}/holds/",
    f"/v1/events/{EVENT}/holds/x",
    f"/V1/events/{EVENT}",
    f"/v2/events/{EVENT}",
    "/metrics",
    "/ready",
    "/rowlock.booking.v1.BookingService/HoldSeats",
    "/rowlock.booking.v1.BookingAdminService/CountSeats",
    "/rowlock.invariant.v1.InvariantAdminService/CheckInvariants",
    "/rowlock.outbox.v1.OutboxAdminService/ListOutbox",
    "/grpc.health.v1.Health/Check",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/index.html",
    "/nothing",
    "/../etc/passwd",
    "/assets/../../../etc/passwd",
    "/.git/config",
]


@pytest.mark.parametrize("path", UNKNOWN)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_address_is_404(house: House, method: str, path: str) -> None:
    assert reason_of(raw(house, path, house.inside(), method), 404) == "NOT_FOUND"


@pytest.mark.parametrize("path", ["/", "/config.json", "/assets/main-1a2b.js", "/events/evt_s1_1"])
def test_the_page_is_only_read(client: httpx.Client, path: str) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert reason_of(client.request(method, path), 404) == "NOT_FOUND"


def test_a_wrong_method_is_405_and_says_which_are_right(house: House, client: httpx.Client) -> None:
    response = client.get(HOLDS, headers=house.inside())
    assert reason_of(response, 405) == "METHOD_NOT_ALLOWED"
    assert response.headers["allow"] == "POST"
    response = client.put(f"/v1/events/{EVENT}/waiting-room", headers=house.user(), json={})
    assert reason_of(response, 405) == "METHOD_NOT_ALLOWED"
    assert response.headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    "path",
    [
        f"//v1/events/{OTHER_EVENT}/holds",
        f"/v1//events/{OTHER_EVENT}//holds",
        f"/v1/events/{EVENT}/../{OTHER_EVENT}/holds",
        f"/v1/events/./{OTHER_EVENT}/holds",
        f"/v1/events/{OTHER_EVENT}/hold%73",
        "/v1/events/evt%5Fs1%5F2/holds",
        "/v1/events/%65vt_s1_2/holds",
        f"/v1/events/{EVENT}%00/holds",
        f"/v1/events/{OTHER_EVENT};{EVENT}/holds",
    ],
)
def test_no_spelling_of_a_path_takes_a_token_to_another_event(house: House, path: str) -> None:
    response = raw(house, path, house.inside())
    assert reason_of(response, response.status_code) in {"TOKEN_FOR_ANOTHER", "INVALID_ARGUMENT", "NOT_FOUND"}


@pytest.mark.parametrize(
    "path", [f"/v1/events/{EVENT}%2Fholds", f"/v1/events%2f{EVENT}", f"/v1/events/{EVENT}%5cholds"]
)
def test_an_escaped_slash_is_refused(house: House, path: str) -> None:
    assert reason_of(raw(house, path, house.inside()), 400) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("name", ["x_rowlock_account", "X_ROWLOCK_ACCOUNT", "x-rowlock_account", "any_header"])
def test_an_underscore_in_a_header_s_name_is_refused(house: House, name: str) -> None:
    response = raw(house, "/v1/orders", {**house.user(), name: "acc_eve"}, "GET")
    assert reason_of(response, 400) == "INVALID_ARGUMENT"


def test_a_body_of_ten_megabytes_is_413(house: House, client: httpx.Client) -> None:
    body = json.dumps({"seatIds": [1] * 5_000_000})
    assert len(body) > 10_000_000
    headers = {**house.inside(), "content-type": "application/json"}
    assert reason_of(client.post(HOLDS, headers=headers, content=body), 413) == "BODY_TOO_LARGE"


def test_a_body_without_a_length_is_bounded_too(house: House, client: httpx.Client) -> None:
    chunks = (b" " * 10_000 for _ in range(10))
    assert reason_of(client.post(HOLDS, headers=house.inside(), content=chunks), 413) == "BODY_TOO_LARGE"


def test_a_body_under_the_limit_passes(house: House, client: httpx.Client, arrives: None) -> None:
    body = b'{"seatIds": [1]' + b" " * 60_000 + b"}"
    headers = {**house.inside(), "content-type": "application/json"}
    assert client.post(HOLDS, headers=headers, content=body).status_code == 201


@pytest.mark.parametrize(
    "body",
    [b"{", b"{bad", b"[]", b'"x"', b"1", b'{"seatIds": "x"}', b'{"seatIds": [1.5]}', b'{"seatIds": [99999999999]}',
     b'{"seatIds": {}}', b"\x00\xff\xfe", b'{"seatIds": [1]} trailing', b"[" * 5_000],
)  # fmt: skip
def test_json_that_cannot_be_read_is_400(house: House, client: httpx.Client, body: bytes) -> None:
    headers = {**house.inside(), "content-type": "application/json"}
    assert reason_of(client.post(HOLDS, headers=headers, content=body), 400) == "INVALID_ARGUMENT"


def test_an_unknown_query_parameter_is_400(client: httpx.Client) -> None:
    assert reason_of(client.get("/v1/events?colour=red"), 400) == "INVALID_ARGUMENT"
    assert reason_of(client.get("/v1/events?page_size=many"), 400) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("name", ["paymentToken", "payment_token", "paymentToken.x", "x"])
def test_what_belongs_in_the_body_is_not_taken_from_the_query(house: House, client: httpx.Client, name: str) -> None:
    for body in ({"holdId": "hld_s1_1"}, {"holdId": "hld_s1_1", "paymentToken": "pm_card_visa"}):
        response = client.post(f"/v1/orders?x=&{name}=pm_card_mastercard", headers=house.user(), json=body)
        assert reason_of(response, 400) == "INVALID_ARGUMENT"
        response = client.post(f"/v1/orders?{name}=pm_card_mastercard", headers=house.user(), json=body)
        assert reason_of(response, 400) == "INVALID_ARGUMENT"


def test_a_long_address_is_414(client: httpx.Client) -> None:
    assert reason_of(client.get("/v1/events", params={"q": "x" * 5_000}), 414) == "URL_TOO_LONG"


@pytest.mark.parametrize("text", ["%ff%fe", "%C3", "%e2%82", "%ED%A0%80", "%c0%80", "%f4%90%80%80", "%e2%c3%a9%82%ac"])
def test_what_is_not_utf_8_is_400(house: House, text: str) -> None:
    for path in (f"/v1/events/{text}", f"/v1/events/{text}/updates", f"/v1/events?q={text}", f"/v1/holds/{text}"):
        assert reason_of(raw(house, path, house.user(), "GET"), 400) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("text", ["M%C3%BCnchen", "%e2%82%ac", "%F0%9F%98%80", "%ec%84%9c%ec%9a%b8", "100%25ff"])
def test_every_script_can_be_searched_for(house: House, text: str, arrives: None) -> None:
    assert raw(house, f"/v1/events?q={text}", {}, "GET").status_code == 200


def test_large_headers_are_431(house: House, client: httpx.Client) -> None:
    assert reason_of(client.get("/v1/orders", headers={"x-large": "x" * 40_000}), 431) == "HEADERS_TOO_LARGE"
    many = {f"x-many-{number}": "x" for number in range(200)}
    assert reason_of(client.get("/v1/orders", headers=many), 431) == "HEADERS_TOO_LARGE"


@pytest.mark.parametrize(
    "kind", ["application/grpc", "application/grpc+proto", "application/grpc-web", "Application/GRPC"]
)
def test_grpc_in_any_dress_is_415(house: House, client: httpx.Client, kind: str) -> None:
    body = b"\x00\x00\x00\x00\x00"
    for path in (HOLDS, "/rowlock.booking.v1.BookingService/HoldSeats", "/"):
        response = client.post(path, headers={**house.inside(), "content-type": kind, "te": "trailers"}, content=body)
        assert reason_of(response, 415) == "UNSUPPORTED_MEDIA_TYPE"


def test_a_native_grpc_client_reaches_nothing(house: House) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{house.port}") as channel:
        stub = booking_pb2_grpc.BookingServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.ListOrders(booking_pb2.ListOrdersRequest(), timeout=5)
    assert refused.value.code() is not grpc.StatusCode.OK


def test_an_upgrade_is_refused(house: House) -> None:
    response = raw(house, f"/v1/events/{EVENT}", {"connection": "upgrade", "upgrade": "websocket"}, "GET")
    assert reason_of(response, 403) == "FORBIDDEN"


def test_a_tunnel_is_refused(house: House) -> None:
    assert reason_of(raw(house, "127.0.0.1:1", {}, "CONNECT"), 405) == "METHOD_NOT_ALLOWED"


def test_an_allowed_origin_may_ask_first(client: httpx.Client) -> None:
    asked = {"origin": ORIGIN, "access-control-request-method": "POST"}
    asked["access-control-request-headers"] = "authorization,idempotency-key,x-rowlock-admission"
    response = client.options(HOLDS, headers=asked)
    assert response.status_code in (200, 204)
    assert response.headers["access-control-allow-origin"] == ORIGIN
    assert "POST" in response.headers["access-control-allow-methods"]
    allowed = response.headers["access-control-allow-headers"]
    assert {"authorization", "idempotency-key", "x-rowlock-admission", "x-rowlock-queue"} <= set(allowed.split(", "))
    assert "access-control-allow-credentials" not in response.headers


def test_another_origin_is_told_nothing(client: httpx.Client) -> None:
    asked = {"origin": "http://evil.test", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client.options(HOLDS, headers=asked).headers


def test_a_refusal_can_be_read_by_an_allowed_origin(house: House, client: httpx.Client) -> None:
    response = client.post(HOLDS, headers={"origin": ORIGIN, **house.user()}, json=SEATS)
    assert reason_of(response, 401) == "TOKEN_INVALID"
    assert response.headers["access-control-allow-origin"] == ORIGIN
