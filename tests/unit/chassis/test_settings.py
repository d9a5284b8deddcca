import pytest
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from chassis.settings import ServiceSettings, load_settings


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="ROWLOCK_TRIED_")
    database_url: str = Field(description="where the data is")


def test_load_settings_names_all_that_is_wrong_and_shows_no_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROWLOCK_TRIED_LISTEN", "s3cret")
    with pytest.raises(SystemExit) as end:
        load_settings(Settings)
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert "ROWLOCK_TRIED_LISTEN" in said
    assert "ROWLOCK_TRIED_DATABASE_URL" in said
    assert "s3cret" not in said


def test_every_setting_is_documented() -> None:
    assert all(field.description for field in Settings.model_fields.values())
