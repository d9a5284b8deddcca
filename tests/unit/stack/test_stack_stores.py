"""Secrets, and stores given by URL."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from chassis.tokens import KeyRing
from stack.errors import StackError
from stack.keys import Secrets, load_secrets
from stack.ports import Ports
from stack.settings import Home
from stack.stores import Stores, choose_stores


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.make()
    return home


@pytest.fixture
def secrets(home: Home) -> Secrets:
    return load_secrets(home)


def choose(secrets: Secrets, shards: str = "s1", **environment: str) -> Stores:
    return choose_stores(shards, secrets, Ports(8080), environment)


def test_secrets_are_made_once_for_their_owner_alone(home: Home, secrets: Secrets) -> None:
    assert load_secrets(home) == secrets
    assert home.secrets.stat().st_mode & 0o777 == 0o600
    assert len(set(asdict(secrets).values())) == len(asdict(secrets))
    assert KeyRing.parse(secrets.signing_keys).keys[0].kid == "k1"


def test_lost_secrets_are_not_made_anew_over_data_that_they_open(home: Home, secrets: Secrets) -> None:
    (home.data / "postgres").mkdir()
    home.secrets.unlink()
    with pytest.raises(StackError, match=r"is missing but .* holds data"):
        load_secrets(home)


@pytest.mark.parametrize("text", ["", "{}", '{"other": 1}'])
def test_broken_secrets_are_told_with_a_way_on(home: Home, text: str) -> None:
    home.secrets.write_text(text)
    with pytest.raises(StackError, match="make reset"):
        load_secrets(home)


def test_embedded_stores_serve_every_service(secrets: Secrets) -> None:
    stores = choose(secrets, "s1,s2")
    assert stores.needs_postgres
    assert stores.needs_valkey
    assert [database.embedded for database in stores.databases] == ["catalog", "payments", "booking_s1", "booking_s2"]
    assert [database.shard for database in stores.databases] == ["", "", "s1", "s2"]
    assert stores.variables["ROWLOCK_CATALOG_SHARDS"] == "s1,s2"
    assert "s2=postgresql://seatfeed:" in stores.variables["ROWLOCK_SEATFEED_SHARDS"]


def test_given_url_takes_the_place_of_an_embedded_store(secrets: Secrets) -> None:
    stores = choose(secrets, ROWLOCK_CATALOG_DATABASE_URL="postgresql://elsewhere/catalog")
    catalog = stores.databases[0]
    assert (catalog.url, catalog.embedded) == ("postgresql://elsewhere/catalog", "")
    assert stores.needs_postgres  # for the others


def test_engine_that_nobody_needs_is_not_started(secrets: Secrets) -> None:
    stores = choose(
        secrets,
        ROWLOCK_CATALOG_DATABASE_URL="postgresql://elsewhere/catalog",
        ROWLOCK_PAYMENTS_DATABASE_URL="postgresql://elsewhere/payments",
        ROWLOCK_BOOKING_SHARDS="east=postgresql://booking@elsewhere/a,west=postgresql://booking@elsewhere/b",
        ROWLOCK_SEATFEED_SHARDS="east=postgresql://feed@elsewhere/a,west=postgresql://feed@elsewhere/b",
        ROWLOCK_BOOKING_REDIS_URL="redis://elsewhere/2",
        ROWLOCK_WAITINGROOM_REDIS_URL="redis://elsewhere/0",
        ROWLOCK_SEATFEED_REDIS_URL="redis://elsewhere/1",
    )
    assert not stores.needs_postgres
    assert not stores.needs_valkey
    assert stores.variables["ROWLOCK_CATALOG_SHARDS"] == "east,west"


def test_shards_given_to_booking_alone_are_refused(secrets: Secrets) -> None:
    with pytest.raises(StackError, match="set both, or none"):
        choose(secrets, ROWLOCK_BOOKING_SHARDS="s1=postgresql://elsewhere/a")


def test_shards_without_a_name_are_refused_without_showing_them(secrets: Secrets) -> None:
    url = "postgresql://booking:hunter2@elsewhere/a"
    with pytest.raises(StackError) as refusal:
        choose(secrets, ROWLOCK_BOOKING_SHARDS=f"={url}", ROWLOCK_SEATFEED_SHARDS=f"={url}")
    assert "hunter2" not in str(refusal.value)


def test_secrets_file_is_json_that_a_person_can_read(home: Home, secrets: Secrets) -> None:
    assert json.loads(home.secrets.read_text()) == asdict(secrets)
