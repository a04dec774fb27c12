"""A pod is one trace: watch event, ask, decision, binding."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from integrations.kubernetes.tests.cluster import cluster
from integrations.kubernetes.tests.control_plane.processes import ControlPlane
from integrations.kubernetes.tests.manifests import pod
from remuda.embedded import NatsServer
from remuda_bus import tracing

# What a pod's trace has, in order of time. A commit that answers several requests is in the trace of the first one; the
# traces of the others have a span of their answer.
CHAIN = ["kubernetes.watch", "rm.publish", "rmproxy.forward", "core.decide", "answer", "kubernetes.bind"]
ANSWERS = ("rmproxy.callback", "rmproxy.answer")


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    spans = InMemorySpanExporter()
    tracing.setup_for_test(spans, "all")
    yield spans
    tracing.shutdown()


def of_pod(name: str, spans: tuple[ReadableSpan, ...]) -> list[ReadableSpan]:
    (root,) = [one for one in spans if one.name == "kubernetes.watch" and (one.attributes or {})["pod"] == name]
    found = [one for one in spans if one.context.trace_id == root.context.trace_id]
    return sorted(found, key=lambda one: one.start_time or 0)


@pytest.mark.parametrize("predicates", [False, True])
async def test_pod_is_one_trace(
    plane: ControlPlane, server: NatsServer, exporter: InMemorySpanExporter, predicates: bool
) -> None:
    async with cluster(plane, server.url, predicates=predicates) as it:
        await it.add_nodes("n1", "n2")
        for name in ("p", "q"):
            await it.create(pod(name, app="app", cpu="1"))
        await it.bound("p", "q")
        await it.told("PodBindSuccessful", "q")
        spans = exporter.get_finished_spans()
    for name in ("default/p", "default/q"):
        found = ["answer" if one.name in ANSWERS else one.name for one in of_pod(name, spans)]
        assert list(dict.fromkeys(one for one in found if one in CHAIN)) == CHAIN, found
        (bind,) = [one for one in of_pod(name, spans) if one.name == "kubernetes.bind"]
        assert (bind.attributes or {})["pod"] == name
