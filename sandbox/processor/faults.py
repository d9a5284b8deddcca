"""What the API answers instead of an object, in Stripe's form."""

from typing import Any


class Fault(Exception):
    """An answer that is an error. It leaves nothing behind: no object is changed and no key is used up."""

    def __init__(self, status: int, message: str, *, kind: str = "invalid_request_error", **fields: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(kind, message, **fields)


def error_body(kind: str, message: str, **fields: Any) -> dict[str, Any]:
    """`{"error": {…}}`; fields are those of Stripe's error object: `code`, `decline_code`, `param`, …"""
    code = fields.get("code")
    link = {"doc_url": f"https://stripe.com/docs/error-codes/{code.replace('_', '-')}"} if code else {}
    return {"error": {"type": kind, "message": message, **fields, **link}}


def missing_param(name: str) -> Fault:
    return Fault(400, f"Missing required param: {name}.", code="parameter_missing", param=name)


def unknown_param(name: str) -> Fault:
    return Fault(400, f"Received unknown parameter: {name}", code="parameter_unknown", param=name)


def invalid_param(name: str, message: str) -> Fault:
    return Fault(400, message, code="parameter_invalid", param=name)


def no_such(what: str, name: str, *, param: str, status: int) -> Fault:
    return Fault(status, f"No such {what}: '{name}'", code="resource_missing", param=param)


def key_in_use(key: str) -> Fault:
    message = f"There is currently another in-progress request using this Idempotent Key: {key}."
    return Fault(409, message, kind="idempotency_error", code="idempotency_key_in_use")


def key_reused(key: str) -> Fault:
    message = (
        f"Keys for idempotent requests can only be used with the same parameters they were first used with: {key}."
    )
    return Fault(400, message, kind="idempotency_error")


def not_authorised() -> Fault:
    return Fault(401, "Invalid API Key provided. Send it as: Authorization: Bearer YOUR_KEY.")
