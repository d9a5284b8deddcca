"""Calls to the services, with their refusals as sentences."""

from collections.abc import Callable
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from cli.endpoints import target_of
from cli.errors import REFUSED, UNREACHABLE, CliError

LARGEST_MESSAGE_BYTES = 32 * 1024 * 1024  # the services' own limit: a plan file of 20 MB, its repairs
LARGEST_REFUSAL_BYTES = 1024 * 1024  # a plan's faults come in a header
CALL_SECONDS = 60.0  # the longest: publishing 200,000 seats
OPTIONS = [
    ("grpc.max_receive_message_length", LARGEST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", LARGEST_MESSAGE_BYTES),
    ("grpc.max_metadata_size", LARGEST_REFUSAL_BYTES),
    ("grpc.absolute_max_metadata_size", LARGEST_REFUSAL_BYTES),
]
NO_ANSWER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


class Refused(CliError):
    """A service said no. `reason` is its stable word."""

    def __init__(self, message: str, reason: str, details: tuple[str, ...]) -> None:
        super().__init__(message, REFUSED, details)
        self.reason = reason


class Service:
    """One service's channel. `ask(stub.Method, request)` answers, or raises CliError."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.channel = grpc.insecure_channel(target_of(name), options=OPTIONS)

    def ask(self, method: Callable[..., Any], request: Any) -> Any:
        """Waits CALL_SECONDS at most."""
        try:
            return method(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            raise self._translated(error) from None

    def _translated(self, error: Any) -> CliError:
        reason, metadata = reason_of(error)
        if error.code() in NO_ANSWER and not reason:
            return CliError(f"{self.name} does not answer; is the stack running (make start)?", UNREACHABLE)
        status = UNREACHABLE if error.code() in NO_ANSWER else REFUSED
        details = tuple(metadata["faults"].split("\n")) if "faults" in metadata else ()
        message = error.details() or f"{self.name} refused: {error.code().name}."
        return Refused(message, reason, details) if status == REFUSED else CliError(message, status, details)


def reason_of(error: Any) -> tuple[str, dict[str, str]]:
    """A refusal's stable word and what belongs to it."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return info.reason, dict(info.metadata)
    return "", {}
