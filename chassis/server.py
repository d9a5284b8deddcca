"""A gRPC server as every service runs it: errors, metrics, spans and deadlines around each handler; health; drain."""

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import grpc
import structlog
import uvloop
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from opentelemetry import context as contexts
from opentelemetry import propagate, trace

from chassis.ending import cancel, end_within
from chassis.errors import Refusal, status_of
from chassis.postgres import finished
from chassis.settings import ServiceSettings
from chassis.telemetry import CALL_SECONDS
from chassis.workers import Worker

LARGEST_MESSAGE_BYTES = 32 * 1024 * 1024  # an inventory of 200,000 seats is about 8 MB
# Less than a channel's KEEPALIVE_MS: else a client that asks over a quiet stream whether we live is sent away for it.
SHORTEST_PING_INTERVAL_MS = 10_000
# Calls that have arrived and that Python has not taken yet. Over 1,000, gRPC would answer some with a bare CANCELLED,
# which tells a caller nothing; all that the edge sends at once (10,000) are taken, and refused over `concurrent_calls`.
MOST_UNTAKEN_CALLS = 16_384
LARGEST_METADATA_BYTES = 64 * 1024  # twice what the edge lets in; gRPC's 8 KB would make a browser's cookies a 429

# Until the edge has asked for our health and sends its calls elsewhere. gRPC cancels what Python has not taken yet when
# a server stops (grpc/grpc#41785), so there should be little of it.
LEAVE_SECONDS = 4.0

GARBAGE_THRESHOLD = 20_000  # objects; Python's 700 looks for garbage every other call, and finds none

Handler = Any  # grpc.RpcMethodHandler, whose stub is generic and whose class is not

log = structlog.get_logger()
tracer = trace.get_tracer("rowlock")

NO_CONTEXT = contexts.Context()


class Server:
    """Wiring of a service: `add` its servicers, then `run`, or `start` and `stop` in tests."""

    def __init__(self, settings: ServiceSettings, name: str) -> None:
        self.settings, self.name, self.port = settings, name, 0
        self.names: list[str] = []
        self.health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        self.grpc = grpc.aio.server(
            maximum_concurrent_rpcs=settings.concurrent_calls,
            options=[
                ("grpc.max_receive_message_length", LARGEST_MESSAGE_BYTES),
                ("grpc.max_send_message_length", LARGEST_MESSAGE_BYTES),
                ("grpc.max_metadata_size", LARGEST_METADATA_BYTES),
                ("grpc.absolute_max_metadata_size", LARGEST_METADATA_BYTES),
                ("grpc.server.max_pending_requests", MOST_UNTAKEN_CALLS),
                ("grpc.server.max_pending_requests_hard_limit", MOST_UNTAKEN_CALLS),
                ("grpc.http2.min_ping_interval_without_data_ms", SHORTEST_PING_INTERVAL_MS),
                ("grpc.so_reuseport", 0),  # a second process on a busy port must fail, not share it in silence
            ],
        )
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self.grpc)

    def add(self, service: ServiceDescriptor, register: Callable[[Any, Any], None], servicer: Any) -> None:
        """`server.add(pb2.DESCRIPTOR.services_by_name["XService"], pb2_grpc.add_XServiceServicer_to_server, x)`."""
        register(servicer, _Registrar(self.grpc, self.settings.default_deadline_seconds))
        self.names.append(service.full_name)

    async def start(self) -> int:
        """Listens, and says healthy; the port."""
        reflection.enable_server_reflection([*self.names, health.SERVICE_NAME, reflection.SERVICE_NAME], self.grpc)
        self.port = self.grpc.add_insecure_port(self.settings.listen)
        await self.grpc.start()
        for name in ("", *self.names):
            await self.health.set(name, health_pb2.HealthCheckResponse.SERVING)
        log.info("listening", service=self.name, port=self.port)
        return self.port

    async def stop(self) -> None:
        """Says unhealthy, takes no new call, lets those under way finish within `drain_seconds`, and what they commit
        come to its end."""
        await self._drain()
        await finished()

    async def run(
        self, workers: Sequence[Worker] = (), others: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    ) -> None:
        """Until SIGTERM or SIGINT; calls are served for LEAVE_SECONDS more, or half of `drain_seconds`. Workers, and
        `others` (listeners of another kind), run beside the server and are cancelled after it has drained.

        Then the caller closes what it opened. It need not bound its waits all together: from the signal on the process
        has `drain_seconds` and `close_seconds`, and no more (`chassis.ending`).
        """
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        await self.start()
        tasks = [asyncio.create_task(run()) for run in [*(worker.run for worker in workers), *others]]
        for task in tasks:
            task.add_done_callback(lambda _: ended.set())  # one that ends by itself ends the process: a defect
        gc.collect()
        gc.freeze()  # what stands now stays until the end
        gc.set_threshold(GARBAGE_THRESHOLD)
        await ended.wait()
        end_within(self.settings.drain_seconds + self.settings.close_seconds, self.name)
        log.info("draining", service=self.name)
        await self._drain(leave=True)
        await cancel(tasks)  # before the wait for commits: busy workers always have one under way
        await finished()
        for task in tasks:
            if not task.cancelled():
                task.result()  # raises what ended it

    async def _drain(self, *, leave: bool = False) -> None:
        """`leave`: callers hear that we are going, and are served until they have found another replica."""
        await self.health.enter_graceful_shutdown()
        leaving = min(LEAVE_SECONDS, self.settings.drain_seconds / 2) if leave else 0.0
        await asyncio.sleep(leaving)
        await self.grpc.stop(self.settings.drain_seconds - leaving)


