"""A shim in plugin mode that has reported its cluster, for tests."""

from __future__ import annotations

from typing import Any

from integrations.kubernetes.tests.objects import node, pod
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.plugin.plugin import Hold, PluginPolicy, PluginShim
from remuda_kubernetes.shim.effects import RecordEvent
from remuda_proto.si.v1 import si_pb2 as si

DEFAULT = "default-scheduler"
NODES = ["n1", "n2"]


def policy(hold: Hold) -> PluginPolicy:
    return PluginPolicy(frozenset({"remuda"}), placed_by=frozenset({DEFAULT}), hold=hold)


def plugin(hold: Hold = Hold.EXTENDER) -> PluginShim:
    made = PluginShim(policy(hold))
    for name in NODES:
        made.node_changed(node(name))
    made.report()
    made.take()
    return made


def placed(name: str, **of: Any) -> Pod:
    """A pod of an application that the default scheduler places."""
    return pod(name, **{"app": "app", "cpu": "1", "scheduler": DEFAULT} | of)


def allocated(of: PluginShim, name: str, on: str = "n1", uuid: str = "") -> None:
    of.allocation(
        si.AllocationResponse(new=[si.Allocation(allocationKey=f"uid-{name}", UUID=uuid or f"u-{name}", nodeID=on)])
    )


def kinds(effects: list[Any]) -> list[str]:
    return [type(effect).__name__ for effect in effects if not isinstance(effect, RecordEvent)]


def events(effects: list[Any]) -> list[str]:
    return [effect.reason for effect in effects if isinstance(effect, RecordEvent)]
