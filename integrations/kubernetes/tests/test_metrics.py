"""Metrics by namespace and queue: what counts, and how many series there are."""

from __future__ import annotations

import pytest

from integrations.kubernetes.tests.objects import pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_bus.metrics import OTHERS, REGISTRY
from remuda_kubernetes import limits
from remuda_kubernetes.metrics import Places, PodCounts
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si


def counted(state: str, queue: str = "root.a") -> float | None:
    labels = {"namespace": "default", "queue": queue, "state": state}
    return REGISTRY.get_sample_value("remuda_kubernetes_pods", labels)


def test_pods_are_counted_by_state() -> None:
    it, counts = shim("n1"), PodCounts(Places())
    for name in ("p", "q", "r"):
        it.pod_changed(pod(name, app="app", queue="root.a"))
    it.pod_changed(pod("another", scheduler="default-scheduler"))
    new = si.Allocation(allocationKey="uid-p", UUID="u", nodeID="n1", applicationID="default.app")
    it.allocation(si.AllocationResponse(new=[new]))
    it.pod_changed(pod("q", app="app", queue="root.a", node="n1"))
    counts.update(it.cache)
    assert [counted(state) for state in ("waiting", "placed", "bound")] == [1, 1, 1]
    it.pod_gone(pod("r", app="app"))
    it.pod_changed(pod("p", app="app", queue="root.a", node="n1"))
    counts.update(it.cache)
    assert [counted(state) for state in ("waiting", "placed", "bound")] == [None, None, 2]
    counts.update(shim().cache)  # the registry is that of the process
    assert counted("bound") is None


def places_of(it: Shim, places: Places) -> set[tuple[str, str]]:
    return {places.of(it.cache, entry) for entry in it.cache.pods.values()}


def test_queues_of_a_namespace_have_a_bound() -> None:
    it, places = shim(), Places()
    for number in range(limits.METRIC_QUEUES + 5):
        it.pod_changed(pod(f"p{number}", app=f"app-{number}", queue=f"root.q{number}"))
    found = places_of(it, places)
    assert len(found) == limits.METRIC_QUEUES + 1
    assert ("default", OTHERS) in found


def test_namespaces_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "METRIC_NAMESPACES", 0)
    it = shim()
    it.pod_changed(pod("p", app="app", queue="root.a"))
    assert places_of(it, Places()) == {(OTHERS, OTHERS)}
