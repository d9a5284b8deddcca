"""Whose trace a call of many is in."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from services.booking import gather
from tests.unit.booking.test_gather import Calls, Request, gatherer, settle


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Those that are recorded: a call is, where its caller is."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(sampler=ParentBased(ALWAYS_OFF))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(gather, "tracer", provider.get_tracer("tried"))
    return exporter


def caller(number: int, *, recorded: bool) -> trace.SpanContext:
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if recorded else trace.TraceFlags.DEFAULT)
    return trace.SpanContext(number, number, is_remote=True, trace_flags=flags)


async def ask_all(*callers: trace.SpanContext) -> None:
    """A call of one, and behind it one of all the callers."""
    calls = Calls()
    asked = gatherer(calls)
    tasks = [asyncio.create_task(asked.ask(Request("first")))]
    await settle()
    for each in callers:
        with trace.use_span(trace.NonRecordingSpan(each)):
            tasks.append(asyncio.create_task(asked.ask(Request(str(each.span_id)))))
    await settle()
    calls.gate.set()
    await asyncio.gather(*tasks)
    await asked.close()
    assert [len(names) for names in calls.made] == [1, len(callers)]


async def test_a_call_is_in_the_trace_of_the_first_recorded_caller_and_linked_to_the_others(
    spans: InMemorySpanExporter,
) -> None:
    await ask_all(caller(1, recorded=False), caller(2, recorded=True), caller(3, recorded=True))
    (span,) = spans.get_finished_spans()
    assert span.name == "booking.test"
    assert span.parent
    assert (span.parent.trace_id, span.parent.span_id) == (2, 2)
    assert [link.context.span_id for link in span.links] == [3]


async def test_a_call_of_which_no_caller_is_recorded_has_no_span(spans: InMemorySpanExporter) -> None:
    await ask_all(caller(1, recorded=False), caller(2, recorded=False))
    assert not spans.get_finished_spans()
