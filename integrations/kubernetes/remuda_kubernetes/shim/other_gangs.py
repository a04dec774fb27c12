"""Gangs that others define, read as gangs of task groups: PodGroups and Workloads of Kubernetes, PodGroups of the
scheduler plugins and of Volcano, pod groups of Kueue, LeaderWorkerSets and JobSets. Pure.

A pod names its group. The pod says how many members the group has, or an object does. Without task groups of its own
(`task_groups`), the pod belongs to an application that has the group's name, unless it names another one.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import JobSet, NodeAffinity, Pod, PodGroup, PodSpec, Workload
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.pod_reading import Group, GroupKey
from remuda_kubernetes.shim.quantities import PODS, Amounts, request_of
from remuda_kubernetes.shim.task_groups import TaskGroup
from remuda_proto.constants import CPU

GroupObject: TypeAlias = PodGroup | Workload | JobSet


class GroupObjects:
    """The objects that say how many members groups have. `served`: the kinds that the API server has; of another one no
    object will come."""

    def __init__(self) -> None:
        self.served: set[str] = set(names.GROUP_KINDS)
        self._known: dict[GroupKey, GroupObject] = {}

    def put(self, kind: str, one: GroupObject) -> GroupKey:
        key = kind, one.metadata.namespace, one.metadata.name
        self._known[key] = one
        return key

    def remove(self, kind: str, one: GroupObject) -> None:
        self._known.pop((kind, one.metadata.namespace, one.metadata.name), None)

    def queue_of(self, group: Group, namespace: str) -> str:
        """The queue that the object names."""
        found = self._known.get(group.key(namespace))
        return found.spec.queue if isinstance(found, PodGroup) else ""

    def timeout_ms_of(self, group: Group, namespace: str) -> int:
        """The time that the gang may take to come together, in ms; 0: the scheduler's own time."""
        found = self._known.get(group.key(namespace))
        seconds = found.spec.schedule_timeout_seconds if isinstance(found, PodGroup) else None
        return max(0, seconds or 0) * 1_000

    def task_groups(self, group: Group, pod: Pod) -> tuple[TaskGroup, ...] | None:
        """The task groups of the gang that the pod is of; none: it is no gang. None: the object is to come. Raises
        ValueError that names what is wrong."""
        if not group.kind:
            return _alike(group.task_group, _count(group), pod)
        if group.kind not in self.served:
            raise ValueError(f"group {group.name!r}: the API server has no {group.kind}, so it is no gang")
        found = self._known.get(group.key(pod.metadata.namespace))
        if found is None:
            return None
        if isinstance(found, JobSet):
            return _of_job_set(found)
        return _alike(group.task_group, _members(found, group), pod)


def _count(group: Group) -> int:
    if not group.members.isascii() or not group.members.isdigit() or len(group.members) > limits.QUANTITY_CHARACTERS:
        raise ValueError(f"group {group.name!r}: {group.members!r} members: expected a whole number")
    return int(group.members)


def _members(found: PodGroup | Workload, group: Group) -> int:
    """At most 1: its pods are placed one by one."""
    if isinstance(found, Workload):
        policies = [one.policy for one in found.spec.pod_groups if one.name == group.task_group]
        if not policies:
            raise ValueError(f"group {group.name!r}: Workload {group.object!r} has no pod group {group.task_group!r}")
        gang = policies[0].gang
        return 0 if gang is None else gang.min_count
    policy = found.spec.scheduling_policy
    if policy is not None:
        return 0 if policy.gang is None else policy.gang.min_count
    return found.spec.min_member


def _of_job_set(found: JobSet) -> tuple[TaskGroup, ...]:
    """One task group for each replicated job."""
    groups: list[TaskGroup] = []
    for job in found.spec.replicated_jobs:
        spec = job.template.spec
        pods = spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)
        if job.replicas * pods > 0:
            groups += _group(job.name, job.replicas * pods, Pod(metadata=found.metadata, spec=spec.template.spec))
    members = sum(one.min_member for one in groups)
    _check_members(found.metadata.name, members)
    return tuple(groups) if members > 1 else ()


def _alike(name: str, members: int, pod: Pod) -> tuple[TaskGroup, ...]:
    """One task group of members that are as large as the pod."""
    _check_members(name, members)
    return _group(name, members, pod) if members > 1 else ()


def _check_members(name: str, members: int) -> None:
    if members > limits.GANG_MEMBERS:
        raise ValueError(f"group {name!r}: {members} members: expected at most {limits.GANG_MEMBERS}")


def _group(name: str, members: int, pod: Pod) -> tuple[TaskGroup, ...]:
    spec = pod.spec
    return (
        TaskGroup(
            name=name,
            min_member=members,
            min_resource=_quantities(request_of(pod)),
            node_selector=dict(spec.node_selector or {}),
            tolerations=[msgspec.to_builtins(one) for one in spec.tolerations],
            affinity=_node_affinity(spec),
        ),
    )


def _node_affinity(spec: PodSpec) -> dict[str, Any] | None:
    """Affinity to pods goes by their labels, which placeholders have not."""
    required = spec.required_nodes
    return None if required is None else {"nodeAffinity": msgspec.to_builtins(NodeAffinity(required=required))}


def _quantities(size: Amounts) -> dict[str, str | int | float]:
    """The amounts as Kubernetes writes them; the number of pods is one in any case."""
    found: dict[str, str | int | float] = {"cpu": f"{size.get(CPU, 0)}m"}
    return found | {name: str(amount) for name, amount in size.items() if name not in (CPU, PODS)}
