"""What clients send, read with bounds: the authorization request, the form, the exchange, the batch of tokens."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from sandbox.issuer.claims import ACCOUNT, CLIENT_ID

LARGEST_BODY_BYTES = 16 * 1024
LONGEST_PARAMETER = 1024
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
MOST_TOKENS = 5000  # about five seconds of signing


class BadRequest(Exception):
    """OAuth's error code, and a sentence."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error, self.description = error, description


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """Parameters of the authorization endpoint, as the form carries them on."""

    client_id: str = ""
    redirect_uri: str = ""
    response_type: str = ""
    scope: str = ""
    state: str = ""
    nonce: str = ""
    code_challenge: str = ""
    code_challenge_method: str = ""

    @classmethod
    def read(cls, parameters: Mapping[str, str]) -> "AuthorizationRequest":
        return cls(**{field.name: parameters.get(field.name, "") for field in fields(cls)})

    def check_client(self, origins: tuple[str, ...]) -> None:
        """Refuses a request that must not be answered by a redirect: it would go to a stranger."""
        if self.client_id != CLIENT_ID:
            raise BadRequest("invalid_client", f"client_id is not {CLIENT_ID}.")
        target = urlsplit(self.redirect_uri)
        if f"{target.scheme}://{target.netloc}" not in origins or target.fragment or "\\" in self.redirect_uri:
            raise BadRequest("invalid_request", "redirect_uri is not at an origin that this issuer was told of.")

    def check_flow(self) -> None:
        """Refuses what is not the code flow with PKCE; the client is told by redirect."""
        if self.response_type != "code":
            raise BadRequest("unsupported_response_type", "response_type must be code.")
        if "openid" not in self.scope.split():
            raise BadRequest("invalid_scope", "scope must contain openid.")
        if self.code_challenge_method != "S256" or not CHALLENGE.fullmatch(self.code_challenge):
            raise BadRequest("invalid_request", "PKCE is required: code_challenge with code_challenge_method S256.")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A code, and the proof that it comes from who asked for it."""

    code: str
    redirect_uri: str
    verifier: str

    @classmethod
    def read(cls, parameters: Mapping[str, str]) -> "Exchange":
        if parameters.get("grant_type") != "authorization_code":
            raise BadRequest("unsupported_grant_type", "grant_type must be authorization_code.")
        if parameters.get("client_id") != CLIENT_ID:
            raise BadRequest("invalid_client", f"client_id is not {CLIENT_ID}.")
        verifier = parameters.get("code_verifier", "")
        if not VERIFIER.fullmatch(verifier):
            raise BadRequest("invalid_request", "code_verifier must be 43 to 128 unreserved characters.")
        return cls(parameters.get("code", ""), parameters.get("redirect_uri", ""), verifier)


async def read_form(request: Request) -> dict[str, str]:
    """An urlencoded body. A parameter that comes twice is refused, as OAuth demands."""
    return unique(parse_qsl((await read_body(request)).decode("utf-8", "replace"), keep_blank_values=True))


def unique(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Parameters by name."""
    parameters = dict(pairs)
    if len(parameters) != len(pairs) or any(len(value) > LONGEST_PARAMETER for value in parameters.values()):
        raise BadRequest("invalid_request", "A parameter came twice, or is too long.")
    return parameters


async def read_accounts(request: Request) -> list[str]:
    """`{"account": "fan"}`, or with `"count": n` the accounts fan-1 … fan-n."""
    try:
        asked = json.loads(await read_body(request))
        account, count = asked["account"], asked.get("count")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadRequest("invalid_request", 'The body must be {"account": "…"}, with "count" for a batch.') from None
    if not (isinstance(account, str) and ACCOUNT.fullmatch(account)):
        raise BadRequest("invalid_request", "account must be 1 to 64 letters, digits, dots, dashes or underscores.")
    if count is None:
        return [account]
    if type(count) is not int or not 1 <= count <= MOST_TOKENS:
        raise BadRequest("invalid_request", f"count must be 1 to {MOST_TOKENS}.")
    return [f"{account}-{number}" for number in range(1, count + 1)]


async def read_body(request: Request) -> bytes:
    """The body, while it is small."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY_BYTES:
            raise BadRequest("invalid_request", "The body is too large.")
    return bytes(body)
