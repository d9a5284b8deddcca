"""What waitingroom reads from the environment."""

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from chassis.settings import ServiceSettings
from chassis.tokens import KeyRing
from services.waitingroom.rows import Terms


class WaitingRoomSettings(ServiceSettings):
    """Variables are ROWLOCK_WAITINGROOM_…; the times are those of the glossary, and seldom need another value."""

    model_config = SettingsConfigDict(env_prefix="ROWLOCK_WAITINGROOM_")

    redis_url: str = Field(repr=False, description="the Redis-protocol server that keeps the lines")
    redis_connections: int = Field(16, ge=1, le=10_000, description="most connections to it from this process")
    signing_keys: str = Field(
        repr=False, description="kid:secret,… in base64url: the first signs queue and admission tokens"
    )
    seatfeed_target: str | None = Field(
        None, description="gRPC target of seatfeed; without it lines move on when nothing is left"
    )
    tick_seconds: float = Field(0.5, ge=0.4, le=5, description="how often each line may move")
    grace_seconds: int = Field(60, ge=1, le=600, description="how long a position that was passed may be claimed")
    lease_seconds: int = Field(120, ge=1, le=3600, description="how long a lease lives without a heartbeat")
    max_stay_seconds: int = Field(900, ge=1, le=86_400, description="how long a lease lives with heartbeats")
    heartbeat_seconds: int = Field(20, ge=1, le=600, description="how often a page is told to send a heartbeat")
    admission_token_seconds: int = Field(60, ge=1, le=600, description="how long an admission token lives")

    @field_validator("signing_keys")
    @classmethod
    def _is_a_ring(cls, text: str) -> str:
        KeyRing.parse(text)
        return text

    def terms(self) -> Terms:
        """The times, as rules and scripts take them."""
        return Terms(
            grace_seconds=self.grace_seconds,
            lease_seconds=self.lease_seconds,
            max_stay_seconds=self.max_stay_seconds,
            heartbeat_seconds=self.heartbeat_seconds,
            admission_token_seconds=self.admission_token_seconds,
        )
