"""Objects as the API server reports them, for tests of pure code."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from integrations.kubernetes.tests import manifests
from remuda_kubernetes.api.objects import Namespace, Node, Pod, PriorityClass


def pod(
    name: str,
    *,
    node: str = "",
    phase: str = "Pending",
    created: str = "",
    deleted: bool = False,
    owner: str = "",
    **of: Any,
) -> Pod:
    """`of`: as for a manifest. `owner`: UID of a pod. Its own UID is `uid-<name>`."""
    made = manifests.pod(name, **of)
    made["metadata"] |= {"uid": f"uid-{name}", "namespace": "default", "creationTimestamp": created or None}
    if deleted:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if owner:
        made["metadata"]["ownerReferences"] = [{"kind": "Pod", "uid": owner}]
    if node:
        made["spec"]["nodeName"] = node
    made["status"] = {"phase": phase}
    return msgspec.json.decode(json.dumps(made), type=Pod)


def sent(name: str, **of: Any) -> dict[str, Any]:
    """A pod as JSON. `of`: as for a manifest. Its UID is `uid-<name>`."""
    made = manifests.pod(name, **of)
    made["metadata"] |= {"uid": f"uid-{name}", "namespace": "default"}
    return made


def node(
    name: str, *, uid: str = "", cordoned: bool = False, taints: Any = (), ready: bool = True, leaves_at: str = "",
    **of: str,
) -> Node:  # fmt: skip
    made = manifests.node(name, **of)
    if leaves_at:
        made["metadata"]["annotations"] = {"remuda.io/leaves-at": leaves_at}
    made["metadata"]["uid"] = uid or f"uid-{name}"
    made["spec"] = {"unschedulable": cordoned, "taints": list(taints)}
    made["status"]["conditions"][0]["status"] = "True" if ready else "False"
    return msgspec.json.decode(json.dumps(made), type=Node)


def annotated(kind: type[Namespace] | type[PriorityClass], name: str, annotations: dict[str, str]) -> Any:
    return msgspec.convert({"metadata": {"name": name, "uid": name, "annotations": annotations}}, type=kind)
