"""Channels to other services."""

import grpc

KEEPALIVE_MS = 20_000  # a peer that vanished without a word is noticed within half a minute

SERVICE_CONFIG = '{"loadBalancingConfig": [{"round_robin": {}}]}'


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
