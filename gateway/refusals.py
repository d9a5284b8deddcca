"""The edge's own refusals, in the form of every refusal: google.rpc.Status with an ErrorInfo."""

import json
from dataclasses import dataclass, field
from typing import Any

import grpc

from chassis.errors import DOMAIN
from gateway.identity import JWT_FILTER, refused_key

Code = grpc.StatusCode
JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class EdgeRefusal:
    """What is said for a status. `message` may name Envoy's own sentence, `%LOCAL_REPLY_BODY%`."""

    status: int
    code: grpc.StatusCode
    reason: str
    message: str
    metadata: dict[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        number: int = self.code.value[0]
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.reason,
            "domain": DOMAIN,
            "metadata": self.metadata,
        }
        return {"code": number, "message": self.message, "details": [info]}


ENVOYS = "%LOCAL_REPLY_BODY%"
TOKEN_FOR_ANOTHER = EdgeRefusal(
    403, Code.PERMISSION_DENIED, "TOKEN_FOR_ANOTHER", "The token is of another event or account than the request."
)
TOKENS_INVALID = {
    name: EdgeRefusal(
        401,
        Code.UNAUTHENTICATED,
        "TOKEN_INVALID",
        f"The {name} token that this call needs is not valid: {ENVOYS}.",
        {"token": name},
    )
    for name in ("user", "queue", "admission")
}
"""Which token it was matters to a client: to sign in again, or to enter again."""

KEYS_UNKNOWN = EdgeRefusal(
    503, Code.UNAVAILABLE, "UNAVAILABLE", "Tokens cannot be verified at the moment; try again with the same key."
)
REFUSALS = (
    EdgeRefusal(400, Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", f"The request cannot be read: {ENVOYS}"),
    EdgeRefusal(401, Code.UNAUTHENTICATED, "TOKEN_INVALID", f"A token that this call needs is not valid: {ENVOYS}."),
    EdgeRefusal(403, Code.PERMISSION_DENIED, "FORBIDDEN", "This is not served."),
    EdgeRefusal(404, Code.NOT_FOUND, "NOT_FOUND", "There is nothing at this address."),
    EdgeRefusal(405, Code.UNIMPLEMENTED, "METHOD_NOT_ALLOWED", "This address does not take this method."),
    EdgeRefusal(408, Code.DEADLINE_EXCEEDED, "REQUEST_TIMEOUT", "The request did not arrive in time."),
    EdgeRefusal(413, Code.INVALID_ARGUMENT, "BODY_TOO_LARGE", "The body is larger than any call takes."),
    EdgeRefusal(414, Code.INVALID_ARGUMENT, "URL_TOO_LONG", "The address is longer than any call takes."),
    EdgeRefusal(415, Code.INVALID_ARGUMENT, "UNSUPPORTED_MEDIA_TYPE", "Calls from outside are JSON, not gRPC."),
    EdgeRefusal(429, Code.RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS", "Too many requests; try again in a moment."),
    EdgeRefusal(431, Code.INVALID_ARGUMENT, "HEADERS_TOO_LARGE", "The headers are larger than any call takes."),
    EdgeRefusal(500, Code.INTERNAL, "INTERNAL", "Something went wrong on our side; try again with the same key."),
    EdgeRefusal(501, Code.UNIMPLEMENTED, "UNIMPLEMENTED", "This is not served yet."),
    EdgeRefusal(502, Code.UNAVAILABLE, "UNAVAILABLE", "No usable answer; try again with the same key."),
    EdgeRefusal(503, Code.UNAVAILABLE, "UNAVAILABLE", "No answer at the moment; try again with the same key."),
    EdgeRefusal(504, Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", "No answer in time; try again with the same key."),
)
ANY_OTHER = EdgeRefusal(0, Code.UNKNOWN, "REFUSED", f"The request was refused: {ENVOYS}")


def local_replies() -> dict[str, Any]:
    """Envoy's `local_reply_config`: the special cases first, then one mapper for each status."""
    return {
        "mappers": [
            _mapper(_where("response.code_details.startsWith('rbac')"), TOKEN_FOR_ANOTHER),
            _mapper(_where("response.code_details.contains('Jwks_remote_fetch')"), KEYS_UNKNOWN),
            *(_mapper(_where(_refused_token(name)), refusal) for name, refusal in TOKENS_INVALID.items()),
            *(_mapper(_is_status(refusal.status), refusal) for refusal in REFUSALS),
        ],
        "body_format": _body_format(ANY_OTHER),
    }


def texts_by_status() -> dict[str, str]:
    """Whole refusals for statuses that an upstream sent without their form."""
    return {str(refusal.status): json.dumps(refusal.body()).replace(f": {ENVOYS}", "") for refusal in REFUSALS}


def _mapper(condition: dict[str, Any], refusal: EdgeRefusal) -> dict[str, Any]:
    return {"filter": condition, "status_code": refusal.status, "body_format_override": _body_format(refusal)}


def _body_format(refusal: EdgeRefusal) -> dict[str, Any]:
    return {"json_format": refusal.body(), "content_type": JSON_TYPE}


def _where(expression: str) -> dict[str, Any]:
    kind = "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter"
    return {"extension_filter": {"name": "cel", "typed_config": {"@type": kind, "expression": expression}}}


def _refused_token(name: str) -> str:
    return f"'{refused_key(name)}' in metadata.filter_metadata['{JWT_FILTER}']"


def _is_status(status: int) -> dict[str, Any]:
    value = {"default_value": status, "runtime_key": f"rowlock.status_{status}"}
    return {"status_code_filter": {"comparison": {"op": "EQ", "value": value}}}
