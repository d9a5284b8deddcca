"""The issuer's signing keys: at most two are published, one of them signs."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from jwt.algorithms import RSAAlgorithm

ALGORITHM = "RS256"
KEY_BITS = 2048


@dataclass(frozen=True, slots=True)
class Key:
    kid: str
    private: RSAPrivateKey

    def jwk(self) -> dict[str, Any]:
        public = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "alg": ALGORITHM, "use": "sig"}


class Keys:
    """Kept in one file, replaced whole. Rotation takes two steps, so that verifiers know a key before it signs:
    the first announces a new key, the second makes it sign and still publishes the old one."""

    def __init__(self, file: Path, keys: list[Key], signing: int) -> None:
        self.file, self.keys, self.signing = file, keys, signing

    @classmethod
    def open(cls, directory: Path) -> "Keys":
        """The keys of a directory; a first one is made if there is none."""
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "keys.json"
        if file.exists():
            kept = json.loads(file.read_text(encoding="utf-8"))
            return cls(file, [_load(key) for key in kept["keys"]], kept["signing"])
        keys = cls(file, [_generate("1")], 0)
        keys._save()
        return keys

    def sign(self, claims: Mapping[str, Any]) -> str:
        key = self.keys[self.signing]
        return jwt.encode(dict(claims), key.private, algorithm=ALGORITHM, headers={"kid": key.kid})

    def jwks(self) -> dict[str, Any]:
        return {"keys": [key.jwk() for key in self.keys]}

    def rotate(self) -> None:
        """Announces a key, or makes the announced one sign."""
        if self.signing == len(self.keys) - 1:
            current = self.keys[self.signing]
            self.keys, self.signing = [current, _generate(str(int(current.kid) + 1))], 0
        else:
            self.signing += 1
        self._save()

    def _save(self) -> None:
        kept = {"signing": self.signing, "keys": [{"kid": key.kid, "pem": _pem(key.private)} for key in self.keys]}
        fresh = self.file.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(kept, file)
        fresh.replace(self.file)


def _generate(kid: str) -> Key:
    return Key(kid, generate_private_key(public_exponent=65537, key_size=KEY_BITS))


def _load(kept: Mapping[str, str]) -> Key:
    private = load_pem_private_key(kept["pem"].encode(), None)
    if not isinstance(private, RSAPrivateKey):
        raise ValueError("the state directory holds a key of another kind")
    return Key(kept["kid"], private)


def _pem(private: RSAPrivateKey) -> str:
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
