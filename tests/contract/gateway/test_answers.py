"""What comes back: statuses, JSON, whole plans, streams, and what a dead or silent replica costs."""

import asyncio
import json
import threading
import time
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import timestamp_pb2
from rowlock.booking.v1 import booking_pb2
from rowlock.catalog.v1 import catalog_pb2
from rowlock.money.v1 import money_pb2

from chassis.errors import Refusal
from chassis.settings import ServiceSettings
from tests.contract.gateway.forms import GRPC_HEADERS, reason_of
from tests.contract.gateway.house import EVENT, House

HOLDS = f"/v1/events/{EVENT}/holds"
SEATS = {"seatIds": [1]}


class SeatUnavailable(Refusal):
    code = grpc.StatusCode.ABORTED
    reason = "SEAT_UNAVAILABLE"


class Cancelled(Refusal):
    code = grpc.StatusCode.CANCELLED
    reason = "CANCELLED"


def answer(value: Any) -> Any:
    async def give(_request: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return give


def test_statuses_of_success(house: House, client: httpx.Client) -> None:
    assert client.post(HOLDS, headers=house.inside(), json=SEATS).status_code == 201
    order = {"holdId": "hld_s1_1", "paymentToken": "pm_card_visa"}
    assert client.post("/v1/orders", headers=house.user(), json=order).status_code == 202
    assert client.get("/v1/orders", headers=house.user()).status_code == 200
    response = client.delete("/v1/holds/hld_s1_1", headers=house.user())
    assert response.status_code == 200
    assert not GRPC_HEADERS & set(response.headers)
    assert response.headers["server"] == "rowlock"
    assert response.headers["x-content-type-options"] == "nosniff"


def test_what_a_token_brought_is_stored_by_no_cache(house: House, client: httpx.Client) -> None:
    for response in (
        client.get("/v1/orders", headers=house.user()),
        client.post(HOLDS, headers=house.inside(), json=SEATS),
        client.get("/v1/orders"),
    ):
        assert response.headers["cache-control"] == "no-store"
    response = client.get("/v1/events")
    assert "cache-control" not in response.headers  # the service's to say
    assert "origin" in response.headers["vary"]


def test_json_is_camel_case_with_every_scalar(house: House, client: httpx.Client) -> None:
    hold = booking_pb2.HoldSeatsResponse(
        hold_id="hld_s1_1",
        expires_at=timestamp_pb2.Timestamp(seconds=1_800_000_000),
        total=money_pb2.Money(currency_code="EUR", amount_minor=9_007_199_254_740_993),
        fees=money_pb2.Money(currency_code="EUR"),
    )
    house.recorder.answers["HoldSeats"] = answer(hold)
    assert client.post(HOLDS, headers=house.inside(), json=SEATS).json() == {
        "holdId": "hld_s1_1",
        "expiresAt": "2027-01-15T08:00:00Z",
        "state": "HOLD_STATE_UNSPECIFIED",
        "seats": [],
        "total": {"currencyCode": "EUR", "amountMinor": "9007199254740993"},
        "fees": {"currencyCode": "EUR", "amountMinor": "0"},
    }


def test_a_service_s_refusal_keeps_reason_and_metadata(house: House, client: httpx.Client) -> None:
    refusal = SeatUnavailable("Somebody was faster.", lostSeatIds="1,2")
    house.recorder.answers["HoldSeats"] = answer(refusal)
    response = client.post(HOLDS, headers=house.inside(), json=SEATS)
    assert reason_of(response, 409) == "SEAT_UNAVAILABLE"
    assert response.json()["message"] == "Somebody was faster."
    assert response.json()["details"][0]["metadata"] == {"lostSeatIds": "1,2"}


def test_a_defect_is_500_and_says_nothing_of_itself(house: House, client: httpx.Client) -> None:
    house.recorder.answers["HoldSeats"] = answer(RuntimeError("SELECT secret"))
    response = client.post(HOLDS, headers=house.inside(), json=SEATS)
    assert reason_of(response, 500) == "INTERNAL"
    assert "secret" not in response.text


def test_what_an_ending_replica_cancels_is_503_and_can_be_asked_again(house: House, client: httpx.Client) -> None:
    """The transcoder's 499 says that the caller has gone."""
    house.recorder.answers["HoldSeats"] = answer(Cancelled("Ended."))
    assert reason_of(client.post(HOLDS, headers=house.inside(), json=SEATS), 503) == "CANCELLED"


def test_a_full_server_s_bare_status_gets_its_form(house: House, client: httpx.Client) -> None:
    """grpc refuses calls over its limit by itself, without details."""
    catalog = house.servers["catalog"][0]

    async def swap(limit: int) -> None:
        port = catalog.port
        await house.servers["catalog"][0].stop()
        settings = ServiceSettings(listen=f"127.0.0.1:{port}", drain_seconds=0, concurrent_calls=limit)
        house.servers["catalog"][0] = await house.start_server("catalog", settings=settings)

    house.run(swap(1))
    try:
        slow = asyncio.Event()

        async def wait(_request: Any) -> Any:
            await slow.wait()
            return catalog_pb2.GetEventResponse()

        house.recorder.answers["GetEvent"] = wait
        first = threading.Thread(target=httpx.get, args=(f"{house.url}/v1/events/{EVENT}",))
        first.start()
        until(lambda: house.arrived() == ["GetEvent"])
        assert reason_of(client.get("/v1/events"), 429) == "TOO_MANY_REQUESTS"
        house.loop.call_soon_threadsafe(slow.set)
        first.join(10)
    finally:
        house.run(swap(4000))


def test_a_plan_of_18_000_seats_passes_whole(house: House, client: httpx.Client) -> None:
    rows = [
        catalog_pb2.Row(
            row=str(row),
            seats=[
                catalog_pb2.Seat(seat_id=row * 100 + n, number=str(n), x=n * 20, y=row * 20, tier=1) for n in range(100)
            ],
        )
        for row in range(180)
    ]
    sections = [catalog_pb2.Section(section="All", rows=rows)]
    plan = catalog_pb2.SeatPlan(width=2000, height=3600, sections=sections)
    house.recorder.answers["GetEventPlan"] = answer(catalog_pb2.GetEventPlanResponse(plan_version="v1", plan=plan))
    response = client.get(f"/v1/events/{EVENT}/plan")
    assert response.status_code == 200
    [section] = response.json()["plan"]["sections"]
    seats = [seat["seatId"] for row in section["rows"] for seat in row["seats"]]
    assert seats == list(range(18_000))
    assert len(response.content) > 1_000_000


def test_the_stream_is_passed_through_as_it_is_written(house: House, client: httpx.Client) -> None:
    headers = {"last-event-id": "e.0", "x-rowlock-account": "acc_eve", "accept": "text/event-stream"}
    with client.stream("GET", f"/v1/events/{EVENT}/updates?section=A", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        chunks = response.iter_raw()
        first = b'retry: 1000\n\nid: e.1\ndata: {"a":"\xc3\xa9"}\n\n'
        assert next(chunks) == first  # while the stream is still open: nothing is held back
        house.loop.call_soon_threadsafe(house.stream.more.set)
        assert b"".join(chunks) == b": still here\n\nid: e.2\nevent: resync\ndata: {}\n\n"
    asked = house.stream.requests[-1].decode().lower()
    assert asked.startswith(f"get /v1/events/{EVENT}/updates?section=a ".lower())
    assert "last-event-id: e.0" in asked
    assert "acc_eve" not in asked


def test_the_page_comes_from_its_server(house: House, client: httpx.Client) -> None:
    for path in ("/", f"/events/{EVENT}", "/callback?code=a&state=b"):
        response = client.get(path)
        assert (response.status_code, response.headers["cache-control"]) == (200, "no-cache")
        assert "<title>Rowlock</title>" in response.text
    assert client.head("/").status_code == 200
    asset = client.get("/assets/main-1a2b.js")
    assert (asset.status_code, asset.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
    assert client.get("/config.json").json() == {"issuer": house.issuer_url, "clientId": "rowlock"}
    assert reason_of(client.get("/assets/gone.js"), 404) == "NOT_FOUND"


def test_replicas_share_the_calls(house: House, client: httpx.Client) -> None:
    for _ in range(20):
        assert client.get("/v1/orders", headers=house.user()).status_code == 200
    ports = {server.port for server in house.servers["booking"]}
    assert {arrival.port for arrival in house.recorder.arrivals} == ports


def test_a_dead_replica_costs_nobody_anything(house: House, client: httpx.Client) -> None:
    house.run(house.relays[0].kill())
    try:
        statuses = [client.post(HOLDS, headers=house.inside(), json=SEATS).status_code for _ in range(40)]
        assert statuses == [201] * 40
        assert len(house.recorder.arrivals) == 40  # sent again only where nothing had arrived
    finally:
        house.run(house.relays[0].start())


@pytest.mark.parametrize(("name", "sent"), [("HoldSeats", 1), ("ListOrders", 2)], ids=["a write", "a read"])
def test_a_call_under_way_in_a_killed_replica_is_sent_again_only_if_it_reads(
    house: House, name: str, sent: int
) -> None:
    hang = asyncio.Event()

    async def first_hangs(_request: Any) -> Any:
        if len(house.recorder.arrivals) == 1:
            await hang.wait()
        return booking_pb2.ListOrdersResponse()

    house.recorder.answers[name] = first_hangs
    answers: list[httpx.Response] = []

    def call() -> None:
        if name == "HoldSeats":
            answers.append(httpx.post(house.url + HOLDS, headers=house.inside(), json=SEATS, timeout=20))
        else:
            answers.append(httpx.get(f"{house.url}/v1/orders", headers=house.user(), timeout=20))

    caller = threading.Thread(target=call)
    caller.start()
    until(lambda: len(house.recorder.arrivals) == 1)
    [relay] = [relay for relay in house.relays if relay.target == house.recorder.arrivals[0].port]
    house.run(relay.kill())
    try:
        caller.join(20)
        if name == "HoldSeats":
            assert reason_of(answers[0], 503) == "UNAVAILABLE"
        else:
            assert answers[0].status_code == 200
        assert len(house.recorder.arrivals) == sent
    finally:
        house.run(relay.start())


def test_no_replica_at_all_is_503(house: House, client: httpx.Client) -> None:
    port = house.servers["waitingroom"][0].port
    house.run(house.servers["waitingroom"][0].stop())
    try:
        assert reason_of(client.get(f"/v1/events/{EVENT}/waiting-room"), 503) == "UNAVAILABLE"
    finally:
        house.servers["waitingroom"] = [house.run(house.start_server("waitingroom", listen=f"127.0.0.1:{port}"))]
    until(lambda: client.get(f"/v1/events/{EVENT}/waiting-room").status_code == 200)


def test_silence_is_504_after_the_timeout(house: House, client: httpx.Client) -> None:
    async def too_long(_request: Any) -> Any:
        await asyncio.sleep(60)

    house.recorder.answers["GetEvent"] = too_long
    began = time.monotonic()
    assert reason_of(client.get(f"/v1/events/{EVENT}", timeout=60), 504) == "DEADLINE_EXCEEDED"
    assert 14 < time.monotonic() - began < 55  # before the answer would come


@pytest.mark.parametrize("verb", ["enter", "heartbeat", "leave"])
def test_an_empty_body_is_an_empty_message(house: House, client: httpx.Client, verb: str) -> None:
    headers = {**house.user(), "x-rowlock-queue": house.queue()}
    response = client.post(f"/v1/events/{EVENT}/{verb}", headers=headers)
    assert response.status_code == 200, response.text
    assert json.loads(response.content) is not None


def until(true: Any, seconds: float = 10) -> None:
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)
