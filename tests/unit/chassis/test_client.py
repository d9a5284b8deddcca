import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from chassis.client import is_away
from chassis.errors import Code, status_of


def error_of(code: grpc.StatusCode, reason: str = "") -> AioRpcError:
    details = status_of(code, reason, "", {}).SerializeToString() if reason else b""
    trailers = Metadata(("grpc-status-details-bin", details)) if reason else Metadata()
    return AioRpcError(code, Metadata(), trailers, "", "")


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.CANCELLED])
def test_a_peer_that_gives_no_answer_is_away(code: grpc.StatusCode) -> None:
    assert is_away(error_of(code))


def test_a_peer_that_was_in_a_crowd_has_refused_nothing() -> None:
    assert is_away(error_of(Code.ABORTED, "CONTENDED"))


@pytest.mark.parametrize("code", [Code.INVALID_ARGUMENT, Code.ALREADY_EXISTS, Code.INTERNAL, Code.UNIMPLEMENTED])
def test_any_other_answer_is_a_refusal(code: grpc.StatusCode) -> None:
    assert not is_away(error_of(code))
    assert not is_away(error_of(code, "CHARGE_CONFLICT"))
