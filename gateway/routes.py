"""An allow-list of routes, one for each call, each with its own token requirement; everything else is refused.

No request is matched twice: the requirement hangs on the route, and the transcoder keeps the route.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from chassis.tokens import ADMISSION_HEADER, IDEMPOTENCY_HEADER, QUEUE_HEADER
from gateway.calls import Call
from gateway.identity import needs_of, open_to_all
from gateway.limits import STREAM_IDLE_TIMEOUT, UNARY_TIMEOUT
from gateway.settings import GatewaySettings

TYPE = "type.googleapis.com/envoy.extensions"
TRANSCODER_FILTER = "envoy.filters.http.grpc_json_transcoder"
CORS_FILTER = "envoy.filters.http.cors"
ANSWER_FILTER = "rowlock.answer"

PAGE_FILES = ("/", "/config.json", "/favicon.ico", "/mark.svg", "/robots.txt")
PAGE_ASSETS = "/assets/"
CLIENT_ROUTES = ("/events/{event_id}", "/orders", "/orders/{order_id}", "/callback")
"""Addresses that the page itself understands; its server answers them with index.html."""

SAFE_TO_SEND_AGAIN = "connect-failure,refused-stream,reset-before-request"
"""Nothing reached the replica, or it said so. A read may also be sent again when the connection broke."""


def virtual_host(settings: GatewaySettings, calls: list[Call]) -> dict[str, Any]:
    """All routes, in the order in which they are tried."""
    host: dict[str, Any] = {
        "name": "rowlock",
        "domains": ["*"],
        "routes": [
            _refuse({"prefix": "/", "headers": [_grpc_content()]}, 415),
            *(_preflight(origin) for origin in settings.cors_origins),
            *(_call_route(call) for call in calls),
            *_other_methods(calls),
            *_page_routes(),
            _refuse({"prefix": "/"}, 404),
        ],
    }
    if settings.cors_origins:
        host["typed_per_filter_config"] = {CORS_FILTER: _cors(settings.cors_origins, calls)}
    return host


def _call_route(call: Call) -> dict[str, Any]:
    route: dict[str, Any] = {
        "name": f"{call.proto_service}.{call.name}",
        "match": _match(call.path, [call.method]),
        "route": {"cluster": call.cluster, "retry_policy": _retry(call.method)},
        "typed_per_filter_config": needs_of(call),
        "response_headers_to_add": _caching(call),
    }
    if call.stream:
        route["route"] |= {"timeout": "0s", "idle_timeout": STREAM_IDLE_TIMEOUT}
        route["typed_per_filter_config"][TRANSCODER_FILTER] = _untranscoded()
    else:
        route["route"]["timeout"] = UNARY_TIMEOUT
        route["metadata"] = {"filter_metadata": {ANSWER_FILTER: _told(call)}}
    return route


def _told(call: Call) -> dict[str, Any]:
    """What lua/answer.lua must know of a call."""
    bound = len(call.tokens) > 1  # the comparison of the event with the path refuses any query
    return {"success_status": str(call.success_status), "takes_query": bound or not call.whole_body}


def _caching(call: Call) -> list[dict[str, Any]]:
    """What a cache in front must know: CORS headers differ by origin, and an answer to a token is nobody else's."""
    headers: list[dict[str, Any]] = [{"header": {"key": "vary", "value": "origin"}}]
    if call.tokens:
        private = {"key": "cache-control", "value": "no-store"}
        headers.append({"header": private, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"})
    return headers


def _other_methods(calls: list[Call]) -> list[dict[str, Any]]:
    """A known address with a method that it does not take: 405 with `Allow`."""
    refused = []
    for path, same in groupby(calls, key=lambda call: call.path):
        allowed = ", ".join(sorted(call.method for call in same))
        route = _refuse(_match(path, ()), 405)
        route["response_headers_to_add"] = [{"header": {"key": "allow", "value": allowed}}]
        refused.append(route)
    return refused


def _page_routes() -> list[dict[str, Any]]:
    readers = [_method(["GET", "HEAD"])]
    matches = [
        *({"path": path, "headers": readers} for path in PAGE_FILES),
        {"prefix": PAGE_ASSETS, "headers": readers},
        *(_match(path, ["GET", "HEAD"]) for path in CLIENT_ROUTES),
    ]
    return [
        {
            "match": match,
            "route": {"cluster": "page", "timeout": UNARY_TIMEOUT, "retry_policy": _retry("GET")},
            "typed_per_filter_config": {**open_to_all(), TRANSCODER_FILTER: _untranscoded()},
        }
        for match in matches
    ]


def _preflight(origin: str) -> dict[str, Any]:
    """What the CORS filter answers by itself; it leaves routes without an upstream alone, so this one names one."""
    headers = [
        _method(["OPTIONS"]),
        {"name": "origin", "string_match": {"exact": origin}},
        {"name": "access-control-request-method", "present_match": True},
    ]
    return {
        "match": {"prefix": "/v1/", "headers": headers},
        "route": {"cluster": "page"},
        "typed_per_filter_config": {**open_to_all(), TRANSCODER_FILTER: _untranscoded()},
    }


def _refuse(match: dict[str, Any], status: int) -> dict[str, Any]:
    return {
        "match": match,
        "direct_response": {"status": status},
        "typed_per_filter_config": {**open_to_all(), TRANSCODER_FILTER: _untranscoded()},
    }


def _match(path: str, methods: Iterable[str]) -> dict[str, Any]:
    template = {"@type": f"{TYPE}.path.match.uri_template.v3.UriTemplateMatchConfig", "path_template": path}
    policy = {"name": "envoy.path.match.uri_template.uri_template_matcher", "typed_config": template}
    match: dict[str, Any] = {"path_match_policy": policy}
    if methods:
        match["headers"] = [_method(list(methods))]
    return match


def _method(methods: list[str]) -> dict[str, Any]:
    if len(methods) == 1:
        return {"name": ":method", "string_match": {"exact": methods[0]}}
    return {"name": ":method", "string_match": {"safe_regex": {"regex": "|".join(methods)}}}


def _grpc_content() -> dict[str, Any]:
    return {"name": "content-type", "string_match": {"prefix": "application/grpc", "ignore_case": True}}


def _retry(method: str) -> dict[str, Any]:
    return {
        "retry_on": f"{SAFE_TO_SEND_AGAIN},reset" if method == "GET" else SAFE_TO_SEND_AGAIN,
        "num_retries": 2,
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {"@type": f"{TYPE}.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
            }
        ],
        "host_selection_retry_max_attempts": 3,
        "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.25s"},
    }


def _untranscoded() -> dict[str, Any]:
    """A transcoder without services lets everything pass."""
    kind = f"{TYPE}.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder"
    return {"@type": kind, "proto_descriptor_bin": "", "services": []}


def _cors(origins: tuple[str, ...], calls: list[Call]) -> dict[str, Any]:
    headers = ("authorization", "content-type", IDEMPOTENCY_HEADER, QUEUE_HEADER, ADMISSION_HEADER, "last-event-id")
    return {
        "@type": f"{TYPE}.filters.http.cors.v3.CorsPolicy",
        "allow_origin_string_match": [{"exact": origin} for origin in origins],
        "allow_methods": ", ".join(sorted({call.method for call in calls})),
        "allow_headers": ", ".join((*headers, "traceparent")),
        "expose_headers": "etag, retry-after",
        "max_age": "600",
    }
