"""Channels to other services."""

import grpc

from chassis.errors import Contended, reason_of

KEEPALIVE_MS = 20_000  # a peer that vanished without a word is noticed within half a minute

SERVICE_CONFIG = '{"loadBalancingConfig": [{"round_robin": {}}]}'


AWAY = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
)


def is_away(error: grpc.aio.AioRpcError) -> bool:
    """Whether the peer could not be reached or was too busy: it has refused nothing, and later it may say yes."""
    return error.code() in AWAY or reason_of(error)[0] == Contended.reason


def open_channel(target: str) -> grpc.aio.Channel:
    """A channel to `host:port`, or over several replicas: `ipv4:127.0.0.1:1001,127.0.0.1:1002`."""
    return grpc.aio.insecure_channel(
        target,
        options=[
            ("grpc.service_config", SERVICE_CONFIG),
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.max_receive_message_length", 32 * 1024 * 1024),
            ("grpc.max_send_message_length", 32 * 1024 * 1024),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ],
    )
