"""What the issuer says of a person."""

import hashlib
import re
import time
from typing import Any

from chassis.tokens import USER_AUDIENCE

CLIENT_ID = USER_AUDIENCE
"""An ID token's audience is its client, so the one client that there is has the name that the gateway asks for."""

LIFETIME_SECONDS = 3600
EMAIL = re.compile(r"[^\s@\"<>,;:\\()\[\]]{1,64}@[^\s@.]+(\.[^\s@.]+)+", re.ASCII)
LONGEST_EMAIL = 254
ACCOUNT = re.compile(r"[A-Za-z0-9._-]{1,64}")


def account_of(email: str) -> str:
    """The same account whenever the same address signs in."""
    return f"acc_{hashlib.sha256(email.lower().encode()).hexdigest()[:24]}"


def is_email(text: str) -> bool:
    return len(text) <= LONGEST_EMAIL and text.isascii() and EMAIL.fullmatch(text) is not None


def user_claims(issuer: str, account: str, email: str, **more: Any) -> dict[str, Any]:
    """Claims of a user token, valid for an hour from now."""
    now = int(time.time())
    return {
        "iss": issuer,
        "aud": USER_AUDIENCE,
        "sub": account,
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
        "email": email,
        "email_verified": True,
        "payment_history": True,
        **more,
    }
