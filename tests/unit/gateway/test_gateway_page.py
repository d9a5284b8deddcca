"""The page's server on its own."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from gateway.page import PageSettings, make_app


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "dist" / "assets").mkdir(parents=True)
    (tmp_path / "dist" / "index.html").write_text("<!doctype html><title>Rowlock</title>")
    (tmp_path / "dist" / "mark.svg").write_text("<svg/>")
    (tmp_path / "dist" / "assets" / "main-1a2b.js").write_text("export {}")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "dist"


@pytest.fixture
def page(directory: Path) -> TestClient:
    return TestClient(make_app(PageSettings(directory=directory, issuer="https://issuer.test/realm")))


@pytest.mark.parametrize("path", ["/", "/events/evt_s1_1", "/orders", "/orders/ord_s1_1", "/callback?code=x"])
def test_addresses_of_the_page_get_the_page(page: TestClient, path: str) -> None:
    response = page.get(path)
    assert response.status_code == 200
    assert "<title>Rowlock</title>" in response.text
    assert response.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/", "/assets/main-1a2b.js", "/mark.svg"])
def test_a_file_that_did_not_change_is_not_sent_again(page: TestClient, path: str) -> None:
    etag = page.get(path).headers["etag"]
    response = page.get(path, headers={"if-none-match": etag})
    assert (response.status_code, response.content) == (304, b"")


def test_assets_may_be_kept_for_ever(page: TestClient) -> None:
    response = page.get("/assets/main-1a2b.js")
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "javascript" in response.headers["content-type"]
    assert "immutable" not in page.get("/assets/gone.js").headers["cache-control"]


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/assets/gone.js", "/favicon.ico", "/events/a/b", "/assets/..%2f..%2fsecret.txt", "/index.html"],
)
def test_what_is_not_there_is_refused_in_our_form(page: TestClient, path: str) -> None:
    response = page.get(path)
    assert response.status_code == 404
    assert response.json()["details"][0]["reason"] == "NOT_FOUND"


def test_the_page_is_told_its_issuer(page: TestClient) -> None:
    response = page.get("/config.json")
    assert response.json() == {"issuer": "https://issuer.test/realm", "clientId": "rowlock"}


@pytest.mark.parametrize("path", ["/", "/config.json", "/assets/main-1a2b.js", "/nothing"])
def test_every_answer_carries_the_policy(page: TestClient, path: str) -> None:
    headers = page.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self' https://issuer.test"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"


def test_a_page_that_was_not_built_is_a_start_that_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="build the page"):
        make_app(PageSettings(directory=tmp_path, issuer="https://issuer.test"))
