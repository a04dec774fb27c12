"""The two modes, so that a case is written once and runs in both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from integrations.kubernetes.tests import manifests
from integrations.kubernetes.tests.cluster import Cluster, cluster
from integrations.kubernetes.tests.control_plane.existing import Plane
from integrations.kubernetes.tests.control_plane.processes import ControlPlane, programs
from remuda.embedded import free_port
from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.plugin.plugin import WAITING
from remuda_kubernetes.shim import names

DEPLOY = Path(__file__).parents[4] / "deploy/kubernetes"
BY_GATE = "SchedulingGated"  # reason of the condition that the API server gives a pod with a gate


@dataclass(frozen=True)
class Mode:
    """Shim mode, or plugin mode: through the extender, on clusters that know gates through them."""

    plane: Plane
    is_plugin: bool = False

    def cluster(self, url: str, queues: Path | None = None) -> AbstractAsyncContextManager[Cluster]:
        if not self.is_plugin:
            return cluster(self.plane, url, queues)
        return cluster(self.plane, url, queues, mode="plugin", **self.plane.of_extender)

    @property
    def has_gates(self) -> bool:
        """Whether gates hold the pods of plugin mode, and not the extender."""
        return self.is_plugin and self.plane.minor >= limits.GATES_SINCE

    def pod(self, name: str, **of: Any) -> dict[str, Any]:
        """A pod of an application, unless `app` is empty. In plugin mode, with the gate that the webhook adds: API
        servers that do not know gates drop it. `gated=False`: without, for a pod that another process binds."""
        gated = of.pop("gated", True)
        if not self.is_plugin:
            return manifests.pod(name, **of)
        made = manifests.pod(name, **{"app": "app", "scheduler": "default-scheduler"} | of)
        if gated and of.get("app", "app") and "nodeName" not in of:
            made["spec"]["schedulingGates"] = [{"name": names.GATE}]
        return made

    async def why(self, of: Cluster, name: str, part: str = "") -> str:
        """Why the scheduler does not place the pod, once it says so with this part."""
        found = await of.until(lambda pods: _is_told(why := reason(pods[name])) and part in why)
        assert not found[name].spec.node_name
        return reason(found[name])


def _is_told(why: str) -> bool:
    """The first reason of a held pod is that nothing is decided yet."""
    return why != "" and WAITING not in why


def reason(one: Pod) -> str:
    """Why a pod waits: in the condition of the extender, or in that of all pods. Empty: only its gate is known yet."""
    conditions = (it for it in one.status.conditions if it.status == "False" and it.reason != BY_GATE)
    found = {it.type: it.message for it in conditions}
    return found.get(names.APPROVED) or found.get("PodScheduled", "")


@contextmanager
def extended_plane(folder: Path) -> Iterator[ControlPlane]:
    """A control plane whose default scheduler asks an extender."""
    if programs() is None:
        pytest.skip("no control plane: run `make kubernetes`")
    with ControlPlane(folder, scheduler=True, extender_port=free_port("127.0.0.1")) as running:
        apply_rights(running, "scheduler", "plugin")
        yield running


def apply_rights(plane: Plane, *parts: str) -> None:
    """Those of `deploy/kubernetes`."""
    for part in parts:
        for manifest in YAML(typ="safe").load_all(DEPLOY / part / "rights.yaml"):
            plane.apply(manifest)


async def until_explained(it: Cluster, name: str, part: str) -> None:
    """An ask is decided and explained again while others are looked at."""
    said = ""
    for _ in range(30):
        said = await it.explained(name)
        if part in said:
            return
    raise AssertionError(said)
