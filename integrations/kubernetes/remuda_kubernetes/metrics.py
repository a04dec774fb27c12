"""Metrics of a front end for Kubernetes (docs/metrics.md)."""

from __future__ import annotations

from collections import Counter

from remuda_bus.metrics import OTHERS, counter, gauge, histogram
from remuda_kubernetes import limits
from remuda_kubernetes.shim.cache import Cache, PodEntry

OF = ("namespace", "queue")
PODS = gauge(
    "remuda_kubernetes_pods",
    "Pods with an application: waiting, placed (not bound yet), bound. `queue`: as the first pod of "
    "the application names it.",
    (*OF, "state"),
)
BOUND = counter("remuda_kubernetes_bindings", "Bound or approved pods.", OF)
NOT_BOUND = counter("remuda_kubernetes_failed_bindings", "Failed bindings and approvals.", OF)
BINDING_SECONDS = histogram("remuda_kubernetes_binding_seconds", "Time from the allocation of a pod to its binding.")
DROPPED = counter(
    "remuda_kubernetes_dropped_notes",
    "Dropped events and conditions: too many waited, or were of one object.",
)


class Places:
    """The values of the labels `namespace` and `queue`. A tenant who names ever new queues uses up those of its own
    namespaces only."""

    def __init__(self) -> None:
        self._queues: dict[str, set[str]] = {}

    def of(self, cache: Cache, entry: PodEntry) -> tuple[str, str]:
        namespace = entry.pod.metadata.namespace
        application = cache.applications.get(entry.application)
        return self._bounded(namespace, application.queue if application is not None else "")

    def _bounded(self, namespace: str, queue: str) -> tuple[str, str]:
        queues = self._queues.get(namespace)
        if queues is None:
            if len(self._queues) >= limits.METRIC_NAMESPACES:
                return OTHERS, OTHERS
            queues = self._queues[namespace] = set()
        if queue not in queues:
            if len(queues) >= limits.METRIC_QUEUES:
                return namespace, OTHERS
            queues.add(queue)
        return namespace, queue


class PodCounts:
    """The gauge of pods. `update()` costs one look at each pod."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._shown: set[tuple[str, str, str]] = set()

    def update(self, cache: Cache) -> None:
        counts: Counter[tuple[str, str, str]] = Counter()
        for entry in cache.pods.values():
            if entry.application:
                state = "bound" if entry.is_bound else "placed" if entry.uuid else "waiting"
                counts[*self._places.of(cache, entry), state] += 1
        for labels in self._shown - counts.keys():
            PODS.remove(*labels)
        for labels, count in counts.items():
            PODS.labels(*labels).set(count)
        self._shown = set(counts)
