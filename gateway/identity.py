"""Which tokens a call needs, and how a token is bound to the event and the account of the request."""

from typing import Any
from urllib.parse import urlsplit

from rowlock.edge.v1 import edge_pb2

from chassis.tokens import (
    ADMISSION_AUDIENCE,
    ADMISSION_HEADER,
    QUEUE_AUDIENCE,
    QUEUE_HEADER,
    USER_AUDIENCE,
    WAITINGROOM_ISSUER,
    KeyRing,
)
from gateway.calls import Call
from gateway.limits import CLOCK_SKEW_SECONDS, KEYS_CACHE_SECONDS, KEYS_TIMEOUT
from gateway.settings import GatewaySettings

JWT_FILTER = "envoy.filters.http.jwt_authn"
RBAC_FILTER = "envoy.filters.http.rbac"
JWT_TYPE = "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3"
RBAC_TYPE = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3"

PROVIDERS: dict[int, str] = {
    edge_pb2.TOKEN_USER: "user",
    edge_pb2.TOKEN_QUEUE: "queue",
    edge_pb2.TOKEN_ADMISSION: "admission",
}
EVERY_TOKEN = tuple(sorted(PROVIDERS))
TOKEN_HEADERS = ("authorization", QUEUE_HEADER, ADMISSION_HEADER)


def jwt_filter(settings: GatewaySettings, calls: list[Call]) -> dict[str, Any]:
    """`jwt_authn`. A route that names no requirement of its own would need every token: it fails closed."""
    needs = sorted({call.tokens for call in calls if call.tokens} | {EVERY_TOKEN})
    return {
        "@type": f"{JWT_TYPE}.JwtAuthentication",
        "providers": {
            "user": _user_provider(settings),
            "queue": _line_provider(settings, "queue", QUEUE_AUDIENCE, QUEUE_HEADER),
            "admission": _line_provider(settings, "admission", ADMISSION_AUDIENCE, ADMISSION_HEADER),
        },
        "requirement_map": {requirement_name(tokens): _requirement(tokens) for tokens in needs},
        "rules": [{"match": {"prefix": "/"}, "requirement_name": requirement_name(EVERY_TOKEN)}],
    }


def rbac_filter() -> dict[str, Any]:
    """Denies all; each route replaces it."""
    return {"@type": f"{RBAC_TYPE}.RBAC", "rules": {"action": "ALLOW", "policies": {}}}


def open_to_all() -> dict[str, Any]:
    """Per-route configuration of a route that needs no token."""
    return {
        JWT_FILTER: {"@type": f"{JWT_TYPE}.PerRouteConfig", "disabled": True},
        RBAC_FILTER: {"@type": f"{RBAC_TYPE}.RBACPerRoute"},
    }


def needs_of(call: Call) -> dict[str, Any]:
    """Per-route configuration of a call: its tokens, and their binding."""
    if not call.tokens:
        return open_to_all()
    rbac: dict[str, Any] = {"@type": f"{RBAC_TYPE}.RBACPerRoute"}
    line = next((PROVIDERS[token] for token in call.tokens if token != edge_pb2.TOKEN_USER), None)
    if line is not None:
        rbac["rbac"] = {"rules": {"action": "ALLOW", "policies": {"bound": _policy(_bound(call, line))}}}
    return {
        JWT_FILTER: {"@type": f"{JWT_TYPE}.PerRouteConfig", "requirement_name": requirement_name(call.tokens)},
        RBAC_FILTER: rbac,
    }


def requirement_name(tokens: tuple[int, ...]) -> str:
    return "+".join(PROVIDERS[token] for token in tokens)


def _requirement(tokens: tuple[int, ...]) -> dict[str, Any]:
    each = [{"provider_name": PROVIDERS[token]} for token in tokens]
    return each[0] if len(each) == 1 else {"requires_all": {"requirements": each}}


def _user_provider(settings: GatewaySettings) -> dict[str, Any]:
    return {
        "issuer": settings.oidc_issuer,
        "audiences": [USER_AUDIENCE],
        # Named, because the default would also take a token from the query.
        "from_headers": [{"name": "authorization", "value_prefix": "Bearer "}],
        "remote_jwks": {
            "http_uri": {"uri": settings.oidc_jwks_url, "cluster": "issuer", "timeout": KEYS_TIMEOUT},
            "cache_duration": f"{KEYS_CACHE_SECONDS}s",
            # The listener waits for the first answer, so that the first callers are not refused.
            "async_fetch": {"fast_listener": False, "failed_refetch_duration": "1s"},
        },
        **_common("user"),
    }


def _line_provider(settings: GatewaySettings, name: str, audience: str, header: str) -> dict[str, Any]:
    return {
        "issuer": WAITINGROOM_ISSUER,
        "audiences": [audience],
        "from_headers": [{"name": header}],
        "local_jwks": {"inline_string": KeyRing.parse(settings.signing_keys).jwks()},
        **_common(name),
    }


def _common(name: str) -> dict[str, Any]:
    return {
        "payload_in_metadata": name,
        "failed_status_in_metadata": refused_key(name),
        "require_expiration": True,
        "clock_skew_seconds": CLOCK_SKEW_SECONDS,
    }


def refused_key(name: str) -> str:
    """Where `jwt_authn` notes, in the request's metadata, why a provider's token was refused."""
    return f"{name}_refused"


def issuer_endpoint(settings: GatewaySettings) -> tuple[str, int, bool]:
    """Host, port, and whether by TLS, of the issuer's keys."""
    url = urlsplit(settings.oidc_jwks_url)
    secure = url.scheme == "https"
    return str(url.hostname), url.port or (443 if secure else 80), secure


def _policy(condition: dict[str, Any]) -> dict[str, Any]:
    return {
        "permissions": [{"any": True}],
        "principals": [{"any": True}],
        "cel_config": {"enable_string_concat": True},  # without it the condition is false, silently
        "condition": condition,
    }


def _bound(call: Call, line: str) -> dict[str, Any]:
    """`line.sub == user.sub && request.path == "/v1/events/" + line.eid + "/holds"`.

    `request.path` has the query in it: a query could name another event to the transcoder, so a call that a token
    binds takes none.
    """
    before, after = call.path.split("{event_id}")
    path = _cel("_+_", _cel("_+_", _text(before), _claim(line, "eid")), _text(after))
    asked = {"select_expr": {"operand": {"ident_expr": {"name": "request"}}, "field": "path"}}
    same_account = _cel("_==_", _claim(line, "sub"), _claim("user", "sub"))
    return _cel("_&&_", same_account, _cel("_==_", asked, path))


def _claim(provider: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "select_expr": {"operand": {"ident_expr": {"name": "metadata"}}, "field": "filter_metadata"}
    }
    for key in (JWT_FILTER, provider, name):
        found = _cel("_[_]", found, _text(key))
    return found


def _cel(function: str, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"call_expr": {"function": function, "args": list(arguments)}}


def _text(value: str) -> dict[str, Any]:
    return {"const_expr": {"string_value": value}}
