"""Spans of this process.

Traces are off unless there is an endpoint for them. While they are off, OpenTelemetry is not imported, and `span`
returns one shared object that does nothing. Parents are always explicit, because they come from messages. A task's
context is never used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from remuda_bus.bus import Headers
from remuda_bus.subjects import TRACEPARENT

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
NOTHING: dict[str, str] = {}


class Span(Protocol):
    """A context manager. The span ends with it, and records an exception that passes through it."""

    def __enter__(self) -> Span: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def headers(self) -> dict[str, str]:
        """The headers with which the reader of a message continues this trace: {"traceparent": ...}; {} while traces
        are off."""
        ...

    def set(self, **attributes: Any) -> None: ...


class _NoSpan:
    __slots__ = ()

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def headers(self) -> dict[str, str]:
        return NOTHING

    def set(self, **attributes: Any) -> None:
        pass


NO_SPAN = _NoSpan()


class _Tracer(Protocol):
    def start(self, name: str, parent: str | None, links: list[str], attributes: dict[str, Any]) -> Span: ...

    def current(self) -> str: ...

    def shutdown(self) -> None: ...


_tracer: _Tracer | None = None


def setup(service: str, instance: str = "", endpoint: str | None = None, part: float = 1.0) -> None:
    """Export spans to `endpoint` by OTLP over HTTP; None: to that of OTEL_EXPORTER_OTLP_ENDPOINT. Without one, nothing
    is traced. `part`: of the traces that begin in this process; the others keep the decision of where they began.
    Raises ImportError when OpenTelemetry is not installed."""
    url = os.environ.get(ENDPOINT, "") if endpoint is None else endpoint
    if url:
        try:
            from remuda_bus.tracing import otel
        except ImportError as error:
            needed = f"traces for {url} need OpenTelemetry: pip install 'remuda-scheduler[telemetry]'"
            raise ImportError(f"{needed} ({error})") from error
        _install(otel.exporting(service, instance, url, part))


def setup_for_test(exporter: SpanExporter, service: str) -> None:
    """Pass every span to the exporter as soon as it ends."""
    from remuda_bus.tracing import otel

    _install(otel.collecting(exporter, service))


def shutdown() -> None:
    """Export the remaining spans and switch traces off."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer is not None:
        tracer.shutdown()


def enabled() -> bool:
    return _tracer is not None


def span(
    name: str, parent: Headers | str | None = None, links: Iterable[Headers | str] = (), **attributes: Any
) -> Span:
    """Start a span below `parent` (the headers of a message, or a traceparent); without one, the root of a new trace.
    `links`: other traces that the span belongs to. A malformed traceparent counts as none."""
    if _tracer is None:
        return NO_SPAN
    return _tracer.start(
        name, _traceparent(parent), [found for link in links if (found := _traceparent(link))], attributes
    )


def current_trace() -> str:
    """The trace of the innermost span that this task is in, for lines of logs; "": there is none."""
    return "" if _tracer is None else _tracer.current()


def mark(name: str, parent: Headers, **attributes: Any) -> None:
    """A span of a moment, in the trace of a message; none when the message is not traced."""
    if _tracer is not None and TRACEPARENT in parent:
        with span(name, parent, **attributes):
            pass


def _traceparent(source: Headers | str | None) -> str | None:
    if source is None or isinstance(source, str):
        return source
    return source.get(TRACEPARENT)


def _install(tracer: _Tracer) -> None:
    shutdown()
    global _tracer  # noqa: PLW0603 - the process has one
    _tracer = tracer
