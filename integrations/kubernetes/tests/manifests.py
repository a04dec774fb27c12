"""Manifests of pods and nodes, for tests."""

from __future__ import annotations

from typing import Any

SCHEDULER = "remuda"


def pod(
    name: str,
    *,
    app: str = "",
    queue: str = "",
    cpu: str = "",
    memory: str = "",
    scheduler: str = SCHEDULER,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """`spec`: further fields of the pod's spec, in the API's spelling."""
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    of_application = {"applicationId": app} if app else {}
    of_queue = {"queue": queue} if queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**of_application, **of_queue, **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
            **spec,
        },
    }


def node(name: str, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **labels: str) -> dict[str, Any]:
    """With the label of its host name. Its status has to be written separately."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
            "capacity": {"cpu": cpu, "memory": memory, "pods": pods},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def local_volume(name: str, storage_class: str, node_name: str, size: str = "1Gi") -> dict[str, Any]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def claim_spec(storage_class: str, size: str = "1Gi") -> dict[str, Any]:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
