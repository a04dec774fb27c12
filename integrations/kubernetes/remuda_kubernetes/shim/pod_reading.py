"""Reads a pod for the scheduler: application, queue, user, task group, required node and preemption. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Metadata, Pod, PriorityClass
from remuda_kubernetes.shim import go_json, names

TRUE: Final = "true"
# The kubelet starts a pod within so many seconds after it was bound, or the bound ends the pod before its deadline.
STARTS_WITHIN_S: Final = 300
# Longer numbers of seconds are no times.
SECONDS_DIGITS: Final = 12


class _UserInfo(msgspec.Struct):
    user: str = ""
    groups: tuple[str, ...] = ()


_USER_INFO: Final = go_json.names_of(_UserInfo)


@dataclass(frozen=True, slots=True)
class Application:
    """The application that a pod names. `name`: as the pod gives it. `ignored`: other values that it gives, in places
    that count less."""

    namespace: str
    name: str
    queue: str
    ignored: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The ID on the scheduler's side. A pod cannot name the application of another namespace: no namespace has a
        dot in its name."""
        return f"{self.namespace}.{self.name}"


def is_managed(pod: Pod, scheduler_names: Collection[str]) -> bool:
    """Whether this front end schedules the pod."""
    return pod.spec.scheduler_name in scheduler_names


def applications_given(metadata: Metadata) -> list[str]:
    """The application IDs that the labels and annotations give; the first counts."""
    values = (
        metadata.label(names.APPLICATION),
        metadata.annotation(names.APPLICATION),
        *(metadata.label(key) for key in names.APPLICATION_LABELS),
    )
    return [value for value in values if value]


def names_application(pod: Pod) -> bool:
    """Whether the pod names an application, or a group of others, which is one."""
    return bool(applications_given(pod.metadata)) or group_of(pod) is not None


def application_of(pod: Pod, *, unique: bool = False) -> Application:
    """The application of a pod. `unique`: a pod that names no application gets an application of its own, not the
    application of its namespace."""
    metadata = pod.metadata
    given = applications_given(metadata)
    queue = metadata.label(names.QUEUE) or metadata.annotation(names.QUEUE) or metadata.label(names.QUEUE_LABEL)
    group = group_of(pod)
    if group is not None:
        queue = queue or group.queue
        given = given or [group.name[: limits.APPLICATION_ID_CHARACTERS]]
    if not given:
        own = pod.uid if unique else ""
        return Application(metadata.namespace, generated_application(metadata.namespace, own), queue)
    chosen = given[0]
    if chosen.endswith(names.UNIQUE_SUFFIX):
        chosen = f"{chosen.removesuffix(names.UNIQUE_SUFFIX)}-{pod.uid}"[: limits.APPLICATION_ID_CHARACTERS]
    ignored = tuple(dict.fromkeys(one for one in given[1:] if one != given[0]))
    return Application(metadata.namespace, chosen, queue, ignored)


def generated_application(namespace: str, own: str) -> str:
    """The application of a pod that names none. `own`: the part that makes the application the pod's own; empty: the
    application of the namespace."""
    made = f"{namespace[:26]}-{own}" if own else f"yunikorn-{namespace}-autogen"
    return made[: limits.APPLICATION_ID_CHARACTERS].rstrip("-")  # a label ends in a letter or a digit


def user_of(pod: Pod) -> tuple[str, tuple[str, ...]]:
    """User and groups; `nobody` when the pod says nothing that is understood."""
    text = pod.metadata.annotation(names.USER_INFO)
    if text:
        try:
            info = go_json.decode(text, _UserInfo, _USER_INFO)
        except (msgspec.MsgspecError, RecursionError):
            return names.NOBODY, ()
        if info.user:
            return info.user, info.groups
    return names.NOBODY, ()


@dataclass(frozen=True, slots=True)
class Group:
    """The group that a pod names. `name`: that of its application. `task_group`: which of the gang's. `members`: of a
    group whose size the pod says, as text. `kind`, `object`: the object that says it, else empty. `queue`: that the pod
    names for it."""

    name: str
    task_group: str
    members: str = ""
    kind: str = ""
    object: str = ""
    queue: str = ""

    def key(self, namespace: str) -> GroupKey:
        return self.kind, namespace, self.object


GroupKey: TypeAlias = tuple[str, str, str]


def names_group(labels: dict[str, str], annotations: dict[str, str], spec: dict[str, Any]) -> bool:
    """Whether a pod, as JSON, names a group of others."""
    return (
        any(labels.get(key) for key in names.GROUP_LABELS)
        or bool(annotations.get(names.VOLCANO_GROUP))
        or bool(spec.get("schedulingGroup") or spec.get("workloadRef"))
    )


