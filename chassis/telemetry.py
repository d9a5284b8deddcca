"""Logs, metrics and spans. Nothing here may carry a token, card data or a mail address."""

import logging
import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import structlog
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from prometheus_client import Counter, Histogram, start_http_server

from chassis.settings import ServiceSettings

CALL_SECONDS = Histogram(
    "rowlock_call_seconds",
    "Time in a gRPC handler",
    ["method", "code"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
WORKER_ERRORS = Counter("rowlock_worker_errors_total", "Rounds of a worker that ended in an error", ["worker"])

tracer = trace.get_tracer("rowlock")

SECRET_NAMES = re.compile("token|authorization|secret|password|email|card|dsn|url", re.IGNORECASE)
SECRET_VALUES = re.compile(
    r"eyJ[\w-]+\.[\w-]+\.[\w-]*|[\w.+-]+@[\w-]+\.[\w.-]+|\b(?:\d[ -]?){13,19}\b|://[^/\s:@]+:[^/\s@]+@"
)


def start_telemetry(service: str, settings: ServiceSettings) -> None:
    """Sets up logs on stderr, spans, and the Prometheus endpoint of this process.

    A call that is not sampled has a trace id all the same, for its logs and for whom it calls.
    """
    configure_logs(settings.log_level)
    trace.set_tracer_provider(
        TracerProvider(
            sampler=ParentBasedTraceIdRatio(settings.trace_ratio),
            resource=Resource.create({"service.name": service}),
        )
    )
    host, _, port = settings.metrics_listen.rpartition(":")
    start_http_server(int(port), host)


def span(name: str) -> AbstractContextManager[Any]:
    """A part of the call under way, and nothing where that is not recorded: starting a span costs more than a query's
    arguments."""
    return tracer.start_as_current_span(name) if trace.get_current_span().is_recording() else nullcontext()


def configure_logs(level: str = "INFO") -> None:
    """One JSON object a line, with the trace it belongs to."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_trace,
            structlog.processors.format_exc_info,
            _redact,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _add_trace(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = format(span.trace_id, "032x")
    return event


def _redact(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    for name, value in event.items():
        event[name] = _without_secrets(name, value)
    return event


def _without_secrets(name: str, value: Any) -> Any:
    if SECRET_NAMES.search(name):
        return "[redacted]"
    if isinstance(value, str):
        return SECRET_VALUES.sub("[redacted]", value)
    if isinstance(value, Mapping):
        return {key: _without_secrets(str(key), each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_secrets("", each) for each in value]
    return value
