"""Which pods plugin mode manages, what holds them, and how an approved pod is pinned to its node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Namespace, Pod
from remuda_kubernetes.shim import names, pod_reading
from remuda_kubernetes.shim.books import ShimPolicy


class Hold(StrEnum):
    """What keeps the default scheduler from placing a pod before it is approved."""

    GATES = "gates"
    EXTENDER = "extender"


class Pin(StrEnum):
    """How the node of an approved pod is given to the default scheduler. HARD: as required node affinity. SOFT: as
    nominated node, so that another node is taken when that one has become unfit. FREE: not at all."""

    HARD = "hard"
    SOFT = "soft"
    FREE = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginPolicy(ShimPolicy):
    """`placed_by`: names of the schedulers that place managed pods. Those of `scheduler_names` are bound as in shim
    mode. `pin`: where the namespace of a pod has no annotation."""

    placed_by: frozenset[str]
    hold: Hold
    pin: Pin = Pin.HARD

    def manages(self, pod: Pod) -> bool:
        return ShimPolicy.manages(self, pod) or self.holds(pod)

    def holds(self, pod: Pod) -> bool:
        """Whether another scheduler places the pod, after its approval: it has an application, and does not ask to be
        left alone (002, PreFilter). A pod with the gate of this front end is held in any case: nobody else removes it.
        """
        if pod.spec.scheduler_name not in self.placed_by:
            return False
        if is_gated(pod):
            return True
        is_ignored = pod.metadata.annotation(names.IGNORE_APPLICATION) == pod_reading.TRUE
        return not is_ignored and bool(pod_reading.applications_given(pod.metadata))

    def problem_of(self, pod: Pod) -> str:
        return "" if self.holds(pod) else ShimPolicy.problem_of(self, pod)

    def gates_of(self, pod: Pod) -> list[str]:
        return [name for name in ShimPolicy.gates_of(self, pod) if name != names.GATE]

    def pin_of(self, namespace: Namespace | None) -> Pin:
        """Another value of the annotation counts as absent."""
        said = namespace.metadata.annotation(names.PIN) if namespace is not None else ""
        return Pin(said) if said in tuple(Pin) else self.pin


def is_gated(pod: Pod) -> bool:
    """Whether the pod has the gate of this front end."""
    return any(gate.name == names.GATE for gate in pod.spec.scheduling_gates)


def hold_of(chosen: str, version: Mapping[str, str]) -> Hold:
    """`chosen`: gates, extender, or auto: by the version of the API server, as its page `/version` reports it."""
    if chosen == "auto":
        return Hold.GATES if minor_of(version) >= limits.GATES_SINCE else Hold.EXTENDER
    return Hold(chosen)


def pin_of(chosen: str, version: Mapping[str, str]) -> Pin:
    """`chosen`: hard, soft, free, or auto: the most forgiving one that the API server knows and that keeps nodes."""
    if chosen == "auto":
        return Pin.SOFT if minor_of(version) >= limits.NOMINATIONS_SINCE else Pin.HARD
    return Pin(chosen)


def minor_of(version: Mapping[str, str]) -> int:
    """The minor version of Kubernetes 1, by the page `/version`; 0 if it gives none. Vendors append a plus sign."""
    digits = version.get("minor", "").rstrip("+")
    return int(digits) if digits.isascii() and digits.isdigit() else 0
