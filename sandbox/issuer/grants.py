"""Authorization codes between the sign-in form and the token endpoint: used once, soon, and by who asked."""

import base64
import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

LIFETIME_SECONDS = 60
MOST_OUTSTANDING = 10_000  # about 10 MB; a form sent again and again must not fill the memory


class GrantRefused(Exception):
    """The code cannot be exchanged. OAuth's `error` is `invalid_grant` for all of them."""


class TooMany(Exception):
    """So many codes are outstanding that no more is given out."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Who signed in, and what the exchange must repeat or prove."""

    email: str
    name: str
    nonce: str
    redirect_uri: str
    challenge: str


class Grants:
    """Outstanding codes, oldest first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.outstanding: dict[str, tuple[float, Grant]] = {}

    def issue(self, grant: Grant) -> str:
        """A code for the grant."""
        self._drop_expired()
        if len(self.outstanding) >= MOST_OUTSTANDING:
            raise TooMany
        code = secrets.token_urlsafe(32)
        self.outstanding[code] = (self.clock() + LIFETIME_SECONDS, grant)
        return code

    def redeem(self, code: str, redirect_uri: str, verifier: str) -> Grant:
        """The code's grant. Whatever is wrong, the code is used up: a guess at the verifier gets one try."""
        self._drop_expired()
        _, grant = self.outstanding.pop(code, (0, None))
        if grant is None:
            raise GrantRefused("The code is unknown, used, or older than 60 s.")
        if redirect_uri != grant.redirect_uri:
            raise GrantRefused("redirect_uri is not the one that the code was given for.")
        if not secrets.compare_digest(s256(verifier).encode(), grant.challenge.encode()):
            raise GrantRefused("code_verifier does not match code_challenge.")
        return grant

    def _drop_expired(self) -> None:
        now = self.clock()
        while self.outstanding:
            code = next(iter(self.outstanding))
            if self.outstanding[code][0] > now:
                return
            del self.outstanding[code]


def s256(verifier: str) -> str:
    """PKCE's challenge of a verifier (RFC 7636, 4.2)."""
    digest = hashlib.sha256(verifier.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
