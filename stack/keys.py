"""The stack's secrets: made once, kept in one file that only its owner reads."""

import base64
import json
import os
import secrets
from dataclasses import asdict, dataclass, fields

from stack.errors import StackError
from stack.settings import Home

SIGNING_KEY_BYTES = 32  # as long as the hash of HS256


@dataclass(frozen=True)
class Secrets:
    """`signing_keys` in the form of `chassis.tokens.KeyRing.parse`; the rest are passwords."""

    signing_keys: str
    processor_api_key: str
    postgres_password: str
    valkey_password: str
    catalog_password: str
    booking_password: str
    payments_password: str
    seatfeed_password: str


def load_secrets(home: Home) -> Secrets:
    """The secrets of this home, made now if there are none."""
    try:
        return Secrets(**json.loads(home.secrets.read_text()))
    except FileNotFoundError:
        return _make(home)
    except (ValueError, TypeError):
        raise StackError(
            f"{home.secrets} cannot be read as this version's secrets: put the file back, or run `make reset`, "
            f"which deletes what was sold."
        ) from None


def _make(home: Home) -> Secrets:
    if home.data.exists() and any(home.data.iterdir()):
        raise StackError(
            f"{home.secrets} is missing but {home.data} holds data that its passwords open: put the file back, or run "
            f"`make reset`, which deletes what was sold."
        )
    passwords = {field.name: secrets.token_urlsafe(24) for field in fields(Secrets)}
    key = base64.urlsafe_b64encode(secrets.token_bytes(SIGNING_KEY_BYTES)).rstrip(b"=").decode()
    made = Secrets(
        **{
            **passwords,
            "signing_keys": f"k1:{key}",
            "processor_api_key": f"sk_test_{secrets.token_hex(16)}",
        }
    )
    half = home.secrets.with_suffix(".half")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(made), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    half.rename(home.secrets)
    return made
