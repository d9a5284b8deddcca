"""Catalog's variables."""

import pytest

from chassis.settings import load_settings
from services.catalog.events import least_used
from services.catalog.settings import CatalogSettings


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in {
        "DATABASE_URL": "postgresql://localhost/catalog",
        "SHARDS": "s1, s2",
        "BOOKING_TARGET": "127.0.0.1:1",
        "WAITINGROOM_TARGET": "127.0.0.1:2",
    }.items():
        monkeypatch.setenv(f"ROWLOCK_CATALOG_{name}", value)
    return monkeypatch


@pytest.mark.usefixtures("variables")
def test_shards_are_names_with_commas_between() -> None:
    assert load_settings(CatalogSettings).shards == ("s1", "s2")


@pytest.mark.parametrize("shards", ["S1", "1s", "s1,s-2", ","])
def test_shards_that_no_id_could_carry_are_refused(
    variables: pytest.MonkeyPatch, shards: str, capsys: pytest.CaptureFixture[str]
) -> None:
    variables.setenv("ROWLOCK_CATALOG_SHARDS", shards)
    with pytest.raises(SystemExit):
        load_settings(CatalogSettings)
    assert "ROWLOCK_CATALOG_SHARDS" in capsys.readouterr().err


def test_least_used_shard_is_the_first_of_equals() -> None:
    assert least_used(("s1", "s2", "s3"), {}) == "s1"
    assert least_used(("s1", "s2", "s3"), {"s1": 2, "s2": 1, "s3": 1, "old": 0}) == "s2"
