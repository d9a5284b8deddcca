"""Settings of seatfeed."""

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from chassis.settings import Address, ServiceSettings, parse_shards


class Settings(ServiceSettings):
    """Read from ROWLOCK_SEATFEED_…"""

    model_config = SettingsConfigDict(
        env_prefix="ROWLOCK_SEATFEED_", env_ignore_empty=True, extra="ignore", frozen=True
    )

    stream_listen: Address = Field("127.0.0.1:0", description="where the HTTP/1.1 listener for event streams listens")
    shards: str = Field(
        repr=False,
        description="booking's shards, `s1=postgresql://…,s2=…`; the role may replicate and read the publication",
    )
    redis_url: str = Field(repr=False, description="where pictures and recent ticks are kept")
    publication: str = Field("rowlock_seats", description="booking's publication of its seats")
    slot_prefix: str = Field(
        "rowlock_seatfeed", pattern="^[a-z0-9_]{1,40}$", description="the replication slot is `<prefix>_<shard>`"
    )
    tick_seconds: float = Field(1.0, gt=0, le=60, description="time between two deltas of an event")
    most_subscribers: int = Field(20_000, ge=1, description="streams open at once in this process; one more gets 503")
    write_buffer_bytes: int = Field(
        262_144, ge=4096, description="unsent bytes of a stream beyond which its reader is dropped"
    )

    @field_validator("shards")
    @classmethod
    def _names_each_shard(cls, text: str) -> str:
        parse_shards(text)
        return text

    @property
    def dsns(self) -> dict[str, str]:
        """By shard."""
        return parse_shards(self.shards)
