"""Sign-in by the code flow with PKCE, as a page does it, and everything that must not get a token."""

import re
import secrets
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from starlette.testclient import TestClient

from sandbox.issuer.app import make_app
from sandbox.issuer.grants import MOST_OUTSTANDING, Grant, Grants, s256
from sandbox.issuer.keys import Keys

URL = "http://issuer.test"
ORIGIN = "http://page.test"
REDIRECT = f"{ORIGIN}/callback"
VERIFIER = secrets.token_urlsafe(48)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("issuer"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def grants(clock: Clock) -> Grants:
    return Grants(clock)


@pytest.fixture
def issuer(kept: Keys, grants: Grants) -> TestClient:
    app = make_app(url=URL, origins=(ORIGIN,), keys=kept, grants=grants)
    return TestClient(app, base_url=URL, follow_redirects=False)


def asked(**changes: str) -> dict[str, str]:
    parameters = {
        "client_id": "rowlock",
        "redirect_uri": REDIRECT,
        "response_type": "code",
        "scope": "openid email",
        "state": "s&t=1",
        "nonce": "n-1",
        "code_challenge": s256(VERIFIER),
        "code_challenge_method": "S256",
    }
    return {name: value for name, value in {**parameters, **changes}.items() if value}


def exchange(issuer: TestClient, with_code: str, **changes: str) -> httpx.Response:
    form = {
        "grant_type": "authorization_code",
        "client_id": "rowlock",
        "redirect_uri": REDIRECT,
        "code": with_code,
        "code_verifier": VERIFIER,
    }
    return issuer.post("/token", data={**form, **changes})


def code_for(issuer: TestClient, email: str = "Ada@example.test", **changes: str) -> str:
    response = issuer.post("/authorize", data={**asked(**changes), "name": "Ada", "email": email})
    assert response.status_code == 303, response.text
    answer = parse_qs(urlsplit(response.headers["location"]).query)
    assert answer["state"] == ["s&t=1"]
    return answer["code"][0]


def verified(issuer: TestClient, token: str) -> dict[str, object]:
    keys = jwt.PyJWKSet.from_dict(issuer.get("/jwks.json").json())
    key = keys[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, key.key, algorithms=["RS256"], audience="rowlock", issuer=URL)


def test_a_page_signs_a_person_in(issuer: TestClient) -> None:
    form = issuer.get("/authorize", params=asked())
    assert form.status_code == 200
    assert "sandbox" in form.text
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form.text))
    assert hidden["code_challenge"] == s256(VERIFIER)
    answer = exchange(issuer, code_for(issuer))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert (body["token_type"], body["expires_in"]) == ("Bearer", 3600)
    user, identity = verified(issuer, body["access_token"]), verified(issuer, body["id_token"])
    assert user["sub"] == identity["sub"]
    assert (identity["nonce"], identity["name"]) == ("n-1", "Ada")
    assert {"email_verified": True, "payment_history": True, "email": "Ada@example.test"}.items() <= user.items()
    assert int(str(user["exp"])) - int(str(user["iat"])) == 3600


def test_an_address_is_always_the_same_account(issuer: TestClient) -> None:
    def account(email: str) -> object:
        return verified(issuer, exchange(issuer, code_for(issuer, email)).json()["access_token"])["sub"]

    assert account("ada@example.test") == account("ADA@example.test")
    assert account("ada@example.test") != account("eve@example.test")


def test_discovery_names_what_is_there(issuer: TestClient) -> None:
    found = issuer.get("/.well-known/openid-configuration").json()
    assert found["issuer"] == URL
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert issuer.get(found["jwks_uri"]).status_code == 200
    assert issuer.get(found["authorization_endpoint"], params=asked()).status_code == 200
    assert issuer.post(found["token_endpoint"]).status_code == 400


