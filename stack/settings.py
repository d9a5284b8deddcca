"""What can be set about the stack, and where its state lies."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

PORTS_USED = 30  # room above the base port, see stack/ports.py


class StackSettings(BaseSettings):
    """Read by `python -m stack`. Stores of your own are given by the services' variables, see stack/stores.py."""

    model_config = SettingsConfigDict(
        env_prefix="ROWLOCK_STACK_", env_ignore_empty=True, extra="ignore", frozen=True, populate_by_name=True
    )

    base_port: int = Field(8080, ge=1024, le=65535 - PORTS_USED, description="the gateway's port; all others follow it")
    shards: str = Field(
        "s1",
        pattern=r"^[a-z][a-z0-9]{0,15}(,[a-z][a-z0-9]{0,15})*$",
        description="names of booking's shards, each a database of the embedded Postgres",
    )
    ready_seconds: float = Field(60, gt=0, le=600, description="how long a part may take until it is ready")
    sample_catalog: bool = Field(True, description="load about twenty events at the first start")
    home: Path = Field(
        Path(".rowlock"),
        validation_alias="ROWLOCK_HOME",
        description="where data, logs and secrets lie; another one makes another stack, apart from the first",
    )


class Home:
    """The state directory. Everything the stack writes is in it, under these names."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.data = self.directory / "data"
        self.logs = self.directory / "logs"
        self.run = self.directory / "run"
        self.lock = self.directory / "lock"
        self.secrets = self.directory / "secrets.json"
        self.endpoints = self.directory / "endpoints.json"
        self.envoy = self.directory / "envoy.json"
        self.catalog_loaded = self.directory / "catalog-loaded"

    def make(self) -> None:
        """Makes the folders. Others may walk through to Postgres' data, for as root it runs as another user."""
        for folder, mode in ((self.directory, 0o755), (self.data, 0o711), (self.logs, 0o700), (self.run, 0o700)):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)

    def contents(self) -> list[Path]:
        """What exists of it."""
        folders = (self.data, self.logs, self.run)
        files = (self.secrets, self.endpoints, self.envoy, self.envoy.with_suffix(".binpb"), self.catalog_loaded)
        return [path for path in (*folders, *files, self.lock) if path.exists()]

    def log(self, part: str) -> Path:
        """The log of a part."""
        return self.logs / f"{part}.log"
