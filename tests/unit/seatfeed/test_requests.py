"""What the stream listener takes for a request, and what it refuses."""

import json

import pytest

from services.seatfeed.errors import EventNotFound, TooManySubscribers
from services.seatfeed.requests import HEAD_BYTES, BadRequest, RequestParser, StreamRequest, bad_request, refusal


def request_of(target: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", "host: x", *headers, "", ""]).encode()


def test_a_request_may_come_in_pieces() -> None:
    parser = RequestParser()
    whole = request_of("/v1/events/evt_s1_7/updates?section=Block%20A&x=1", "last-event-id: e.1")
    assert all(parser.feed(whole[place : place + 1]) is None for place in range(len(whole) - 1))
    assert parser.feed(whole[-1:]) == StreamRequest("evt_s1_7", "Block A", "e.1")


def test_a_section_is_utf8_and_optional() -> None:
    assert RequestParser().feed(request_of("/v1/events/e/updates?section=%C3%9C")) == StreamRequest("e", "Ü", "")
    assert RequestParser().feed(request_of("/v1/events/e/updates")) == StreamRequest("e", "", "")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request_of("/v1/events/e/updates/"), 404),
        (request_of("/v1/events/e"), 404),
        (request_of("//v1/events/e/updates"), 404),
        (request_of("/v1/events/e/updates?section=A&section=B"), 400),
        (request_of("/v1/events/e/updates?section=%FF"), 400),
        (request_of("/v1/events/e/updates?" + "&".join(["a=b"] * 30)), 400),
        (request_of("/v1/events/e/updates", method="POST"), 405),
        (request_of("/v1/events/e/updates", "content-length: 1") + b"x", 400),
        (request_of("/v1/events/e/updates", "x: " + "y" * HEAD_BYTES), 431),
        (b"x" * (HEAD_BYTES + 1), 431),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (request_of("/v1/events/e/updates", "transfer-encoding: chunked", "content-length: 1"), 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    ],
)
def test_a_bad_request_is_refused(sent: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        RequestParser().feed(sent)
    assert refused.value.status == status
    answer = bad_request(refused.value)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["details"][0]["reason"] in ("INVALID_ARGUMENT", "NOT_FOUND")


def test_a_refusal_has_the_form_of_all_refusals() -> None:
    head, _, body = refusal(EventNotFound()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert json.loads(body) == {
        "code": 5,
        "message": "There is no such event.",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "EVENT_NOT_FOUND",
                "domain": "rowlock",
            }
        ],
    }
    assert b"\r\nretry-after: " in refusal(TooManySubscribers())