def run_main(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a service's main on uvloop."""
    uvloop.run(main())


class _Registrar:
    """Stands for the server when a servicer is added, and puts a wrapper around each of its handlers: refusals become
    statuses, all else INTERNAL. (An interceptor would do the same, and be asked for the handler at every call.)"""

    def __init__(self, server: Any, default_deadline_seconds: float) -> None:
        self.server, self.deadline = server, default_deadline_seconds

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """The same handlers come by their names too."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """What generated code calls with all of a service's methods."""
        wrapped = {name: self._wrap(name, handler) for name, handler in handlers.items()}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, wrapped),))
        self.server.add_registered_method_handlers(service, wrapped)

    def _wrap(self, name: str, handler: Handler) -> Handler:
        coders = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._unary(name, handler.unary_unary), **coders)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._stream(name, handler.unary_stream), **coders)
        raise TypeError(f"{name}: only unary requests are served")

    def _unary(self, name: str, behaviour: Any) -> Any:
        deadline, seconds_ok = self.deadline, CALL_SECONDS.labels(name, "OK")

        async def call(request: Any, context: Any) -> Any:
            began, seconds = time.perf_counter(), seconds_ok
            remote = _remote_context(context.invocation_metadata())
            span = tracer.start_span(name, remote, kind=trace.SpanKind.SERVER)
            token = contexts.attach(trace.set_span_in_context(span, remote))
            try:
                if context.time_remaining() is not None:
                    return await behaviour(request, context)
                async with asyncio.timeout(deadline):
                    return await behaviour(request, context)
            except asyncio.CancelledError:
                seconds = CALL_SECONDS.labels(name, "CANCELLED")
                raise
            except Exception as error:
                seconds = CALL_SECONDS.labels(name, await _refuse(name, context, error))
            finally:
                contexts.detach(token)
                span.end()
                seconds.observe(time.perf_counter() - began)

        return call

    def _stream(self, name: str, behaviour: Any) -> Any:
        async def call(request: Any, context: Any) -> Any:
            began, code = time.perf_counter(), "OK"
            try:
                async for response in behaviour(request, context):
                    yield response
            except asyncio.CancelledError:
                code = "CANCELLED"
                raise
            except Exception as error:
                code = await _refuse(name, context, error)
            finally:
                CALL_SECONDS.labels(name, code).observe(time.perf_counter() - began)

        return call


def _remote_context(metadata: Iterable[tuple[str, Any]]) -> contexts.Context:
    """Of the caller's span, if it sent one."""
    for key, _ in metadata:
        if key == "traceparent":
            return propagate.extract(dict(metadata))
    return NO_CONTEXT


async def _refuse(method: str, context: Any, error: Exception) -> str:
    """Ends the call with the error's status; the status' name. What is not a refusal is withheld and logged."""
    if isinstance(error, Refusal):
        code, reason, message, metadata = error.code, error.reason, error.message, error.metadata
    elif isinstance(error, TimeoutError):
        code, reason = grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"
        message, metadata = "No answer in time; try again with the same key.", {}
    else:
        log.exception("call failed", method=method)
        code, reason = grpc.StatusCode.INTERNAL, "INTERNAL"
        message, metadata = "Something went wrong on our side; try again with the same key.", {}
    status = status_of(code, reason, message, metadata)
    with contextlib.suppress(grpc.aio.AbortError):  # grpc has noted the status; the exception would only be logged
        await context.abort(code, message, (("grpc-status-details-bin", status.SerializeToString()),))
    return code.name
