"""As much of HTTP/1.1 as a listener for event streams needs: one strict request, one answer, then the end."""

from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, unquote

import h11
from google.protobuf.json_format import MessageToJson

from chassis.errors import Code, Refusal, status_of

HEAD_BYTES = 8192  # of a request: a path, a few headers and what the gateway adds
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
)

STATUSES = {
    Code.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    Code.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Code.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """`GET /v1/events/{event_id}/updates[?section=]`, and what the client saw last."""

    event_id: str
    section: str
    last_seen: str


class BadRequest(Exception):
    """A request that is refused before anybody looks at what it asks for."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class RequestParser:
    """Takes bytes until the request is whole."""

    def __init__(self) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._taken = 0

    def feed(self, data: bytes) -> StreamRequest | None:
        """The request, once it is there. Raises BadRequest."""
        self._taken += len(data)
        if self._taken > HEAD_BYTES:
            raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "INVALID_ARGUMENT", "The request is too long.")
        try:
            self._connection.receive_data(data)
            event = self._connection.next_event()
        except h11.RemoteProtocolError as error:
            status = HTTPStatus(error.error_status_hint)
            raise BadRequest(status, "INVALID_ARGUMENT", "The request is not valid HTTP/1.1.") from error
        return _stream_request(event) if isinstance(event, h11.Request) else None


def refusal(error: Refusal) -> bytes:
    """A whole answer, in the form that every refusal has."""
    status = STATUSES.get(error.code, HTTPStatus.INTERNAL_SERVER_ERROR)
    return _answer(status, error.code, error.reason, error.message, error.metadata)


def bad_request(error: BadRequest) -> bytes:
    """A whole answer, in the form that every refusal has."""
    code = Code.NOT_FOUND if error.status is HTTPStatus.NOT_FOUND else Code.INVALID_ARGUMENT
    return _answer(error.status, code, error.reason, error.message, {})


def defect() -> bytes:
    """A whole answer for what should not have happened; it says nothing more."""
    message = "Something went wrong on our side; try again."
    return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, Code.INTERNAL, "INTERNAL", message, {})


def _stream_request(head: h11.Request) -> StreamRequest:
    if head.method != b"GET":
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "INVALID_ARGUMENT", "Only GET is served here.")
    if any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in head.headers
    ):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "INVALID_ARGUMENT", "This call has no body.")
    path, _, query = head.target.decode("ascii").partition("?")
    parts = path.split("/")
    if len(parts) != 5 or parts[:3] != ["", "v1", "events"] or parts[4] != "updates":
        raise BadRequest(HTTPStatus.NOT_FOUND, "NOT_FOUND", "There is nothing at this path.")
    try:
        sections = parse_qs(query, keep_blank_values=True, max_num_fields=20, errors="strict").get("section", [""])
        event_id = unquote(parts[3], errors="strict")
    except ValueError as error:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "INVALID_ARGUMENT", "The query is malformed.") from error
    if len(sections) > 1:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "INVALID_ARGUMENT", "Only one section can be followed by a stream.")
    last_seen = [value for name, value in head.headers if name == b"last-event-id"]
    return StreamRequest(event_id, sections[0], last_seen[-1].decode("latin-1") if last_seen else "")


def _answer(status: HTTPStatus, code: Code, reason: str, message: str, metadata: dict[str, str]) -> bytes:
    body = MessageToJson(status_of(code, reason, message, metadata), indent=None).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\nconnection: close\r\n"
    )
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        head += "allow: GET\r\n"
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        head += "retry-after: 2\r\n"
    return f"{head}\r\n".encode() + body
