"""What the sandbox issuer is told."""

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from chassis.settings import Address, Words


class IssuerSettings(BaseSettings):
    """The environment of `python -m sandbox.issuer`."""

    model_config = SettingsConfigDict(env_prefix="ROWLOCK_ISSUER_", env_ignore_empty=True, extra="ignore", frozen=True)

    listen: Address = Field("127.0.0.1:8081", description="where it listens; it believes everybody, so keep it inside")
    url: str = Field(description="its own address as browsers see it; `iss` of its tokens")
    state: Path = Field(description="directory of its signing keys")
    client_origins: Words = Field(description="origins whose pages may sign people in, comma-separated", min_length=1)

    @field_validator("url")
    @classmethod
    def _without_slash(cls, value: str) -> str:
        if urlsplit(value).scheme not in ("http", "https"):
            raise ValueError("an http or https URL is needed")
        return value.rstrip("/")
