"""Requests as Stripe's clients send them: a form whose nested names stand in brackets."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from sandbox.processor.faults import Fault, invalid_param, missing_param, unknown_param

BODY_BYTES = 64 * 1024  # fifty metadata pairs of 540 characters and the rest, with room
FIELDS = 200
NAME = re.compile(r"(\w+)(?:\[(.*)\])?")

Form = Mapping[str, str | Mapping[str, str]]


async def read_form(request: Request) -> Form:
    """`a=1&m[x]=2` is `{"a": "1", "m": {"x": "2"}}`; deeper names stay joined by `][`."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            raise Fault(413, f"The body is longer than {BODY_BYTES} bytes.")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=FIELDS)
    except ValueError:
        raise Fault(400, "The body is not a form.") from None
    return nest(pairs)


def nest(pairs: Iterable[tuple[str, str]]) -> Form:
    form: dict[str, str | dict[str, str]] = {}
    for name, value in pairs:
        match = NAME.fullmatch(name)
        if match is None:
            raise unknown_param(name)
        if match[2] is None:
            form[match[1]] = value
            continue
        nested = form.setdefault(match[1], {})
        if isinstance(nested, str):
            raise invalid_param(match[1], f"Invalid {match[1]}: both a value and an object.")
        nested[match[2] or str(len(nested))] = value
    return form


def fingerprint(path: str, form: Form) -> str:
    """Equal for the same request, whatever the order of its fields."""
    flat = sorted(
        (name, sorted(value.items()) if isinstance(value, Mapping) else value) for name, value in form.items()
    )
    return hashlib.sha256(repr((path, flat)).encode()).hexdigest()


def refuse_others(form: Form, allowed: frozenset[str]) -> None:
    for name in form:
        if name not in allowed:
            raise unknown_param(name)


def text(form: Form, name: str, default: str | None = None) -> str:
    """A plain value; missing is a fault unless there is a default."""
    value = form.get(name, default)
    if value is None:
        raise missing_param(name)
    if not isinstance(value, str):
        raise invalid_param(name, f"Invalid string: {name} is an object.")
    return value


def flag(form: Form, name: str) -> bool:
    value = text(form, name, "false")
    if value not in ("true", "false"):
        raise invalid_param(name, f"Invalid boolean: {value}")
    return value == "true"


def nested(form: Form, name: str) -> Mapping[str, str]:
    value = form.get(name, {})
    if isinstance(value, str):
        raise invalid_param(name, f"Invalid object: {name} is a value.")
    return value
