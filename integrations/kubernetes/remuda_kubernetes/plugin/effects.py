"""Effects of plugin mode, beside those of the shim: calls of the Kubernetes API."""

from __future__ import annotations

from dataclasses import dataclass

from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.plugin.policy import Pin
from remuda_kubernetes.shim.effects import PodName


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Remove the gate of a pod, so that the default scheduler places it. `as_seen`: the pod as it was reported last."""

    pod: PodName
    node: str
    pin: Pin
    as_seen: Pod


@dataclass(frozen=True, slots=True)
class Approve:
    """Set the condition `remuda.io/QuotaApproved`, and make the default scheduler try the pod at once. `node`:
    empty for a pod that is not held."""

    pod: PodName
    node: str


@dataclass(frozen=True, slots=True)
class Withhold:
    """The condition `remuda.io/QuotaApproved` is false, and why."""

    pod: PodName
    reason: str
    message: str


PluginCall = OpenGate | Approve | Withhold
