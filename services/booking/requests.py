"""What every request is checked for before it reaches the store, and the fingerprints that tell two apart."""

import hashlib
import re
from typing import TypeVar

from chassis.errors import InvalidArgument
from services.booking.errors import IdempotencyKeyRequired

T = TypeVar("T")

LONGEST_NAME = 255  # letters of an account or a key: as long as OpenID Connect lets `sub` be
LONGEST_EMAIL = 254  # letters that a mail server takes (RFC 5321)
CARD_NUMBER = re.compile(r"(?:\d[ -]?){12,19}")
PRINTABLE = re.compile(rf"[!-~]{{1,{LONGEST_NAME}}}")
FINGERPRINT_BYTES = 16  # two contents of one account's one key must differ, nothing more


def check_account(account: str) -> None:
    """Refuses an account that the store would not take."""
    if not 1 <= len(account) <= LONGEST_NAME or "\0" in account:
        raise InvalidArgument(f"An account's name has 1 to {LONGEST_NAME} letters.")


def check_email(email: str) -> None:
    """Refuses a mail address that is longer than any; an account may have none."""
    if len(email) > LONGEST_EMAIL:
        raise InvalidArgument(f"A mail address has at most {LONGEST_EMAIL} letters.")


def check_key(key: str) -> None:
    """Refuses a call without an idempotency key, or with one that is too long."""
    if not 1 <= len(key) <= LONGEST_NAME:
        raise IdempotencyKeyRequired()


def check_page_size(size: int, *, default: int, most: int) -> int:
    """Rows of a page: `default` when unset, never more than `most`."""
    if size < 0:
        raise InvalidArgument("A page has no negative size.")
    return min(size or default, most)


def check_page_token(located: T | None) -> T:
    """Refuses a page token that names nothing of ours."""
    if located is None:
        raise InvalidArgument("The page token is not one of ours.")
    return located


def fingerprint(*content: object) -> bytes:
    """Of a request's content: the same key must come with the same one."""
    return hashlib.blake2b(repr(content).encode(), digest_size=FINGERPRINT_BYTES).digest()
