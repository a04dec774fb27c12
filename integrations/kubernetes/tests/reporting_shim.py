"""A shim that has reported its cluster, for tests."""

from __future__ import annotations

from integrations.kubernetes.tests.objects import node
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.shim import Shim


def shim(*nodes: str, predicates: bool = True) -> Shim:
    made = Shim(ShimPolicy(frozenset({"remuda"}), predicates=predicates))
    for name in nodes:
        made.node_changed(node(name))
    made.report()
    made.take()
    return made
