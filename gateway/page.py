"""`python -m gateway.page`: serves the built page. It stands behind the gateway, which lets only reads reach it."""

from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.settings import Address, load_settings
from chassis.tokens import USER_AUDIENCE
from gateway.refusals import REFUSALS
from gateway.routes import CLIENT_ROUTES, PAGE_ASSETS, PAGE_FILES

ASKED_AGAIN = "no-cache"
FOR_AN_HOUR = "public, max-age=3600"
UNCHANGING = "public, max-age=31536000, immutable"
"""Assets carry a hash of their content in their name."""


class PageSettings(BaseSettings):
    """The environment of `python -m gateway.page`."""

    model_config = SettingsConfigDict(env_prefix="ROWLOCK_PAGE_", env_ignore_empty=True, extra="ignore", frozen=True)

    listen: Address = Field("127.0.0.1:8083", description="where the gateway finds it")
    directory: Path = Field(description="the built page: gateway/web/dist")
    issuer: str = Field(description="OpenID Connect provider that people sign in at")
    client_id: str = Field(USER_AUDIENCE, description="who the page is to the provider")


def make_app(settings: PageSettings) -> ASGIApp:
    """The page's server. A directory without index.html is refused now, not by the first visitor."""
    index = settings.directory / "index.html"
    if not index.is_file():
        raise FileNotFoundError(f"{settings.directory} has no index.html: build the page first")

    files = StaticFiles(directory=settings.directory)

    async def serve(request: Request, path: str, caching: str) -> Response:
        response = await files.get_response(path, request.scope)
        response.headers["cache-control"] = caching
        return response

    async def show_page(request: Request) -> Response:
        return await serve(request, "index.html", ASKED_AGAIN)

    async def show_file(request: Request) -> Response:
        return await serve(request, request.url.path.removeprefix("/"), FOR_AN_HOUR)

    async def show_asset(request: Request) -> Response:
        return await serve(request, f"{PAGE_ASSETS}{request.path_params['name']}".removeprefix("/"), UNCHANGING)

    async def show_config(_request: Request) -> Response:
        config = {"issuer": settings.issuer, "clientId": settings.client_id}
        return JSONResponse(config, headers={"cache-control": ASKED_AGAIN})

    named = [path for path in PAGE_FILES if path not in ("/", "/config.json")]
    app = Starlette(
        routes=[
            *(Route(path, show_page) for path in ("/", *CLIENT_ROUTES)),
            Route("/config.json", show_config),
            *(Route(path, show_file) for path in named),
            Route(f"{PAGE_ASSETS}{{name:path}}", show_asset),
        ],
        exception_handlers={404: refuse, 405: refuse},
    )
    app.router.redirect_slashes = False
    return with_headers(app, security_headers(settings.issuer))


async def refuse(_request: Request, _error: Exception | None = None) -> Response:
    """What is not there has the form of every refusal."""
    body = next(refusal.body() for refusal in REFUSALS if refusal.status == 404)
    return JSONResponse(body, 404, headers={"cache-control": ASKED_AGAIN})


def with_headers(app: ASGIApp, headers: dict[str, str]) -> ASGIApp:
    """The same headers on every answer."""
    fixed = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *fixed]
            await send(message)

        await app(scope, receive, send_with_headers)

    return answer


def security_headers(issuer: str) -> dict[str, str]:
    """The page runs its own scripts alone, and speaks to its own origin and the issuer."""
    url = urlsplit(issuer)
    origin = f"{url.scheme}://{url.netloc}"
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "manifest-src 'self'",
        f"connect-src 'self' {origin}",
        f"form-action 'self' {origin}",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
    return {
        "content-security-policy": "; ".join(policy),
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }


def main() -> None:
    settings = load_settings(PageSettings)
    host, _, port = settings.listen.rpartition(":")
    uvicorn.run(make_app(settings), host=host, port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
