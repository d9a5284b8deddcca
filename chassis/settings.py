"""Typed settings from the environment. A start that fails names everything that is wrong, not the first thing."""

import re
import sys
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

SHARD_NAME = "[a-z][a-z0-9]{0,15}"
NEXT_SHARD = re.compile(rf",\s*(?={SHARD_NAME}=)")  # a DSN may contain commas: it may name several hosts

Address = Annotated[str, StringConstraints(pattern=r"^[^\s:]+:\d{1,5}$")]
"""`host:port`. Port 0 lets the system choose."""


def _words(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
"""Words with commas between."""


class ServiceSettings(BaseSettings):
    """What every service reads. A service's own class sets `env_prefix` and adds fields, each with a description."""

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    listen: Address = Field("127.0.0.1:0", description="where the gRPC server listens")
    metrics_listen: Address = Field("127.0.0.1:0", description="where Prometheus scrapes; inside only")
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="least level that is logged")
    trace_ratio: float = Field(
        0.05, ge=0, le=1, description="share of calls whose spans are recorded, where the caller has not said"
    )
    drain_seconds: float = Field(
        10, ge=0, le=300, description="how long calls are served after SIGTERM; new ones for 4 s, or half of it"
    )
    close_seconds: float = Field(
        15,  # with the drain 25: less than the 30 after which Kubernetes kills
        ge=1,
        le=300,
        description="how long after that commits under way, and the end of connections, may take; then the process "
        "ends all the same, with status 75. Both together must be less than the patience of whoever stops it",
    )
    default_deadline_seconds: float = Field(
        30, gt=0, le=600, description="longest time for a call whose caller set no deadline"
    )
    concurrent_calls: int = Field(
        4000, ge=1, description="calls under way at once; one more is refused with RESOURCE_EXHAUSTED"
    )


SettingsT = TypeVar("SettingsT", bound=BaseSettings)


def load_settings(settings: type[SettingsT]) -> SettingsT:
    """The settings, or exit status 2 with a line on stderr for each variable that is missing or wrong.

    Values are not shown: one of them may be a secret.
    """
    try:
        return settings()
    except ValidationError as error:
        for fault in error.errors(include_input=False, include_url=False):
            name = variable(settings, str(fault["loc"][0])) if fault["loc"] else "settings"
            print(f"{name}: {fault['msg']}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None


def parse_shards(text: str) -> dict[str, str]:
    """DSNs by name, in the order given, of `s1=postgresql://…,s2=…`. Raises ValueError, which shows no DSN: there may
    be a password in it."""
    shards: dict[str, str] = {}
    for part in NEXT_SHARD.split(text.strip().removesuffix(",")):
        name, _, dsn = part.partition("=")
        if not re.fullmatch(SHARD_NAME, name) or not dsn:
            raise ValueError("each shard is `name=dsn`, with commas between shards; a name is letters and digits")
        if name in shards:
            raise ValueError(f"shard {name} is named twice")
        shards[name] = dsn.strip()
    return shards


def variable(settings: type[BaseSettings], field: str) -> str:
    """The environment variable that sets a field."""
    return f"{settings.model_config.get('env_prefix', '')}{field}".upper()
