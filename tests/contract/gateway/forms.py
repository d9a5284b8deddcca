"""How a refusal looks, wherever it comes from."""

from typing import Any

import httpx

GRPC_HEADERS = {"grpc-status", "grpc-message", "grpc-status-details-bin"}


def reason_of(response: httpx.Response, status: int) -> str:
    """The reason of a refusal, after its whole form was checked."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    assert not GRPC_HEADERS & set(response.headers)
    body: dict[str, Any] = response.json()
    assert set(body) == {"code", "message", "details"}
    assert type(body["code"]) is int
    assert 1 <= body["code"] <= 16  # a gRPC code, never an HTTP status
    assert body["message"]
    [info] = body["details"]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert info["domain"] == "rowlock"
    return str(info["reason"])
