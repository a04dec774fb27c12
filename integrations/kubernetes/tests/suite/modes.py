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
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.plugin.plugin import WAITING
from remuda_kubernetes.shim import names

DEPLOY = Path(__file__).parents[4] / "deploy/kubernetes"


@dataclass(frozen=True)
class Mode:
    """Shim mode, or plugin mode: through the extender, on clusters that know gates through them."""

    plane: Plane
    is_plugin: bool = False

    def cluster(self, url: str, queues: Path | None = None) -> AbstractAsyncContextManager[Cluster]:
        if not self.is_plugin:
            return cluster(self.plane, url, queues)
        return cluster(self.plane, url, queues, mode="plugin", **self.plane.of_extender)

    def pod(self, name: str, **of: Any) -> dict[str, Any]:
        """A pod of an application. In plugin mode, with the gate that the webhook adds: API servers that do not know
        gates drop it."""
        if not self.is_plugin:
            return manifests.pod(name, **of)
        by_default = {"app": "app", "scheduler": "default-scheduler", "schedulingGates": [{"name": names.GATE}]}
        return manifests.pod(name, **by_default | of)

    async def why(self, of: Cluster, name: str, part: str = "") -> str:
        """Why the scheduler does not place the pod, once it says so with this part."""
        found = await of.until(lambda pods: _is_told(why := reason(pods[name])) and part in why)
        assert not found[name].spec.node_name
        return reason(found[name])


def _is_told(why: str) -> bool:
    """The first reason of a held pod is that nothing is decided yet."""
    return why != "" and WAITING not in why


def reason(one: Pod) -> str:
    """Why a pod waits: in the condition of the extender, or in that of all pods."""
    found = {it.type: it.message for it in one.status.conditions if it.status == "False"}
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
