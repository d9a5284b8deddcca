"""What catalog reads from the environment."""

from typing import Annotated

from pydantic import Field, StringConstraints, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from chassis.settings import ServiceSettings

Shard = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]{0,15}$")]


class CatalogSettings(ServiceSettings):
    """Variables `ROWLOCK_CATALOG_…`."""

    model_config = SettingsConfigDict(env_prefix="ROWLOCK_CATALOG_")

    database_url: str = Field(description="DSN of catalog's Postgres")
    shards: Annotated[tuple[Shard, ...], NoDecode] = Field(
        min_length=1, description="names of booking's shards that new events go to, comma-separated: s1,s2"
    )
    booking_target: str = Field(description="gRPC target of booking, host:port or a list of replicas")
    waitingroom_target: str = Field(description="gRPC target of waitingroom")
    database_connections: int = Field(10, ge=2, le=100, description="most connections to Postgres")

    @field_validator("shards", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value