@pytest.mark.parametrize(
    "redirect_uri",
    [
        "http://evil.test/callback",
        "http://page.test.evil.test/",
        "http://page.test@evil.test/",
        "https://page.test/callback",
        "http://page.test:81/callback",
        "http://page.test\\@evil.test/",
        "//page.test/callback",
        "/callback",
        "javascript:alert(1)",
        f"{REDIRECT}#x",
        "",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_stranger_is_never_redirected_to(issuer: TestClient, redirect_uri: str, method: str) -> None:
    sent = {**asked(), "redirect_uri": redirect_uri, "email": "ada@example.test"}
    response = issuer.get("/authorize", params=sent) if method == "GET" else issuer.post("/authorize", data=sent)
    assert response.status_code == 400
    assert "location" not in response.headers
    assert response.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "email"}, "invalid_scope"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": ""}, "invalid_request"),
    ],
)
def test_another_flow_is_refused_by_redirect(issuer: TestClient, changes: dict[str, str], error: str) -> None:
    response = issuer.get("/authorize", params=asked(**changes))
    assert response.status_code == 303
    answer = parse_qs(urlsplit(response.headers["location"]).query)
    assert (answer["error"], answer["state"]) == ([error], ["s&t=1"])
    assert issuer.post("/authorize", data={**asked(**changes), "email": "a@b.test"}).status_code == 400


@pytest.mark.parametrize(
    "email", ["", "ada", "ada@", "@example.test", "a b@c.d", "ada@example", "ä@example.test", "a" * 250 + "@b.test"]
)
def test_what_is_no_address_is_asked_again(issuer: TestClient, email: str) -> None:
    response = issuer.post("/authorize", data={**asked(), "name": "<b>", "email": email})
    assert response.status_code == 400
    assert 'role="alert"' in response.text
    assert "<b>" not in response.text


def test_the_form_escapes_what_it_carries(issuer: TestClient) -> None:
    response = issuer.get("/authorize", params=asked(state='"><script>alert(1)</script>'))
    assert "<script>" not in response.text
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_a_code_is_used_once(issuer: TestClient) -> None:
    code = code_for(issuer)
    assert exchange(issuer, code).status_code == 200
    refused = exchange(issuer, code)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


def test_a_code_lives_sixty_seconds(issuer: TestClient, clock: Clock) -> None:
    early, late = code_for(issuer), code_for(issuer)
    clock.now += 59
    assert exchange(issuer, early).status_code == 200
    clock.now += 2
    assert exchange(issuer, late).json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    "changes",
    [{"code_verifier": secrets.token_urlsafe(48)}, {"redirect_uri": f"{ORIGIN}/other"}],
    ids=["another verifier", "another redirect"],
)
def test_a_stolen_code_is_worth_nothing_and_is_used_up(issuer: TestClient, changes: dict[str, str]) -> None:
    code = code_for(issuer)
    assert exchange(issuer, code, **changes).json()["error"] == "invalid_grant"
    assert exchange(issuer, code).json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"client_id": "other"}, "invalid_client"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"code_verifier": "x" * 2000}, "invalid_request"),
        ({"code": "unknown"}, "invalid_grant"),
    ],
)
def test_a_malformed_exchange_is_refused(issuer: TestClient, changes: dict[str, str], error: str) -> None:
    refused = exchange(issuer, code_for(issuer), **changes)
    assert (refused.status_code, refused.json()["error"]) == (400, error)


def test_a_parameter_may_not_come_twice(issuer: TestClient) -> None:
    twice = [*asked().items(), ("redirect_uri", "http://evil.test/")]
    assert issuer.get("/authorize", params=twice).status_code == 400


def test_a_large_body_is_refused(issuer: TestClient) -> None:
    for path in ("/token", "/sandbox/tokens"):
        assert issuer.post(path, content=b"x" * 20_000).status_code == 400


def test_outstanding_codes_are_bounded(issuer: TestClient, grants: Grants, clock: Clock) -> None:
    grant = Grant("a@b.test", "", "", REDIRECT, s256(VERIFIER))
    for _ in range(MOST_OUTSTANDING):
        grants.issue(grant)
    response = issuer.post("/authorize", data={**asked(), "email": "ada@example.test"})
    assert parse_qs(urlsplit(response.headers["location"]).query)["error"] == ["temporarily_unavailable"]
    clock.now += 61
    code_for(issuer)
    assert len(grants.outstanding) == 1


def test_only_known_origins_may_read_answers(issuer: TestClient) -> None:
    known = issuer.get("/.well-known/openid-configuration", headers={"origin": ORIGIN})
    assert known.headers["access-control-allow-origin"] == ORIGIN
    stranger = issuer.get("/.well-known/openid-configuration", headers={"origin": "http://evil.test"})
    assert "access-control-allow-origin" not in stranger.headers
