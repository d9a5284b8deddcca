"""Signed tokens and the identity that the gateway makes of them.

The gateway verifies; services read the headers it sets. Names here are the contract between both.
"""

import base64
import json
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import jwt

from chassis.errors import TokenForAnother, Unauthenticated

USER_AUDIENCE = "rowlock"
QUEUE_AUDIENCE = "rowlock-queue"
ADMISSION_AUDIENCE = "rowlock-admission"
QUEUE_HEADER = "x-rowlock-queue"
ADMISSION_HEADER = "x-rowlock-admission"
WAITINGROOM_ISSUER = "rowlock-waitingroom"

ACCOUNT_HEADER = "x-rowlock-account"
EMAIL_HEADER = "x-rowlock-email"
EVENT_HEADER = "x-rowlock-event"
POSITION_HEADER = "x-rowlock-position"
EPOCH_HEADER = "x-rowlock-epoch"
IDENTITY_HEADERS = (ACCOUNT_HEADER, EMAIL_HEADER, EVENT_HEADER, POSITION_HEADER, EPOCH_HEADER)
"""Stripped from every request that comes from outside, and set only from verified claims."""

_IDENTITY = frozenset(IDENTITY_HEADERS)
IDEMPOTENCY_HEADER = "idempotency-key"
SHORTEST_SECRET = 32  # bytes: HS256 wants a key as long as its hash


class Key(NamedTuple):
    """A secret and its name."""

    kid: str
    secret: bytes


class KeyRing:
    """Keys of one signer: the first signs, all verify, so that keys can be changed without a gap."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self.keys = tuple(keys)
        if not self.keys or any(len(key.secret) < SHORTEST_SECRET for key in self.keys):
            raise ValueError(f"a key ring needs a key, and each key {SHORTEST_SECRET} bytes")

    @classmethod
    def parse(cls, text: str) -> "KeyRing":
        """From `kid:secret,kid:secret`, secrets in base64url without padding."""
        pairs = (pair.strip().partition(":") for pair in text.split(",") if pair.strip())
        return cls(Key(kid, _unpad(secret)) for kid, _, secret in pairs)

    def sign(self, audience: str, lifetime_seconds: float, **claims: Any) -> str:
        """A JWT of WAITINGROOM_ISSUER for one audience, valid from now."""
        now = int(time.time())  # a token is judged by the gateway's clock, so a host's clock may stamp it
        kid, secret = self.keys[0]
        payload = {
            "iss": WAITINGROOM_ISSUER,
            "aud": audience,
            "iat": now,
            "exp": now + int(lifetime_seconds),
            **claims,
        }
        return jwt.encode(payload, secret, algorithm="HS256", headers={"kid": kid})

    def jwks(self) -> str:
        """The ring as a JSON Web Key Set, for the gateway. Secret."""
        keys = [
            {
                "kty": "oct",
                "alg": "HS256",
                "kid": key.kid,
                "k": base64.urlsafe_b64encode(key.secret).rstrip(b"=").decode(),
            }
            for key in self.keys
        ]
        return json.dumps({"keys": keys})


class Caller(NamedTuple):
    """Who calls, as the gateway says. `event`, `position` and `epoch` come from a queue or admission token, if any."""

    account: str
    email: str = ""
    event: str = ""
    position: int = 0
    epoch: int = 0

    def require_event(self, event_id: str) -> None:
        """Refuses unless the token is of this event; the gateway has compared already, and may have been fooled."""
        if self.event != event_id:
            raise TokenForAnother("The token belongs to another event.")


def caller_of(metadata: Iterable[tuple[str, str | bytes]]) -> Caller:
    """The caller of a call, from its metadata. Refuses a call without an account."""
    headers = {key: value for key, value in metadata if key in _IDENTITY and isinstance(value, str)}
    account = headers.get(ACCOUNT_HEADER, "")
    if not account:
        raise Unauthenticated("Sign in first: this call needs a user token.")
    return Caller(
        account,
        headers.get(EMAIL_HEADER, ""),
        headers.get(EVENT_HEADER, ""),
        int(headers.get(POSITION_HEADER, "0")),
        int(headers.get(EPOCH_HEADER, "0")),
    )


def idempotency_key_of(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The call's Idempotency-Key, or an empty string."""
    for key, value in metadata:
        if key == IDEMPOTENCY_HEADER and isinstance(value, str):
            return value
    return ""


def _unpad(secret: str) -> bytes:
    return base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
