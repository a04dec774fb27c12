"""Calls of the Kubernetes API that approve pods for the default scheduler."""

from __future__ import annotations

from datetime import UTC, datetime

from remuda_kubernetes import limits
from remuda_kubernetes.api.client import JSON_PATCH, Client
from remuda_kubernetes.api.errors import ApiError, Conflict
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.api.times import now_text
from remuda_kubernetes.plugin.effects import Approve, OpenGate, Withhold
from remuda_kubernetes.plugin.gates import gate_patch
from remuda_kubernetes.plugin.policy import Pin
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import PodName


async def open_gate(client: Client, call: OpenGate) -> None:
    """Raises NotFound when the pod is gone, ApiError. A pod that has no gate any more is a success."""
    path = f"/api/v1/namespaces/{call.pod.namespace}/pods/{call.pod.name}"
    if call.pin is Pin.SOFT:
        await _patch_status(client, call.pod, {"nominatedNodeName": call.node})
    pod = call.as_seen
    for attempt in range(limits.GATE_ATTEMPTS):
        operations = gate_patch(pod, call.node, call.pin)
        if not operations:
            return
        try:
            await client.patch(path, operations, JSON_PATCH)
            return
        except ApiError as error:
            # A test of the patch has failed: the pod has changed, or is another one.
            if error.code not in (409, 422) or attempt + 1 == limits.GATE_ATTEMPTS:
                raise
        pod = await client.get(path, Pod)
        if pod.uid != call.pod.uid:
            raise Conflict("the name has another pod by now", 409)


async def set_condition(client: Client, call: Approve | Withhold) -> None:
    """Raises NotFound, Conflict when the name has another pod, ApiError."""
    if isinstance(call, Approve):
        status, reason, message = "True", "Allocated", f"may run on node {call.node}" if call.node else "is not held"
    else:
        status, reason, message = "False", call.reason, call.message
    condition = {
        "type": names.APPROVED,
        "status": status,
        "reason": reason,
        "message": message[: limits.EVENT_CHARACTERS],
        "lastProbeTime": now_text("seconds"),
    }
    await _patch_status(client, call.pod, {"conditions": [condition]})


async def approve(client: Client, call: Approve) -> None:
    """The annotation makes the default scheduler try the pod at once: 1.20 does not notice a condition that only gets
    another value. Raises NotFound, Conflict, ApiError."""
    await set_condition(client, call)
    path = f"/api/v1/namespaces/{call.pod.namespace}/pods/{call.pod.name}"
    annotations = {names.APPROVED_AT: datetime.now(UTC).isoformat()}
    await client.patch(path, {"metadata": {"uid": call.pod.uid, "annotations": annotations}})


async def _patch_status(client: Client, pod: PodName, status: dict[str, object]) -> None:
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
    await client.patch(path, {"metadata": {"uid": pod.uid}, "status": status})
