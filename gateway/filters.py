"""The HTTP filters, in the order in which a request passes them. An answer passes them the other way."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

from chassis.tokens import ACCOUNT_HEADER, EMAIL_HEADER, EPOCH_HEADER, EVENT_HEADER, IDENTITY_HEADERS, POSITION_HEADER
from gateway.calls import Call, path_fields
from gateway.identity import JWT_FILTER, RBAC_FILTER, TOKEN_HEADERS, jwt_filter, rbac_filter
from gateway.limits import LARGEST_BODY_BYTES, LARGEST_RESPONSE_BYTES, LONGEST_PATH_BYTES
from gateway.refusals import texts_by_status
from gateway.routes import ANSWER_FILTER, CORS_FILTER, TRANSCODER_FILTER, TYPE
from gateway.settings import GatewaySettings

IDENTITY_FILTER = "rowlock.identity"


def http_filters(settings: GatewaySettings, calls: list[Call], image: Path) -> list[dict[str, Any]]:
    return [
        # Outermost: a refusal must carry CORS headers too, or the page cannot read it.
        _filter(CORS_FILTER, {"@type": f"{TYPE}.filters.http.cors.v3.Cors"}),
        _filter("envoy.filters.http.header_mutation", _strip()),
        _filter(ANSWER_FILTER, _lua(_answer_source(calls))),
        _filter(JWT_FILTER, jwt_filter(settings, calls)),
        _filter(RBAC_FILTER, rbac_filter()),
        _filter(IDENTITY_FILTER, _lua(_identity_source())),
        _filter("envoy.filters.http.buffer", _body_limit()),
        _filter(TRANSCODER_FILTER, _transcoder(calls, image)),
        _filter(
            "envoy.filters.http.router",
            {"@type": f"{TYPE}.filters.http.router.v3.Router", "suppress_envoy_headers": True},
        ),
    ]


def _strip() -> dict[str, Any]:
    """Removes what only the gateway may say: identity, and orders to Envoy or gRPC."""
    removed: list[dict[str, Any]] = [{"remove": name} for name in IDENTITY_HEADERS]
    for matcher in ({"prefix": "x-envoy-"}, {"prefix": "grpc-"}, {"suffix": "-bin"}):
        removed.append({"remove_on_match": {"key_matcher": matcher}})
    return {
        "@type": f"{TYPE}.filters.http.header_mutation.v3.HeaderMutation",
        "mutations": {"request_mutations": removed},
    }


def _body_limit() -> dict[str, Any]:
    return {"@type": f"{TYPE}.filters.http.buffer.v3.Buffer", "max_request_bytes": LARGEST_BODY_BYTES}


def _transcoder(calls: list[Call], image: Path) -> dict[str, Any]:
    return {
        "@type": f"{TYPE}.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder",
        "proto_descriptor": str(image),
        "services": sorted({call.proto_service for call in calls}),
        "convert_grpc_status": True,
        "match_incoming_request_route": True,
        # A query parameter beats the path. Where a token binds the event, any query was refused before.
        "ignored_query_parameters": path_fields(calls),
        "request_validation_options": {
            "reject_unknown_method": True,
            "reject_unknown_query_parameters": True,
            "reject_binding_body_field_collisions": True,
        },
        "max_response_body_size": LARGEST_RESPONSE_BYTES,
        "print_options": {"always_print_primitive_fields": True},
    }


def _lua(source: str) -> dict[str, Any]:
    return {"@type": f"{TYPE}.filters.http.lua.v3.Lua", "default_source_code": {"inline_string": source}}


def _answer_source(calls: list[Call]) -> str:
    refusals = ", ".join(f"[{json.dumps(status)}] = [=[{text}]=]" for status, text in texts_by_status().items())
    ignored = ", ".join(f"{name} = true" for name in path_fields(calls))
    tables = f"local REFUSALS = {{{refusals}}}\nlocal IGNORED = {{{ignored}}}"
    return f"local LONGEST_PATH = {LONGEST_PATH_BYTES}\n{tables}\n{_script('answer.lua')}"


def _identity_source() -> str:
    names = {
        "account": ACCOUNT_HEADER,
        "email": EMAIL_HEADER,
        "event": EVENT_HEADER,
        "position": POSITION_HEADER,
        "epoch": EPOCH_HEADER,
    }
    tokens = ", ".join(json.dumps(name) for name in TOKEN_HEADERS)
    table = ", ".join(f"{key} = {json.dumps(name)}" for key, name in names.items())
    return f"local NAMES = {{tokens = {{{tokens}}}, {table}}}\n{_script('identity.lua')}"


def _script(name: str) -> str:
    return resources.files("gateway").joinpath("lua", name).read_text(encoding="utf-8")


def _filter(name: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "typed_config": config}
