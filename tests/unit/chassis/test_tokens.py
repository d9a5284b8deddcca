import base64
import json

import jwt
import pytest

from chassis.errors import TokenForAnother, Unauthenticated
from chassis.tokens import ADMISSION_AUDIENCE, QUEUE_AUDIENCE, Key, KeyRing, caller_of, idempotency_key_of

OLD, NEW = Key("old", b"o" * 32), Key("new", b"n" * 32)


def test_the_first_key_signs_and_the_set_verifies_both() -> None:
    token = KeyRing([NEW, OLD]).sign(ADMISSION_AUDIENCE, 60, sub="ann", eid="evt_s1_1")
    assert jwt.get_unverified_header(token)["kid"] == "new"
    keys = {key["kid"]: key for key in json.loads(KeyRing([NEW, OLD]).jwks())["keys"]}
    assert set(keys) == {"new", "old"}
    secret = base64.urlsafe_b64decode(keys["new"]["k"] + "=")
    assert jwt.decode(token, secret, algorithms=["HS256"], audience=ADMISSION_AUDIENCE)["sub"] == "ann"
    with pytest.raises(jwt.InvalidAudienceError):
        jwt.decode(token, secret, algorithms=["HS256"], audience=QUEUE_AUDIENCE)


def test_a_ring_is_read_from_its_text() -> None:
    text = ",".join(f"{key.kid}:{base64.urlsafe_b64encode(key.secret).rstrip(b'=').decode()}" for key in (NEW, OLD))
    assert KeyRing.parse(text).keys == (NEW, OLD)


@pytest.mark.parametrize("text", ["", "short:AAAA"])
def test_a_weak_ring_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        KeyRing.parse(text)


def test_caller_of_reads_the_gateways_headers() -> None:
    caller = caller_of([("x-rowlock-account", "ann"), ("x-rowlock-event", "evt_s1_1"), ("x-rowlock-position", "7")])
    assert (caller.account, caller.event, caller.position) == ("ann", "evt_s1_1", 7)
    caller.require_event("evt_s1_1")
    with pytest.raises(TokenForAnother):
        caller.require_event("evt_s1_2")


def test_a_call_without_an_account_is_refused() -> None:
    with pytest.raises(Unauthenticated):
        caller_of([("x-rowlock-event", "evt_s1_1")])


def test_idempotency_key_of() -> None:
    assert idempotency_key_of([("idempotency-key", "k1")]) == "k1"
    assert idempotency_key_of([]) == ""
