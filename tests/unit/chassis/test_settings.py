import pytest
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from chassis.settings import ServiceSettings, load_settings, parse_shards


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


def test_a_process_ends_by_default_before_kubernetes_kills_it() -> None:
    fields = ServiceSettings.model_fields
    assert fields["drain_seconds"].default + fields["close_seconds"].default <= 25


def test_shards_are_named_in_order() -> None:
    assert list(parse_shards("s2=postgresql://h/b, s1=postgresql://h/a?x=y,")) == ["s2", "s1"]
    assert parse_shards("s1=postgresql://h/a?x=y")["s1"] == "postgresql://h/a?x=y"


def test_a_shard_may_be_on_several_hosts() -> None:
    several = "postgresql://a:1,b:2/x?target_session_attrs=read-write"
    assert parse_shards(f"s1={several},s2={several}") == {"s1": several, "s2": several}


@pytest.mark.parametrize(
    "text", ["", ",", "s1", "s1=", "S1=a", "=postgresql://u:secret@h/a", "postgresql://u:secret@h/a?x=y", "s1=a,s1=b"]
)
def test_shards_that_are_no_shards_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(ValueError, match="shard") as refusal:
        parse_shards(text)
    assert "secret" not in str(refusal.value)
