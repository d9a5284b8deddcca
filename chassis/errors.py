"""Refusals: what a caller did not get, and why. One class for each reason, translated to a status in one place."""

from typing import Any, ClassVar

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

Code = grpc.StatusCode
DOMAIN = "rowlock"


class Refusal(Exception):
    """A request that is answered with a status. Subclasses set `code` and `reason`; callers may switch on the reason.

    The message is a sentence for a person; metadata is for programs. Both leave the house: no SQL, no secret.
    """

    code: ClassVar[grpc.StatusCode]
    reason: ClassVar[str]

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = metadata


class InvalidArgument(Refusal):
    """The request is wrong in itself; it will never succeed."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_ARGUMENT"


class Unavailable(Refusal):
    """Not now. Whether something was done is not known: ask again with the same key."""

    code = Code.UNAVAILABLE
    reason = "UNAVAILABLE"


class Contended(Refusal):
    """Others were in the way each time; nothing was decided."""

    code = Code.ABORTED
    reason = "CONTENDED"


class Unauthenticated(Refusal):
    """No identity came with the call: it did not pass the gateway, or the gateway's rule for it is wrong."""

    code = Code.UNAUTHENTICATED
    reason = "TOKEN_INVALID"


class TokenForAnother(Refusal):
    """The token is of another event or account than the request."""

    code = Code.PERMISSION_DENIED
    reason = "TOKEN_FOR_ANOTHER"


def status_of(code: grpc.StatusCode, reason: str, message: str, metadata: dict[str, str]) -> status_pb2.Status:
    """`google.rpc.Status` with an ErrorInfo, the form of every refusal."""
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata))
    number: int = code.value[0]
    return status_pb2.Status(code=number, message=message, details=[detail])


def reason_of(error: grpc.RpcError) -> tuple[str, dict[str, str]]:
    """Reason and metadata of a refusal received by a caller; ("", {}) when it carries none."""
    trailers: Any = error.trailing_metadata() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    for key, value in trailers or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return info.reason, dict(info.metadata)
    return "", {}
