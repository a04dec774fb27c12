"""Answers the scheduler's questions about pods and nodes.

Predicates of the node alone are decided once for each shape of pods and each version of a node.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Node, Pod
from remuda_kubernetes.predicates import among_pods, on_node
from remuda_kubernetes.predicates.among_pods import Placed
from remuda_kubernetes.shim.books import Books

Shape = bytes
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class Predicates:
    def __init__(self, books: Books) -> None:
        self._books = books
        self._of_shape: dict[Shape, dict[str, tuple[str, str]]] = {}  # node -> its version, the refusal

    def refusal(self, uid: str, node_name: str, without: Collection[str] = ()) -> str:
        """Why the pod may not start on the node; empty: it may. `without`: UIDs of pods that count as gone."""
        entry, on = self._books.pods.get(uid), self._books.nodes.get(node_name)
        if entry is None:
            return "the pod is gone"
        if on is None:
            return "the node is gone"
        pod, node = entry.pod, on.node
        return self._on_node(pod, node) or self._among_pods(pod, node, without)

    def _on_node(self, pod: Pod, node: Node) -> str:
        shape = shape_of(pod)
        verdicts = self._of_shape.pop(shape, None)
        if verdicts is None:
            verdicts = {}
            while len(self._of_shape) >= limits.SHAPES:
                del self._of_shape[next(iter(self._of_shape))]
        self._of_shape[shape] = verdicts  # the most recently used is the last
        name, version = node.metadata.name, node.metadata.resource_version
        known = verdicts.get(name)
        if known is None or known[0] != version:
            known = verdicts[name] = version, on_node.refusal(pod.spec, node)
        return known[1]

    def _among_pods(self, pod: Pod, node: Node, without: Collection[str]) -> str:
        books = self._books
        on = [one.pod for one in books.on_node(node.metadata.name) if one.pod.uid not in without and one.pod is not pod]
        refusal = among_pods.ports_refusal(pod, on)
        if refusal:
            return refusal
        is_spread = bool(among_pods.hard_constraints(pod))
        has_terms = bool(among_pods.terms(pod, anti=False) or among_pods.terms(pod, anti=True))
        if not is_spread and not has_terms and not books.with_anti_affinity:
            return ""
        uids = books.pods if is_spread or has_terms else books.with_anti_affinity
        placed = [
            Placed(there.pod, books.nodes[there.node].node)
            for uid in uids
            if (there := books.pods[uid]).node in books.nodes and uid != pod.uid and uid not in without
        ]
        nodes = [entry.node for entry in books.nodes.values()]
        return among_pods.affinity_refusal(pod, node, placed, books.namespaces) or among_pods.spread_refusal(
            pod, node, nodes, placed
        )


def shape_of(pod: Pod) -> Shape:
    """Pods of one shape may start on the same nodes, as far as that depends on nodes alone."""
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return _ENCODER.encode((spec.node_selector, affinity, spec.tolerations))
