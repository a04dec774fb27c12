"""Effects of the shim: messages to the scheduler, and calls of the Kubernetes API. Values, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from remuda_kubernetes.api.objects import Claim, Metadata, ResourceClaim, Volume
from remuda_kubernetes.shim.devices import Write
from remuda_proto.si.v1 import si_pb2 as si

# To the scheduler


@dataclass(frozen=True, slots=True)
class Submit:
    application: si.AddApplicationRequest


@dataclass(frozen=True, slots=True)
class Withdraw:
    """An application that has no pods."""

    application_id: str


@dataclass(frozen=True, slots=True)
class Ask:
    ask: si.AllocationAsk


@dataclass(frozen=True, slots=True)
class Release:
    """Release an allocation or an ask: a pod has gone, or a release that the scheduler has requested is confirmed."""

    release: si.AllocationRelease | si.AllocationAskRelease


@dataclass(frozen=True, slots=True)
class ReportAllocation:
    """A pod that another process has bound."""

    allocation: si.Allocation


@dataclass(frozen=True, slots=True)
class ReportNode:
    node: si.NodeInfo


Message = Submit | Withdraw | Ask | Release | ReportAllocation | ReportNode


# To the API server


@dataclass(frozen=True, slots=True)
class PodName:
    namespace: str
    name: str
    uid: str

    @property
    def path(self) -> str:
        """The pod's path in the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a pod. `claims`: what is written into its claims of devices before."""

    pod: PodName
    node: str
    claims: tuple[Write, ...] = ()


@dataclass(frozen=True, slots=True)
class BindVolumes:
    """Have the claims of a pod bound for a node. `reserved`: free volume -> the claim that gets it. `selected`: claims
    whose volume a provisioner makes, or that have one already."""

    pod: PodName
    node: str
    reserved: tuple[tuple[Volume, Claim], ...]
    selected: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Take back what was written into these claims of devices for a pod, unless it is bound."""

    pod: PodName
    claims: tuple[ResourceClaim, ...]


@dataclass(frozen=True, slots=True)
class DeletePod:
    pod: PodName


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a pod, unless a disruption budget forbids it."""

    pod: PodName


@dataclass(frozen=True, slots=True)
class FailPod:
    """Set the phase of a waiting pod to Failed."""

    pod: PodName
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CreatePlaceholder:
    application: str
    manifest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SetCondition:
    """PodScheduled=False of a waiting pod."""

    pod: PodName
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Record an event on an object. `kind`: the kind of the object: Pod, Node or Namespace."""

    kind: str
    of: PodName
    reason: str
    action: str
    note: str
    is_warning: bool = False


Call = Bind | BindVolumes | GiveBack | DeletePod | Evict | FailPod | CreatePlaceholder | SetCondition | RecordEvent
Effect = Message | Call


def name_of(metadata: Metadata) -> PodName:
    return PodName(metadata.namespace, metadata.name, metadata.uid)
