"""The issuer over HTTP: OpenID Connect's code flow with PKCE, and a short cut for tests and the simulator."""

import asyncio
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from sandbox.issuer.claims import LIFETIME_SECONDS, account_of, is_email, user_claims
from sandbox.issuer.form import fault_page, policy, sign_in_page
from sandbox.issuer.grants import Grant, GrantRefused, Grants, TooMany
from sandbox.issuer.keys import ALGORITHM, Keys
from sandbox.issuer.requests import (
    AuthorizationRequest,
    BadRequest,
    Exchange,
    read_accounts,
    read_form,
    unique,
)

LONGEST_NAME = 100
NOT_STORED = {"cache-control": "no-store"}


def make_app(*, url: str, origins: tuple[str, ...], keys: Keys, grants: Grants) -> Starlette:
    """The application of one issuer."""
    issuer = Issuer(url, origins, keys, grants)
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["GET", "POST"],
        allow_headers=["content-type", "authorization"],
    )
    return Starlette(
        routes=[
            Route("/.well-known/openid-configuration", issuer.discovery),
            Route("/jwks.json", issuer.jwks),
            Route("/authorize", issuer.show_form),
            Route("/authorize", issuer.sign_in, methods=["POST"]),
            Route("/token", issuer.exchange, methods=["POST"]),
            Route("/sandbox/tokens", issuer.give_tokens, methods=["POST"]),
            Route("/sandbox/rotate-keys", issuer.rotate, methods=["POST"]),
        ],
        middleware=[cors],
        exception_handlers={BadRequest: _refuse},
    )


class Issuer:
    def __init__(self, url: str, origins: tuple[str, ...], keys: Keys, grants: Grants) -> None:
        self.url, self.origins, self.keys, self.grants = url, origins, keys, grants

    async def discovery(self, _request: Request) -> Response:
        """OpenID Connect Discovery 1.0, section 3."""
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks.json",
                "response_types_supported": ["code"],
                "response_modes_supported": ["query"],
                "grant_types_supported": ["authorization_code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [ALGORITHM],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "scopes_supported": ["openid", "email", "profile"],
                "claims_supported": ["sub", "email", "email_verified", "name", "payment_history"],
            }
        )

    async def jwks(self, _request: Request) -> Response:
        return JSONResponse(self.keys.jwks())

    async def show_form(self, request: Request) -> Response:
        try:
            asked = AuthorizationRequest.read(unique(request.query_params.multi_items()))
            asked.check_client(self.origins)
        except BadRequest as refusal:
            return self._html(fault_page(refusal.description), 400)
        try:
            asked.check_flow()
        except BadRequest as refusal:
            return self._redirect(asked, error=refusal.error, error_description=refusal.description)
        return self._html(sign_in_page(asked))

    async def sign_in(self, request: Request) -> Response:
        try:
            form = await read_form(request)
            asked = AuthorizationRequest.read(form)
            asked.check_client(self.origins)
            asked.check_flow()
        except BadRequest as refusal:
            return self._html(fault_page(refusal.description), 400)
        name, email = form.get("name", "").strip()[:LONGEST_NAME], form.get("email", "").strip()
        if not is_email(email):
            fault = "That does not look like an e-mail address."
            return self._html(sign_in_page(asked, name=name, email=email, fault=fault), 400)
        try:
            code = self.grants.issue(Grant(email, name, asked.nonce, asked.redirect_uri, asked.code_challenge))
        except TooMany:
            return self._redirect(asked, error="temporarily_unavailable")
        return self._redirect(asked, code=code)

    async def exchange(self, request: Request) -> Response:
        exchange = Exchange.read(await read_form(request))
        try:
            grant = self.grants.redeem(exchange.code, exchange.redirect_uri, exchange.verifier)
        except GrantRefused as refusal:
            raise BadRequest("invalid_grant", str(refusal)) from None
        account = account_of(grant.email)
        more = {"nonce": grant.nonce} if grant.nonce else {}
        return JSONResponse(
            {
                "access_token": self._token(account, grant.email),
                "id_token": self._token(account, grant.email, name=grant.name or grant.email, **more),
                "token_type": "Bearer",
                "expires_in": LIFETIME_SECONDS,
                "scope": "openid email profile",
            },
            headers=NOT_STORED,
        )

    async def give_tokens(self, request: Request) -> Response:
        """User tokens without a form, for curl and the simulator."""
        accounts = await read_accounts(request)
        # RSA leaves the interpreter free, so a batch of thousands holds nobody else up.
        tokens = await asyncio.to_thread(lambda: [self._token(each, f"{each}@example.test") for each in accounts])
        made = [{"account": account, "token": token} for account, token in zip(accounts, tokens, strict=True)]
        return JSONResponse({"tokens": made, "expiresIn": LIFETIME_SECONDS}, headers=NOT_STORED)

    async def rotate(self, _request: Request) -> Response:
        await asyncio.to_thread(self.keys.rotate)
        signing = self.keys.keys[self.keys.signing].kid
        return JSONResponse({"signing": signing, "published": [key.kid for key in self.keys.keys]})

    def _token(self, account: str, email: str, **more: Any) -> str:
        return self.keys.sign(user_claims(self.url, account, email, **more))

    def _redirect(self, asked: AuthorizationRequest, **answer: str) -> Response:
        target = urlsplit(asked.redirect_uri)
        state = {"state": asked.state} if asked.state else {}
        kept = parse_qsl(target.query, keep_blank_values=True)
        query = urlencode([*kept, *answer.items(), *state.items(), ("iss", self.url)])
        return RedirectResponse(target._replace(query=query).geturl(), 303, headers=NOT_STORED)

    def _html(self, page: str, status: int = 200) -> Response:
        headers = {
            **NOT_STORED,
            "content-security-policy": policy(self.origins),
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
        }
        return HTMLResponse(page, status, headers=headers)


async def _refuse(_request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, BadRequest)
    answer = {"error": refusal.error, "error_description": refusal.description}
    return JSONResponse(answer, 400, headers=NOT_STORED)
