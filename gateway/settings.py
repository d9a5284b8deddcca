"""What the gateway is told: where it listens, where the services are, and whose tokens it takes."""

from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from chassis.settings import Words
from chassis.tokens import KeyRing


class Endpoint(NamedTuple):
    """A `host:port`."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Endpoint":
        host, colon, port = text.strip().rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError("each address is host:port")
        return cls(host.strip("[]"), int(port))


def _endpoint(value: Any) -> Any:
    return Endpoint.parse(value) if isinstance(value, str) else value


def _endpoints(value: Any) -> Any:
    return tuple(Endpoint.parse(part) for part in value.split(",") if part.strip()) if isinstance(value, str) else value


One = Annotated[Endpoint, NoDecode, BeforeValidator(_endpoint)]
Some = Annotated[tuple[Endpoint, ...], NoDecode, BeforeValidator(_endpoints), Field(min_length=1)]


class GatewaySettings(BaseSettings):
    """The environment of `python -m gateway render`."""

    model_config = SettingsConfigDict(
        env_prefix="ROWLOCK_GATEWAY_", env_ignore_empty=True, extra="ignore", frozen=True, validate_default=True
    )

    listen: One = Field(Endpoint("127.0.0.1", 8080), description="where browsers come; loopback unless told otherwise")
    admin_listen: One = Field(Endpoint("127.0.0.1", 9901), description="Envoy's admin interface; never outside")
    catalog_addresses: Some = Field(description="gRPC servers of catalog, host:port, comma-separated")
    booking_addresses: Some = Field(description="gRPC servers of booking")
    waitingroom_addresses: Some = Field(description="gRPC servers of waitingroom")
    seatfeed_addresses: Some = Field(description="gRPC servers of seatfeed")
    seatfeed_stream_addresses: Some = Field(description="HTTP/1.1 listeners of seatfeed that write the stream")
    payments_addresses: Annotated[tuple[Endpoint, ...], NoDecode, BeforeValidator(_endpoints)] = Field(
        (), description="gRPC servers of payments; needed once it has a public call"
    )
    page_address: One = Field(description="server of the browser's page")
    oidc_issuer: str = Field(min_length=1, description="`iss` of user tokens")
    oidc_jwks_url: str = Field(description="where the issuer publishes its keys; http or https")
    oidc_ca_file: str = Field(
        "/etc/ssl/certs/ca-certificates.crt", description="authorities that may vouch for an https issuer"
    )
    signing_keys: str = Field(repr=False, description="keys of queue and admission tokens, as waitingroom has them")
    cors_origins: Words = Field((), description="other origins whose pages may call, comma-separated")
    connections: int = Field(20_000, ge=1, description="connections from outside at once; one more is closed")

    @field_validator("signing_keys")
    @classmethod
    def _keys_parse(cls, value: str) -> str:
        KeyRing.parse(value)
        return value

    @field_validator("oidc_jwks_url")
    @classmethod
    def _url_is_http(cls, value: str) -> str:
        url = urlsplit(value)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("an http or https URL is needed")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _origins_are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            url = urlsplit(origin)
            if url.scheme not in ("http", "https") or origin != f"{url.scheme}://{url.netloc}" or not url.netloc:
                raise ValueError("an origin is scheme://host[:port], without a path")
        return value

    def addresses(self, service: str) -> tuple[Endpoint, ...]:
        """Where a service listens, by its name; `seatfeed_stream` is a name too."""
        return getattr(self, f"{service}_addresses")  # type: ignore[no-any-return]
