"""Servicers on a real grpc.aio server at port 0."""

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor

from chassis.client import open_channel
from chassis.server import Server
from chassis.settings import ServiceSettings


class Servers:
    """Starts servers and channels, and stops them all."""

    def __init__(self) -> None:
        self.running: list[tuple[Server, grpc.aio.Channel]] = []

    async def start(self, *additions: tuple[ServiceDescriptor, Any, Any]) -> grpc.aio.Channel:
        """`start((descriptor, add_to_server, servicer), …)`: a channel to a new server; see `address_of`."""

        def add(server: Server) -> None:
            for addition in additions:
                server.add(*addition)

        return await self.start_service(add)

    async def start_service(self, add_servicers: Callable[[Server], None]) -> grpc.aio.Channel:
        """The same with all that a service adds itself."""
        server = Server(ServiceSettings(drain_seconds=0), "test")
        add_servicers(server)
        port = await server.start()
        channel = open_channel(f"127.0.0.1:{port}")
        self.running.append((server, channel))
        return channel

    def address_of(self, channel: grpc.aio.Channel) -> str:
        """`host:port` of the server behind a channel of ours."""
        return next(f"127.0.0.1:{server.port}" for server, own in self.running if own is channel)

    async def stop(self) -> None:
        """All of them."""
        for server, channel in self.running:
            await channel.close(None)
            await server.stop()
