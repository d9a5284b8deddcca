"""What the sandbox processor reads from its environment."""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from chassis.settings import Address


class ProcessorSettings(BaseSettings):
    """`ROWLOCK_PROCESSOR_…`"""

    model_config = SettingsConfigDict(
        env_prefix="ROWLOCK_PROCESSOR_", env_ignore_empty=True, extra="ignore", frozen=True
    )

    listen: Address = Field("127.0.0.1:0", description="where the API and the ledger listen")
    ledger: Path = Field(description="the SQLite file that keeps every intent, answer and capture")
    api_key: SecretStr = Field(min_length=8, description="the bearer key that callers of the API must send")
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="least level that is logged")
