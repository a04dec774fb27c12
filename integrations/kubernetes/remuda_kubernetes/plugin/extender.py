"""The protocol of scheduler extenders: requests of the default scheduler, and their answers. Pure.

Names are those of Go: they begin with a capital.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.plugin.plugin import PluginShim

Answer = dict[str, Any]


class FilterArguments(msgspec.Struct, rename="pascal", frozen=True):
    """The request of the filter of an extender. `node_names`: None when the extender is configured without
    `nodeCacheCapable`."""

    pod: Pod
    node_names: list[str] | None = None


class MetaPod(msgspec.Struct, frozen=True):
    uid: str = msgspec.field(default="", name="UID")


class MetaVictims(msgspec.Struct, frozen=True):
    pods: list[MetaPod] | None = msgspec.field(default=None, name="Pods")
    disruptions: int = msgspec.field(default=0, name="NumPDBViolations")


class PreemptionArguments(msgspec.Struct, frozen=True):
    pod: Pod = msgspec.field(name="Pod")
    victims: dict[str, MetaVictims] | None = msgspec.field(default=None, name="NodeNameToMetaVictims")


_FILTER: Final = msgspec.json.Decoder(FilterArguments)
_PREEMPTION: Final = msgspec.json.Decoder(PreemptionArguments)


def answer_filter(shim: PluginShim, content: bytes) -> Answer:
    """Answer a request of the filter. Raises ValueError for a request that is not understood."""
    arguments = _FILTER.decode(content)
    if arguments.node_names is None:
        return {"Error": "expected NodeNames: set nodeCacheCapable of the extender"}
    verdict = shim.filter(arguments.pod, arguments.node_names)
    passed = frozenset(verdict.nodes)
    reason = verdict.reason or "remuda has chosen another node"
    failed = {name: reason for name in arguments.node_names if name not in passed}
    return {"NodeNames": list(verdict.nodes), "FailedNodes": failed, "Error": ""}


def answer_preemption(shim: PluginShim, content: bytes) -> Answer:
    """An empty map: no preemption. Raises ValueError."""
    arguments = _PREEMPTION.decode(content)
    victims = arguments.victims or {}
    return {"NodeNameToMetaVictims": msgspec.to_builtins(victims) if shim.may_preempt(arguments.pod) else {}}


VERBS: Final[dict[str, Callable[[PluginShim, bytes], Answer]]] = {
    "filter": answer_filter,
    "preempt": answer_preemption,
}
