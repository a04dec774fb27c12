"""Events of Kubernetes, as the API server wants them (events.k8s.io/v1)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from remuda_kubernetes import limits
from remuda_kubernetes.shim.effects import RecordEvent

CONTROLLER = "remuda.io/scheduler"


def event_path(event: RecordEvent) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{_namespace(event)}/events"


def event_body(event: RecordEvent, instance: str) -> dict[str, Any]:
    of = event.of
    regarding = {"kind": event.kind, "apiVersion": "v1", "name": of.name, "uid": of.uid}
    if of.namespace:
        regarding["namespace"] = of.namespace
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{of.name[: limits.EVENT_NAME_CHARACTERS]}-", "namespace": _namespace(event)},
        "eventTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        "action": event.action,
        "note": event.note[: limits.EVENT_CHARACTERS],
        "reportingController": CONTROLLER,
        "reportingInstance": instance[: limits.INSTANCE_CHARACTERS],
        "regarding": regarding,
    }


def _namespace(event: RecordEvent) -> str:
    """The API server wants events on objects without a namespace there."""
    return event.of.namespace or "kube-system"
