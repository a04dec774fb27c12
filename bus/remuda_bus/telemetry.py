"""Traces: a span per step, W3C trace context in message headers.

Off unless OTEL_EXPORTER_OTLP_ENDPOINT is set: then nothing of OpenTelemetry is imported and `span` hands out one
shared object that does nothing. Parents are always explicit, as they come out of messages; nothing is taken from a
task's context."""

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
    """A context manager; the span ends with it, and an exception that passes is recorded."""

    def __enter__(self) -> Span: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def headers(self) -> dict[str, str]:
        """What a message needs so that its reader can continue this trace: {"traceparent": ...}; {} when off."""
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

    def shutdown(self) -> None: ...


_tracer: _Tracer | None = None


def setup(service: str, instance: str = "") -> None:
    """Export spans by OTLP over HTTP when the environment says where to."""
    if os.environ.get(ENDPOINT):
        from remuda_bus import otel

        _install(otel.exporting(service, instance))


def setup_for_test(exporter: SpanExporter, service: str) -> None:
    """Hand every span to the exporter the moment it ends."""
    from remuda_bus import otel

    _install(otel.collecting(exporter, service))


def shutdown() -> None:
    """Export what is left and switch off."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer is not None:
        tracer.shutdown()


def enabled() -> bool:
    return _tracer is not None


def span(
    name: str, parent: Headers | str | None = None, links: Iterable[Headers | str] = (), **attributes: Any
) -> Span:
    """A span below `parent` (headers of a message, or a traceparent); without one, the root of a new trace. `links`
    name other traces it belongs to. What cannot be read as a traceparent is taken for none."""
    if _tracer is None:
        return NO_SPAN
    return _tracer.start(
        name, _traceparent(parent), [found for link in links if (found := _traceparent(link))], attributes
    )


def _traceparent(source: Headers | str | None) -> str | None:
    if source is None or isinstance(source, str):
        return source
    return source.get(TRACEPARENT)


def _install(tracer: _Tracer) -> None:
    shutdown()
    global _tracer  # noqa: PLW0603 - the process has one
    _tracer = tracer
