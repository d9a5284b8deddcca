"""The parts of the house: how each is started, what it is told, and when it is ready. In the order of their start."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stack import engines
from stack.errors import StackError
from stack.keys import Secrets
from stack.ports import LOOPBACK, Ports
from stack.readiness import Probe, every, grpc_serving, http_answers, listens, postgres_answers, valkey_answers
from stack.settings import Home
from stack.stores import Stores

PAGE = Path(__file__).parent.parent / "gateway" / "web" / "dist"
BOOKING_REPLICAS = ("booking-1", "booking-2")
DRAIN_SECONDS = "3"  # streams never end by themselves, and a person waits for `stop`
CLOSE_SECONDS = "10"  # with the drain less than `stop` waits before it kills
WAVES = ("engines", "services", "edge")


@dataclass(frozen=True)
class Part:
    """`prepare` is called just before a start, with the part's environment, and returns the argv."""

    name: str
    wave: str
    prepare: Callable[[Mapping[str, str]], list[str]]
    ports: tuple[str, ...]
    ready: Probe
    variables: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM

    def environment(self) -> dict[str, str]:
        """Ours, then what the person's environment says, but never where to listen: two replicas cannot share that."""
        fixed = {name: value for name, value in self.variables.items() if name.endswith("LISTEN")}
        return {**self.variables, **os.environ, **fixed, "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Plan:
    """What parts are made from."""

    home: Home
    secrets: Secrets
    ports: Ports
    stores: Stores

    def parts(self) -> list[Part]:
        """Every part of this stack. Engines that the environment replaces are left out."""
        found = [
            *([self._postgres()] if self.stores.needs_postgres else []),
            *([self._valkey()] if self.stores.needs_valkey else []),
            self._processor(),
            self._issuer(),
            self._catalog(),
            *(self._booking(replica) for replica in BOOKING_REPLICAS),
            self._payments(),
            self._waitingroom(),
            self._seatfeed(),
            self._page(),
            self._gateway(),
        ]
        return sorted(found, key=lambda part: WAVES.index(part.wave))

    def target(self, *names: str) -> str:
        """What a gRPC client dials: round robin over the replicas."""
        return "ipv4:" + ",".join(self.ports.address(name) for name in names)

    def _postgres(self) -> Part:
        password, port = self.secrets.postgres_password, self.ports.number("postgres")
        url = f"postgresql://{engines.SUPERUSER}:{password}@{LOOPBACK}:{port}/postgres"
        return Part(
            "postgres",
            "engines",
            lambda _: engines.postgres_command(self.home.data / "postgres", port, password=password),
            ("postgres",),
            postgres_answers(url),
            stop_signal=engines.POSTGRES_STOP,
        )

    def _valkey(self) -> Part:
        password, port = self.secrets.valkey_password, self.ports.number("valkey")
        return Part(
            "valkey",
            "engines",
            lambda _: engines.valkey_command(self.home.data / "valkey", port, password=password),
            ("valkey",),
            valkey_answers(LOOPBACK, port, password),
        )

    def _processor(self) -> Part:
        return Part(
            "processor",
            "services",
            lambda _: python("sandbox.processor"),
            ("processor",),
            http_answers(f"{self.ports.url('processor')}/sandbox/health", range(200, 201)),
            {
                "ROWLOCK_PROCESSOR_LISTEN": self.ports.address("processor"),
                "ROWLOCK_PROCESSOR_LEDGER": str(self.home.data / "processor.sqlite"),
                "ROWLOCK_PROCESSOR_API_KEY": self.secrets.processor_api_key,
            },
        )

    def _issuer(self) -> Part:
        return Part(
            "issuer",
            "services",
            lambda _: python("sandbox.issuer"),
            ("issuer",),
            http_answers(f"{self.ports.url('issuer')}/.well-known/openid-configuration", range(200, 201)),
            {
                "ROWLOCK_ISSUER_LISTEN": self.ports.address("issuer"),
                "ROWLOCK_ISSUER_URL": self.ports.url("issuer"),
                "ROWLOCK_ISSUER_STATE": str(self.home.data / "issuer"),
                "ROWLOCK_ISSUER_CLIENT_ORIGINS": self._origins(),
            },
        )

    def _catalog(self) -> Part:
        return self._service(
            "catalog",
            "catalog",
            {
                "DATABASE_URL": self.stores.variables["ROWLOCK_CATALOG_DATABASE_URL"],
                "SHARDS": self.stores.variables["ROWLOCK_CATALOG_SHARDS"],
                "BOOKING_TARGET": self.target(*BOOKING_REPLICAS),
                "WAITINGROOM_TARGET": self.target("waitingroom"),
            },
        )

    def _booking(self, replica: str) -> Part:
        return self._service(
            replica,
            "booking",
            {
                "SHARDS": self.stores.variables["ROWLOCK_BOOKING_SHARDS"],
                "REDIS_URL": self.stores.variables["ROWLOCK_BOOKING_REDIS_URL"],
                "PAYMENTS_TARGET": self.target("payments"),
                "WAITINGROOM_TARGET": self.target("waitingroom"),
            },
        )

    def _payments(self) -> Part:
        return self._service(
            "payments",
            "payments",
            {
                "DATABASE_URL": self.stores.variables["ROWLOCK_PAYMENTS_DATABASE_URL"],
                "BOOKING_TARGET": self.target(*BOOKING_REPLICAS),
                "PROCESSOR_URL": self.ports.url("processor"),
                "PROCESSOR_API_KEY": self.secrets.processor_api_key,
            },
        )

    def _waitingroom(self) -> Part:
        return self._service(
            "waitingroom",
            "waitingroom",
            {
                "REDIS_URL": self.stores.variables["ROWLOCK_WAITINGROOM_REDIS_URL"],
                "SIGNING_KEYS": self.secrets.signing_keys,
                "SEATFEED_TARGET": self.target("seatfeed"),
            },
        )

    def _seatfeed(self) -> Part:
        stream = "seatfeed-stream"
        return self._service(
            "seatfeed",
            "seatfeed",
            {
                "SHARDS": self.stores.variables["ROWLOCK_SEATFEED_SHARDS"],
                "REDIS_URL": self.stores.variables["ROWLOCK_SEATFEED_REDIS_URL"],
                "STREAM_LISTEN": self.ports.address(stream),
            },
            (stream,),
        )

    def _service(self, name: str, service: str, variables: Mapping[str, str], extra: tuple[str, ...] = ()) -> Part:
        listens_at = {"LISTEN": self.ports.address(name), "METRICS_LISTEN": self.ports.address(f"{name}-metrics")}
        told = {**listens_at, "DRAIN_SECONDS": DRAIN_SECONDS, "CLOSE_SECONDS": CLOSE_SECONDS, **variables}
        ready = [
            grpc_serving(self.ports.address(name)),
            *(listens(LOOPBACK, self.ports.number(port)) for port in extra),
        ]
        return Part(
            name,
            "services",
            lambda _: python(f"services.{service}"),
            (name, f"{name}-metrics", *extra),
            every(*ready),
            {f"ROWLOCK_{service.upper()}_{key}": value for key, value in told.items()},
        )

    def _page(self) -> Part:
        return Part(
            "page",
            "services",
            lambda _: page_argv(),
            ("page",),
            http_answers(self.ports.url("page")),
            {
                "ROWLOCK_PAGE_LISTEN": self.ports.address("page"),
                "ROWLOCK_PAGE_DIRECTORY": str(PAGE),
                "ROWLOCK_PAGE_ISSUER": self.ports.url("issuer"),
            },
        )

    def _gateway(self) -> Part:
        addresses = self.ports.address
        variables = {
            "LISTEN": addresses("gateway"),
            "ADMIN_LISTEN": addresses("gateway-admin"),
            "CATALOG_ADDRESSES": addresses("catalog"),
            "BOOKING_ADDRESSES": ",".join(addresses(replica) for replica in BOOKING_REPLICAS),
            "PAYMENTS_ADDRESSES": addresses("payments"),
            "WAITINGROOM_ADDRESSES": addresses("waitingroom"),
            "SEATFEED_ADDRESSES": addresses("seatfeed"),
            "SEATFEED_STREAM_ADDRESSES": addresses("seatfeed-stream"),
            "PAGE_ADDRESS": addresses("page"),
            "OIDC_ISSUER": self.ports.url("issuer"),
            "OIDC_JWKS_URL": f"{self.ports.url('issuer')}/jwks.json",
            "SIGNING_KEYS": self.secrets.signing_keys,
            "CORS_ORIGINS": self._origins(),
        }
        told = {f"ROWLOCK_GATEWAY_{key}": value for key, value in variables.items()}
        ready = every(
            http_answers(f"{self.ports.url('gateway-admin')}/ready", range(200, 201)),
            listens(LOOPBACK, self.ports.number("gateway")),
        )
        return Part("gateway", "edge", self._render, ("gateway", "gateway-admin"), ready, told)

    def _render(self, environment: Mapping[str, str]) -> list[str]:
        """Renders Envoy's configuration, which holds the signing keys, and returns the argv of Envoy."""
        argv = [*python("gateway"), "render", "--output", str(self.home.envoy)]
        self.home.envoy.touch(mode=0o600)
        rendered = subprocess.run(argv, check=False, env=dict(environment), capture_output=True, text=True)
        if rendered.returncode:
            raise StackError(f"The gateway's configuration could not be rendered: {rendered.stderr.strip()}")
        return engines.envoy_command(self.home.envoy)

    def _origins(self) -> str:
        port = self.ports.number("gateway")
        return f"http://{LOOPBACK}:{port},http://localhost:{port}"


def page_argv() -> list[str]:
    """The page's server, once the page is built."""
    if not (PAGE / "index.html").exists():
        raise StackError(f"The page is not built ({PAGE} has no index.html): run `make page`.")
    return python("gateway.page")


def python(module: str) -> list[str]:
    """A module of ours, by this very Python."""
    return [sys.executable, "-m", module]
