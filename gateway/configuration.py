"""Envoy's whole configuration: one listener, one connection manager, the routes and filters made from the protos."""

from pathlib import Path
from typing import Any

from gateway import limits
from gateway.calls import Call
from gateway.clusters import address, clusters
from gateway.filters import http_filters
from gateway.refusals import local_replies
from gateway.routes import TYPE, virtual_host
from gateway.settings import GatewaySettings


def configuration(settings: GatewaySettings, calls: list[Call], image: Path) -> dict[str, Any]:
    """The bootstrap. Same settings and protos, same configuration. It holds the signing keys: secret."""
    return {
        "admin": {"address": address(settings.admin_listen)},
        "static_resources": {
            "listeners": [_listener(settings, calls, image)],
            "clusters": clusters(settings, calls),
        },
        "overload_manager": _connection_limit(settings.connections),
    }


def _listener(settings: GatewaySettings, calls: list[Call], image: Path) -> dict[str, Any]:
    manager = {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": _connection_manager(settings, calls, image),
    }
    return {
        "name": "edge",
        "address": address(settings.listen),
        "per_connection_buffer_limit_bytes": limits.BUFFER_BYTES,
        "filter_chains": [{"filters": [manager]}],
    }


def _connection_manager(settings: GatewaySettings, calls: list[Call], image: Path) -> dict[str, Any]:
    return {
        "@type": f"{TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "edge",
        "server_name": "rowlock",
        "use_remote_address": True,
        "generate_request_id": True,
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "max_request_headers_kb": limits.LARGEST_HEADERS_KB,
        "common_http_protocol_options": {
            "headers_with_underscores_action": "REJECT_REQUEST",
            "max_headers_count": limits.MOST_HEADERS,
            "idle_timeout": limits.IDLE_TIMEOUT,
        },
        "http2_protocol_options": {
            "max_concurrent_streams": limits.STREAMS_PER_CONNECTION,
            "initial_stream_window_size": limits.STREAM_WINDOW_BYTES,
            "initial_connection_window_size": limits.CONNECTION_WINDOW_BYTES,
        },
        "request_headers_timeout": limits.HEADERS_TIMEOUT,
        "request_timeout": limits.REQUEST_TIMEOUT,
        "stream_idle_timeout": limits.STREAM_IDLE_TIMEOUT,
        "local_reply_config": local_replies(),
        "access_log": [_failures_log()],
        "route_config": {
            "name": "edge",
            "virtual_hosts": [virtual_host(settings, calls)],
            "response_headers_to_add": [_nosniff()],
            "validate_clusters": True,
        },
        "http_filters": http_filters(settings, calls, image),
    }


def _nosniff() -> dict[str, Any]:
    header = {"key": "x-content-type-options", "value": "nosniff"}
    return {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def _failures_log() -> dict[str, Any]:
    """A line for each answer of 500 or more: which, how long, and why Envoy thinks so. No header, no query."""
    line = {
        "method": "%REQ(:METHOD)%",
        "path": "%PATH(NQ:ORIG)%",
        "status": "%RESPONSE_CODE%",
        "why": "%RESPONSE_CODE_DETAILS%",
        "flags": "%RESPONSE_FLAGS%",
        "milliseconds": "%DURATION%",
        "upstream": "%UPSTREAM_HOST%",
        "request_id": "%REQ(X-REQUEST-ID)%",
    }
    return {
        "name": "envoy.access_loggers.stderr",
        "filter": {
            "status_code_filter": {
                "comparison": {"op": "GE", "value": {"default_value": 500, "runtime_key": "rowlock.logged_from"}}
            }
        },
        "typed_config": {
            "@type": f"{TYPE}.access_loggers.stream.v3.StderrAccessLog",
            "log_format": {"json_format": line},
        },
    }


def _connection_limit(connections: int) -> dict[str, Any]:
    monitor = "envoy.resource_monitors.global_downstream_max_connections"
    config = {
        "@type": f"{TYPE}.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        "max_active_downstream_connections": connections,
    }
    return {"resource_monitors": [{"name": monitor, "typed_config": config}]}
