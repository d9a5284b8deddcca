"""Tokens without a form, and the keys that sign them."""

import json
import stat
import time
from pathlib import Path

import jwt
import pytest
from starlette.testclient import TestClient

from sandbox.issuer.app import make_app
from sandbox.issuer.grants import Grants
from sandbox.issuer.keys import Keys
from sandbox.issuer.requests import MOST_TOKENS

URL = "http://issuer.test"


def client_of(keys: Keys) -> TestClient:
    return TestClient(make_app(url=URL, origins=("http://page.test",), keys=keys, grants=Grants()), base_url=URL)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys.open(tmp_path / "issuer")


@pytest.fixture
def issuer(keys: Keys) -> TestClient:
    return client_of(keys)


def claims_of(issuer: TestClient, token: str) -> dict[str, object]:
    known = jwt.PyJWKSet.from_dict(issuer.get("/jwks.json").json())
    key = known[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, key.key, algorithms=["RS256"], audience="rowlock", issuer=URL)


def test_one_token(issuer: TestClient) -> None:
    answer = issuer.post("/sandbox/tokens", json={"account": "ada"}).json()
    assert answer["expiresIn"] == 3600
    [made] = answer["tokens"]
    assert made["account"] == "ada"
    claims = claims_of(issuer, made["token"])
    assert (claims["sub"], claims["email"], claims["email_verified"]) == ("ada", "ada@example.test", True)


def test_a_batch_is_numbered_and_quick(issuer: TestClient) -> None:
    began = time.perf_counter()
    made = issuer.post("/sandbox/tokens", json={"account": "fan", "count": 500}).json()["tokens"]
    assert time.perf_counter() - began < 10
    assert [each["account"] for each in made] == [f"fan-{number}" for number in range(1, 501)]
    assert claims_of(issuer, made[-1]["token"])["sub"] == "fan-500"
    assert len({each["token"] for each in made}) == 500


@pytest.mark.parametrize(
    "body",
    [
        "{}", "[]", "null", "x", '{"account": ""}', '{"account": 1}', '{"account": "a b"}', '{"account": "a\\nb"}',
        json.dumps({"account": "a" * 65}), '{"account": "a", "count": 0}', '{"account": "a", "count": true}',
        '{"account": "a", "count": 1.5}', '{"account": "a", "count": "5"}',
        json.dumps({"account": "a", "count": MOST_TOKENS + 1}),
    ],
)  # fmt: skip
def test_a_request_that_makes_no_sense_is_refused(issuer: TestClient, body: str) -> None:
    response = issuer.post("/sandbox/tokens", content=body)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_request")


def test_keys_outlive_the_process(keys: Keys) -> None:
    token = client_of(keys).post("/sandbox/tokens", json={"account": "ada"}).json()["tokens"][0]["token"]
    again = Keys.open(keys.file.parent)
    assert claims_of(client_of(again), token)["sub"] == "ada"
    assert stat.S_IMODE(keys.file.stat().st_mode) == 0o600


def test_no_private_part_is_published(issuer: TestClient) -> None:
    for key in issuer.get("/jwks.json").json()["keys"]:
        assert set(key) <= {"kty", "n", "e", "kid", "alg", "use", "key_ops"}


def test_a_new_key_is_known_before_it_signs(keys: Keys, issuer: TestClient) -> None:
    def token() -> str:
        return str(issuer.post("/sandbox/tokens", json={"account": "ada"}).json()["tokens"][0]["token"])

    first = token()
    assert issuer.post("/sandbox/rotate-keys").json() == {"signing": "1", "published": ["1", "2"]}
    assert jwt.get_unverified_header(token())["kid"] == "1"
    assert issuer.post("/sandbox/rotate-keys").json() == {"signing": "2", "published": ["1", "2"]}
    second = token()
    assert jwt.get_unverified_header(second)["kid"] == "2"
    assert claims_of(issuer, first)["sub"] == claims_of(issuer, second)["sub"] == "ada"
    assert issuer.post("/sandbox/rotate-keys").json() == {"signing": "2", "published": ["2", "3"]}
    with pytest.raises(KeyError):
        claims_of(issuer, first)
    assert Keys.open(keys.file.parent).jwks() == keys.jwks()
