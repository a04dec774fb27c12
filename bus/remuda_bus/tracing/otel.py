"""Spans of OpenTelemetry. Imported only when traces are on."""

from __future__ import annotations

import logging
import os
import re
import threading
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from remuda_bus import limits
from remuda_bus.subjects import TRACEPARENT

# Spans about messages of a stream, by OpenTelemetry's conventions for messaging: what is done, and to which stream.
MESSAGING: Final = {
    "rm.publish": ("send", "REQUESTS"),
    "rmproxy.forward": ("process", "REQUESTS"),
    "core.decide": ("process", "INBOX"),
    "core.commit": ("send", "LOG"),
    "rmproxy.callback": ("send", "CALLBACKS"),
    "rm.callback": ("process", "CALLBACKS"),
    "grpc.forward": ("send", "REQUESTS"),
    "grpc.configuration": ("send", "REQUESTS"),
    "grpc.callback": ("process", "CALLBACKS"),
    "events.publish": ("send", "EVENTS"),
    "resmgr.decide": ("process", "PELOTON_INBOX"),
    "resmgr.commit": ("send", "PELOTON_LOG"),
}
KINDS: Final = {"send": SpanKind.PRODUCER, "process": SpanKind.CONSUMER}
ENDPOINT_OF_SPANS = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
# For lines of logs only: parents come from messages. Without tokens, because spans may end in another order.
_TRACE: ContextVar[str] = ContextVar("remuda_trace", default="")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def exporting(service: str, instance: str, endpoint: str, part: float = 1.0) -> Tracer:
    """`part`: of the traces that begin here and are exported."""
    # The exporter reads headers and timeouts from OTEL_* itself, and an endpoint for spans alone, which counts first.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    # One line for a batch that could not be exported; the exporter would log one for each attempt.
    logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.ERROR)
    sampler = ParentBased(TraceIdRatioBased(part))
    provider = TracerProvider(sampler=sampler, resource=_resource(service, instance))
    own = None if os.environ.get(ENDPOINT_OF_SPANS) else f"{endpoint.rstrip('/')}/v1/traces"
    exporter = OTLPSpanExporter(endpoint=own)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracer(provider)


def collecting(exporter: SpanExporter, service: str) -> Tracer:
    provider = TracerProvider(resource=_resource(service, ""))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracer(provider)


def _resource(service: str, instance: str) -> Resource:
    attributes = {"service.name": f"remuda-{service}", "service.namespace": "remuda"}
    if instance:
        attributes["service.instance.id"] = instance
    return Resource.create(attributes)


class Tracer:
    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("remuda")

    def start(self, name: str, parent: str | None, links: list[str], attributes: dict[str, Any]) -> OtelSpan:
        above = context_of(parent)
        context = (
            set_span_in_context(NonRecordingSpan(above)) if above else trace.set_span_in_context(trace.INVALID_SPAN)
        )
        linked = [Link(found) for link in links if (found := context_of(link))]
        kind = SpanKind.INTERNAL
        if name in MESSAGING:
            operation, stream = MESSAGING[name]
            kind = KINDS[operation]
            attributes |= {
                "messaging.system": "nats", "messaging.operation.type": operation, "messaging.destination.name": stream,
                "messaging.operation.name": name.rpartition(".")[2],
            }  # fmt: skip
        return OtelSpan(self._tracer.start_span(name, context, kind, attributes, linked))

    @staticmethod
    def current() -> str:
        return _TRACE.get()

    def shutdown(self) -> None:
        """Export the remaining spans within limits.TRACE_EXPORT_TIMEOUT_S. Without that limit an absent collector would
        delay the end of the process by half a minute."""
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(limits.TRACE_EXPORT_TIMEOUT_S)


class OtelSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._around = ""

    def __enter__(self) -> OtelSpan:
        self._around = _TRACE.get()
        _TRACE.set(f"{self._span.get_span_context().trace_id:032x}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _TRACE.set(self._around)
        if error is not None:
            self._span.record_exception(error)
            self._span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        self._span.end()

    def headers(self) -> dict[str, str]:
        context = self._span.get_span_context()
        return {TRACEPARENT: f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}

    def set(self, **attributes: Any) -> None:
        self._span.set_attributes(attributes)


def context_of(traceparent: str | None) -> SpanContext | None:
    """The span context of a traceparent header (W3C Trace Context); None: it is malformed or missing."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    if found is None:
        return None
    context = SpanContext(
        trace_id=int(found[1], 16),
        span_id=int(found[2], 16),
        is_remote=True,
        trace_flags=TraceFlags(int(found[3], 16)),
    )
    return context if context.is_valid else None
