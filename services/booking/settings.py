"""What booking reads from the environment."""

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from chassis.settings import ServiceSettings, parse_shards


class Settings(ServiceSettings):
    """`ROWLOCK_BOOKING_*`."""

    model_config = SettingsConfigDict(env_prefix="ROWLOCK_BOOKING_", env_ignore_empty=True, extra="ignore", frozen=True)

    shards: str = Field(description="the shards, by name: `s1=postgresql://…,s2=postgresql://…`")
    payments_target: str = Field(description="where payments answers")
    redis_url: str = Field(
        "",
        description="the Redis-protocol server of the stream `booking.orders`, which must evict nothing; "
        "empty: what is for the stream waits, seven days at most",
    )
    waitingroom_target: str = Field("", description="where waitingroom answers; empty: nothing is reported")
    pool_size: int = Field(10, ge=2, le=200, description="most connections to each shard for callers")
    worker_pool_size: int = Field(
        4, ge=2, le=50, description="most connections to each shard for what goes on by itself; no crowd can take them"
    )
    statement_cache_size: int = Field(
        100,
        ge=0,
        le=1000,
        description="prepared statements kept by a connection; 0 behind a pooler in transaction mode, as PgBouncer",
    )
    confirm_grace_seconds: float = Field(
        5, ge=0, le=30, description="how long after its expiry a hold that nobody took over may still become an order"
    )
    payment_bound_seconds: float = Field(
        900,  # payments ends an ambiguous charge itself after 600 s; asked sooner it would end many that still succeed
        ge=1,
        le=3000,  # an invariant alarms at an hour
        description="how long an order may wait for its payment; then payments is asked to give it up",
    )
    sweep_seconds: float = Field(1, gt=0, le=60, description="pause between two rounds of the sweeper")
    monitor_seconds: float = Field(60, gt=0, le=3600, description="pause between two checks of the invariants")

    @field_validator("shards")
    @classmethod
    def _names_each_shard(cls, text: str) -> str:
        parse_shards(text)
        return text
