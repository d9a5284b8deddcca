"""What payments reads from its environment."""

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from chassis.settings import ServiceSettings

CLAIM_MARGIN_SECONDS = 5.0  # for the database's part between two calls of the processor, its bounded waits included


class PaymentsSettings(ServiceSettings):
    """`ROWLOCK_PAYMENTS_…`"""

    model_config = SettingsConfigDict(env_prefix="ROWLOCK_PAYMENTS_")

    database_url: str = Field(description="DSN of the payments database")
    database_connections: int = Field(10, ge=2, le=100, description="most connections to it")
    statement_cache_size: int = Field(
        100,
        ge=0,
        le=1000,
        description="prepared statements kept by a connection; 0 behind a pooler in transaction mode, as PgBouncer",
    )
    booking_target: str = Field(description="gRPC target of booking, which hears of outcomes")
    processor_url: str = Field(pattern=r"^https?://", description="base address of Stripe's API, or of the sandbox's")
    processor_api_key: SecretStr = Field(min_length=8, description="secret key at the processor")
    processor_timeout_seconds: float = Field(10, gt=0, le=60, description="after that an answer is UNKNOWN")
    charges_at_once: int = Field(20, ge=1, le=100, description="attempts this process works on at the same time")
    poll_seconds: float = Field(1, gt=0, le=60, description="pause between looks for due attempts when nobody wakes it")
    ambiguity_seconds: float = Field(
        600, gt=0, le=82_800, description="after that an undecided payment is cancelled at the processor"
    )

    @property
    def claim_seconds(self) -> float:
        """How long a worker that died keeps an attempt from the others."""
        return self.processor_timeout_seconds + CLAIM_MARGIN_SECONDS
