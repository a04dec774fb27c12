"""Claims, volumes and classes as the API server reports them, and what a shim does with them, for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from remuda_kubernetes.api.objects import BIND_COMPLETED, SELECTED_NODE, Claim, StorageClass, Volume
from remuda_kubernetes.shim.effects import Bind, BindVolumes, Effect, Release
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

LATE = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def claim(
    volume: str = "",
    of: str = "fast",
    size: str = "1Gi",
    *,
    name: str = "c",
    selected: str = "",
    metadata: dict[str, Any] | None = None,
    **more: Any,
) -> Claim:
    """`volume`: it is bound to it. `selected`: the node for which its volume is made."""
    spec = {"volumeName": volume, "storageClassName": of, "resources": {"requests": {"storage": size}}, **more}
    annotations = ({BIND_COMPLETED: "yes"} if volume else {}) | ({SELECTED_NODE: selected} if selected else {})
    named = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations}
    return msgspec.convert({"metadata": named | (metadata or {}), "spec": spec}, Claim)


def volume(
    name: str, size: str = "1Gi", labels: dict[str, str] | None = None, *, phase: str = "Available", **spec: Any
) -> Volume:
    made = {"capacity": {"storage": size}, "storageClassName": "fast", **spec}
    metadata = {"name": name, "uid": name, "labels": labels} | made.pop("metadata", {})
    return msgspec.convert({"metadata": metadata, "spec": made, "status": {"phase": phase}}, Volume)


def given_to(name: str, uid: str = "") -> dict[str, Any]:
    return {"claimRef": {"namespace": "default", "name": name, "uid": uid}}


def near(*nodes: str) -> dict[str, Any]:
    """The node affinity of a volume."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}}


def storage_class(mode: str = LATE, provisioner: str = "csi", **of: Any) -> StorageClass:
    named = {"metadata": {"name": "fast", "uid": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode}
    return msgspec.convert({**named, **of}, StorageClass)


def with_claims(*names: str) -> dict[str, Any]:
    return {"volumes": [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in names]}


def kept(of: Shim, *kinds: type[Any]) -> list[Any]:
    return [effect for effect in of.take() if isinstance(effect, kinds)]


def feasible(of: Shim, name: str = "p") -> set[str]:
    return {one for one in ("n1", "n2") if not of.predicates.refusal(f"uid-{name}", one)}


def allocated(of: Shim, on: str, name: str = "p", uuid: str = "u") -> list[Effect]:
    key = f"uid-{name}"
    new = si.Allocation(allocationKey=key, UUID=f"{uuid}-{name}", nodeID=on, applicationID="default.app")
    of.allocation(si.AllocationResponse(new=[new]))
    return kept(of, Bind, BindVolumes, Release)
