"""Each pod that waits has a trace of its own, from its watch event on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from integrations.kubernetes.tests.objects import pod
from remuda_bus import tracing
from remuda_kubernetes.shell.calls import Traces


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    spans = InMemorySpanExporter()
    tracing.setup_for_test(spans, "kubernetes")
    yield spans
    tracing.shutdown()


def test_first_event_of_a_pod_begins_its_trace(exporter: InMemorySpanExporter) -> None:
    traces = Traces()
    for one in (pod("p", app="app"), pod("q", app="app"), pod("p", app="app")):
        traces.seen(one)
    spans = exporter.get_finished_spans()
    assert [(span.attributes or {})["pod"] for span in spans] == ["default/p", "default/q"]
    found = traces.exported(["uid-p", "uid-q", "uid-r"])
    assert [headers["traceparent"].split("-")[1] for headers in found.values()] == [
        f"{span.context.trace_id:032x}" for span in spans
    ]


@pytest.mark.parametrize("end", [{"node": "n1"}, {"phase": "Failed"}])
def test_pod_that_is_bound_or_over_has_none(exporter: InMemorySpanExporter, end: dict[str, Any]) -> None:
    traces = Traces()
    traces.seen(pod("p", app="app"))
    traces.seen(pod("p", app="app", **end))
    assert traces.of("uid-p") is None


def test_pod_that_is_gone_has_none(exporter: InMemorySpanExporter) -> None:
    traces = Traces()
    traces.seen(pod("p", app="app"))
    traces.gone(pod("p", app="app"))
    assert traces.of("uid-p") is None


def test_without_an_endpoint_nothing_is_kept() -> None:
    traces = Traces()
    traces.seen(pod("p", app="app"))
    assert not traces.exported(["uid-p"])