def group_of(pod: Pod) -> Group | None:
    """The group of others that a pod names; None: it names none, or has task groups of this family."""
    metadata, spec = pod.metadata, pod.spec
    if metadata.annotation(names.TASK_GROUP) or metadata.annotation(names.TASK_GROUPS):
        return None
    if spec.scheduling_group is not None and (name := spec.scheduling_group.pod_group_name):
        return Group(name, name, kind=names.NATIVE_PODGROUPS, object=name)
    if (ref := spec.workload_ref) is not None and ref.name:
        name = "-".join(filter(None, (ref.name, ref.pod_group, ref.pod_group_replica_key)))
        return Group(name, ref.pod_group, kind=names.NATIVE_WORKLOADS, object=ref.name)
    if not metadata.labels and not metadata.annotations:
        return None
    label, annotation = metadata.label, metadata.annotation
    if name := label(names.PLUGIN_GROUP) or label(names.PLUGIN_GROUP_OLDER):
        return Group(name, name, kind=names.PLUGIN_PODGROUPS, object=name)
    if name := label(names.PLUGIN_GROUP_OLDEST):
        return Group(name, name, label(names.PLUGIN_GROUP_OLDEST_SIZE))
    if name := annotation(names.VOLCANO_GROUP):
        queue = annotation(names.VOLCANO_QUEUE) or label(names.VOLCANO_QUEUE)
        return Group(name, name, kind=names.VOLCANO_PODGROUPS, object=name, queue=queue)
    queue = label(names.KUEUE_QUEUE)
    if name := label(names.KUEUE_GROUP):
        return Group(name, name, annotation(names.KUEUE_GROUP_SIZE), queue=queue)
    if name := label(names.LEADER_WORKER_SET):
        name = "-".join(filter(None, (name, label(names.LEADER_WORKER_GROUP))))
        return Group(name, name, annotation(names.LEADER_WORKER_SIZE), queue=queue)
    if name := label(names.JOB_SET):
        return Group(name, label(names.JOB_SET_JOB), kind=names.JOB_SETS, object=name, queue=queue)
    return None


def is_placeholder(pod: Pod) -> bool:
    metadata = pod.metadata
    return TRUE in (metadata.annotation(names.PLACEHOLDER), metadata.annotation(names.PLACEHOLDER_LEGACY))


def task_group_of(pod: Pod) -> str:
    if annotation := pod.metadata.annotation(names.TASK_GROUP):
        return annotation
    group = group_of(pod)
    return "" if group is None else group.task_group


def is_owned_by(pod: Pod, kind: str) -> bool:
    return any(owner.kind == kind for owner in pod.metadata.owner_references)


def run_times_of(pod: Pod) -> dict[str, str]:
    """The tags of the annotations about the run time, as they are: the scheduler says what it cannot read."""
    found = ((tag, pod.metadata.annotation(name)) for name, tag in names.RUN_TIMES.items())
    return {tag: value for tag, value in found if value}


def bound_ms_of(pod: Pod) -> int:
    """The longest time that the pod runs, by its `activeDeadlineSeconds` and by Kueue's label, in ms; 0: neither is
    set. The kubelet counts a deadline from when it has seen the pod, so it gets STARTS_WITHIN_S more: what the deadline
    ends, no time-out of the scheduler ends before."""
    found = []
    deadline_s = pod.spec.active_deadline_seconds
    if deadline_s is not None and deadline_s > 0:
        found.append(deadline_s + STARTS_WITHIN_S)
    label = pod.metadata.label(names.KUEUE_MAX_RUNTIME)
    if label.isascii() and label.isdigit() and len(label) < SECONDS_DIGITS and int(label) > 0:
        found.append(int(label))
    return 1_000 * min(found, default=0)


def required_node_of(pod: Pod) -> str:
    """The node of a pod of a DaemonSet; empty: none."""
    required = pod.spec.required_nodes if is_owned_by(pod, "DaemonSet") else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def may_be_preempted(pod: Pod, priority_class: PriorityClass | None) -> bool:
    """Whether the pod may be preempted: as its annotation says, else the annotation of its priority class, else yes."""
    said = pod.metadata.annotation(names.ALLOW_PREEMPTION)
    if not said and priority_class is not None:
        said = priority_class.metadata.annotation(names.ALLOW_PREEMPTION)
    return said.lower() != "false"


def may_preempt(pod: Pod) -> bool:
    return pod.spec.preemption_policy != "Never"
