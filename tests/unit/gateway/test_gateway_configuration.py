"""The rendered configuration: the same every time, taken by Envoy, closed where nobody opened it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.api import annotations_pb2
from google.protobuf import descriptor_pb2
from rowlock.edge.v1 import edge_pb2

from chassis.tokens import IDENTITY_HEADERS
from gateway.__main__ import render
from gateway.calls import path_fields, read_calls, read_image
from gateway.identity import EVERY_TOKEN, JWT_FILTER, RBAC_FILTER, requirement_name
from gateway.routes import TRANSCODER_FILTER
from gateway.settings import Endpoint, GatewaySettings
from stack.engines import envoy_validate_command

FREE = {("GET", "/v1/events"), ("GET", "/v1/events/{event_id}"), ("GET", "/v1/events/{event_id}/plan")}


def settings(**changes: Any) -> GatewaySettings:
    one = (Endpoint("127.0.0.1", 1001),)
    given = {
        "catalog_addresses": one,
        "booking_addresses": "127.0.0.1:1002, 127.0.0.1:1003",
        "waitingroom_addresses": one,
        "seatfeed_addresses": one,
        "seatfeed_stream_addresses": one,
        "page_address": "127.0.0.1:1004",
        "oidc_issuer": "https://issuer.test",
        "oidc_jwks_url": "http://127.0.0.1:1005/jwks.json",
        "signing_keys": f"k1:{'a' * 43}",
    }
    return GatewaySettings(**{**given, **changes})


def rendered(directory: Path, **changes: Any) -> dict[str, Any]:
    directory.mkdir(exist_ok=True)
    render(settings(**changes), directory / "envoy.json")
    return json.loads((directory / "envoy.json").read_text())


def manager_of(configuration: dict[str, Any]) -> dict[str, Any]:
    [listener] = configuration["static_resources"]["listeners"]
    return listener["filter_chains"][0]["filters"][0]["typed_config"]


def routes_of(configuration: dict[str, Any]) -> list[dict[str, Any]]:
    [host] = manager_of(configuration)["route_config"]["virtual_hosts"]
    return host["routes"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"oidc_jwks_url": "https://issuer.test/keys", "cors_origins": "https://a.test,https://b.test:8443"},
        {"booking_addresses": "booking-0.booking:50051,booking-1.booking:50051", "listen": "[::1]:8080"},
    ],
    ids=["plain", "https issuer and CORS", "host names"],
)
def test_envoy_takes_the_configuration(tmp_path: Path, changes: dict[str, Any]) -> None:
    directory = tmp_path / "with a space"
    rendered(directory, **changes)
    command = envoy_validate_command(directory / "envoy.json")
    checked = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr[-2000:]


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    for _ in range(2):
        rendered(tmp_path)
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert set(files) == {"envoy.json", "envoy.binpb"}
    rendered(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_only_the_owner_may_read_the_keys(tmp_path: Path) -> None:
    rendered(tmp_path)
    assert (tmp_path / "envoy.json").stat().st_mode & 0o777 == 0o600


def test_it_listens_on_loopback_unless_told(tmp_path: Path) -> None:
    configuration = rendered(tmp_path)
    [listener] = configuration["static_resources"]["listeners"]
    addresses = [listener["address"], configuration["admin"]["address"]]
    assert {address["socket_address"]["address"] for address in addresses} == {"127.0.0.1"}


def test_every_public_method_has_its_route_and_nothing_else_has(tmp_path: Path) -> None:
    named = [route["name"] for route in routes_of(rendered(tmp_path)) if "name" in route]
    wanted = {
        f"{file.package}.{service.name}.{method.name}"
        for file in read_image().file
        for service in file.service
        if file.package.startswith("rowlock.") and not service.name.endswith(("InternalService", "AdminService"))
        for method in service.method
    }
    assert set(named) == wanted
    assert len(named) == len(wanted)


def test_every_route_says_what_it_needs(tmp_path: Path) -> None:
    """And a route that did not would need all three tokens, and be denied: both filters fail closed."""
    configuration = rendered(tmp_path)
    for route in routes_of(configuration):
        assert {JWT_FILTER, RBAC_FILTER} <= set(route["typed_per_filter_config"])
    filters = {each["name"]: each["typed_config"] for each in manager_of(configuration)["http_filters"]}
    [rule] = filters[JWT_FILTER]["rules"]
    assert rule == {"match": {"prefix": "/"}, "requirement_name": requirement_name(EVERY_TOKEN)}
    assert filters[RBAC_FILTER]["rules"] == {"action": "ALLOW", "policies": {}}


def test_only_the_named_calls_are_free(tmp_path: Path) -> None:
    free = {(call.method, call.path) for call in read_calls(read_image()) if not call.tokens}
    assert free == FREE | {
        ("GET", "/v1/events/{event_id}/waiting-room"),
        ("GET", "/v1/events/{event_id}/seats"),
        ("GET", "/v1/events/{event_id}/updates"),
    }


def test_a_call_with_a_line_s_token_is_bound(tmp_path: Path) -> None:
    bound = [
        route["name"].rpartition(".")[2]
        for route in routes_of(rendered(tmp_path))
        if "rbac" in route["typed_per_filter_config"][RBAC_FILTER]
    ]
    assert sorted(bound) == ["EnterEvent", "Heartbeat", "HoldSeats", "LeaveEvent"]


def test_audiences_are_pinned_and_clocks_may_be_five_seconds_off(tmp_path: Path) -> None:
    filters = {each["name"]: each["typed_config"] for each in manager_of(rendered(tmp_path))["http_filters"]}
    providers = filters[JWT_FILTER]["providers"]
    audiences = {name: provider["audiences"] for name, provider in providers.items()}
    assert audiences == {"user": ["rowlock"], "queue": ["rowlock-queue"], "admission": ["rowlock-admission"]}
    assert {provider["clock_skew_seconds"] for provider in providers.values()} == {5}
    assert all(provider["require_expiration"] for provider in providers.values())


def test_identity_is_stripped_before_anything_reads_it(tmp_path: Path) -> None:
    filters = manager_of(rendered(tmp_path))["http_filters"]
    names = [each["name"] for each in filters]
    assert names.index("envoy.filters.http.header_mutation") < names.index(JWT_FILTER)
    [mutation] = [each for each in filters if each["name"] == "envoy.filters.http.header_mutation"]
    removed = {each.get("remove") for each in mutation["typed_config"]["mutations"]["request_mutations"]}
    assert set(IDENTITY_HEADERS) <= removed


def test_slow_senders_and_crowds_are_bounded(tmp_path: Path) -> None:
    configuration = rendered(tmp_path, connections=7)
    manager = manager_of(configuration)
    assert (manager["request_headers_timeout"], manager["request_timeout"]) == ("10s", "20s")
    assert manager["stream_idle_timeout"] == "60s"
    assert manager["http2_protocol_options"]["max_concurrent_streams"] == 256
    [monitor] = configuration["overload_manager"]["resource_monitors"]
    assert monitor["typed_config"]["max_active_downstream_connections"] == 7


def test_every_call_has_an_end_and_the_stream_has_none(tmp_path: Path) -> None:
    configuration = rendered(tmp_path)
    timeouts = {
        route["name"].rpartition(".")[2]: route["route"]["timeout"]
        for route in routes_of(configuration)
        if "name" in route
    }
    assert timeouts.pop("StreamUpdates") == "0s"
    assert set(timeouts.values()) == {"15s"}
    clusters = {each["name"]: each for each in configuration["static_resources"]["clusters"]}
    [limits] = clusters["seatfeed_stream"]["circuit_breakers"]["thresholds"]
    assert min(limits["max_connections"], limits["max_requests"]) >= 1_000_000


def test_a_replica_that_hangs_is_found(tmp_path: Path) -> None:
    clusters = {each["name"]: each for each in rendered(tmp_path)["static_resources"]["clusters"]}
    for name in ("catalog", "booking", "waitingroom", "seatfeed"):
        [check] = clusters[name]["health_checks"]
        assert "grpc_health_check" in check


def test_an_https_issuer_must_prove_its_name(tmp_path: Path) -> None:
    clusters = rendered(tmp_path, oidc_jwks_url="https://issuer.test/keys")["static_resources"]["clusters"]
    [issuer] = [each for each in clusters if each["name"] == "issuer"]
    context = issuer["transport_socket"]["typed_config"]
    trust = context["common_tls_context"]["validation_context"]
    assert context["sni"] == "issuer.test"
    assert trust["match_typed_subject_alt_names"] == [{"san_type": "DNS", "matcher": {"exact": "issuer.test"}}]
    assert trust["trusted_ca"]["filename"]


def test_only_public_services_are_transcoded(tmp_path: Path) -> None:
    filters = {each["name"]: each["typed_config"] for each in manager_of(rendered(tmp_path))["http_filters"]}
    assert filters[TRANSCODER_FILTER]["services"] == [
        "rowlock.booking.v1.BookingService",
        "rowlock.catalog.v1.CatalogService",
        "rowlock.seatfeed.v1.SeatFeedService",
        "rowlock.waitingroom.v1.WaitingRoomService",
    ]


def test_names_that_could_override_a_path_are_known_in_both_spellings() -> None:
    names = path_fields(read_calls(read_image()))
    assert names == ["eventId", "event_id", "holdId", "hold_id", "orderId", "order_id"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("booking_addresses", "127.0.0.1"),
        ("booking_addresses", "127.0.0.1:0"),
        ("booking_addresses", ""),
        ("oidc_jwks_url", "file:///etc/passwd"),
        ("signing_keys", "k1:short"),
        ("cors_origins", "https://a.test/path"),
        ("cors_origins", "*"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(variable: str, value: str) -> None:
    with pytest.raises(ValueError, match=variable):
        settings(**{variable: value})


def image_with(change: Any) -> descriptor_pb2.FileDescriptorSet:
    image = descriptor_pb2.FileDescriptorSet()
    image.CopyFrom(read_image())
    methods = {
        method.name: (service, method) for file in image.file for service in file.service for method in service.method
    }
    change(methods)
    return image


def _unbind(methods: Any) -> None:
    _, hold = methods["HoldSeats"]
    hold.options.Extensions[annotations_pb2.http].post = "/v1/holds"


def _drop_user(methods: Any) -> None:
    _, hold = methods["HoldSeats"]
    del hold.options.Extensions[edge_pb2.access].tokens[0]


def _open_admin(methods: Any) -> None:
    _, hold = methods["HoldSeats"]
    _, put = methods["PutInventory"]
    put.options.CopyFrom(hold.options)


def _wild_path(methods: Any) -> None:
    _, event = methods["GetEvent"]
    event.options.Extensions[annotations_pb2.http].get = "/v1/events/{event_id=**}"


@pytest.mark.parametrize("change", [_unbind, _drop_user, _open_admin, _wild_path])
def test_a_proto_that_the_routes_could_not_guard_is_refused(change: Any) -> None:
    read_calls(image_with(lambda _methods: None))
    with pytest.raises(ValueError, match=r"rowlock\."):
        read_calls(image_with(change))
