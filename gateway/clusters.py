"""Where requests go: the services' replicas, the page's server, the issuer's keys."""

import ipaddress
from typing import Any

from gateway.calls import Call
from gateway.identity import issuer_endpoint
from gateway.limits import (
    BUFFER_BYTES,
    CONNECT_TIMEOUT,
    CONNECTION_WINDOW_BYTES,
    STREAM_WINDOW_BYTES,
    UPSTREAM_REQUESTS,
    UPSTREAM_RETRIES,
    UPSTREAM_STREAMS,
)
from gateway.settings import Endpoint, GatewaySettings

HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"


def clusters(settings: GatewaySettings, calls: list[Call]) -> list[dict[str, Any]]:
    """One for each listener that a call or the page needs, by name."""
    names = sorted({(call.cluster, call.stream) for call in calls})
    services = [(_stream if stream else _grpc)(name, settings.addresses(name)) for name, stream in names]
    return [*services, _page(settings), _issuer(settings)]


def _grpc(name: str, endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    if not endpoints:
        raise ValueError(f"ROWLOCK_GATEWAY_{name.upper()}_ADDRESSES: {name} has a public call, so it needs an address")
    http2 = {
        "initial_connection_window_size": CONNECTION_WINDOW_BYTES,
        "initial_stream_window_size": STREAM_WINDOW_BYTES,
    }
    return {
        **_cluster(name, endpoints, UPSTREAM_REQUESTS, {"http2_protocol_options": http2}),
        # Finds a replica that hangs; one that died is found by the refused connection, which is tried elsewhere.
        # Slow to condemn, and Envoy's panic threshold stays: an overloaded machine must not lose all its replicas.
        "health_checks": [
            {
                "timeout": "2s",
                "interval": "2s",
                "no_traffic_interval": "2s",
                "unhealthy_interval": "1s",
                "unhealthy_threshold": 3,
                "healthy_threshold": 1,
                "grpc_health_check": {},
            }
        ],
    }


def _stream(name: str, endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    return _cluster(name, endpoints, UPSTREAM_STREAMS, {"http_protocol_options": {}})


def _page(settings: GatewaySettings) -> dict[str, Any]:
    return _cluster("page", (settings.page_address,), UPSTREAM_REQUESTS, {"http_protocol_options": {}})


def _issuer(settings: GatewaySettings) -> dict[str, Any]:
    host, port, secure = issuer_endpoint(settings)
    cluster = _cluster("issuer", (Endpoint(host, port),), UPSTREAM_REQUESTS, {"http_protocol_options": {}})
    if secure:
        names = [{"san_type": "DNS", "matcher": {"exact": host}}]
        trust = {"trusted_ca": {"filename": settings.oidc_ca_file}, "match_typed_subject_alt_names": names}
        context = {"@type": TLS, "sni": host, "common_tls_context": {"validation_context": trust}}
        cluster["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    return cluster


def _cluster(name: str, endpoints: tuple[Endpoint, ...], requests: int, protocol: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "type": "STATIC" if all(_is_ip(endpoint.host) for endpoint in endpoints) else "STRICT_DNS",
        "lb_policy": "ROUND_ROBIN",
        "connect_timeout": CONNECT_TIMEOUT,
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "circuit_breakers": {"thresholds": [_thresholds(requests)]},
        "typed_extension_protocol_options": {
            HTTP_OPTIONS: {"@type": f"type.googleapis.com/{HTTP_OPTIONS}", "explicit_http_config": protocol}
        },
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(endpoint)}} for endpoint in endpoints]}],
        },
    }


def _thresholds(requests: int) -> dict[str, int]:
    return {
        "max_connections": requests,
        "max_pending_requests": requests,
        "max_requests": requests,
        "max_retries": UPSTREAM_RETRIES,
    }


def address(endpoint: Endpoint) -> dict[str, Any]:
    return {"socket_address": {"address": endpoint.host, "port_value": endpoint.port}}


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
