"""Traces: a span per step, with W3C trace context in the headers of messages."""

from remuda_bus.tracing.spans import ENDPOINT, Span, current_trace, enabled, mark, setup, setup_for_test, shutdown, span

__all__ = ["ENDPOINT", "Span", "current_trace", "enabled", "mark", "setup", "setup_for_test", "shutdown", "span"]
