"""Messages of si.v1 about pods, applications and nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Node, Pod
from remuda_kubernetes.shim import names, pod_reading
from remuda_kubernetes.shim.cache import ApplicationEntry, Cache, PodEntry
from remuda_kubernetes.shim.devices import Booked
from remuda_kubernetes.shim.task_groups import placeholder_sum
from remuda_kubernetes.shim.topology import tags_of as topology_tags_of
from remuda_proto import bounds, constants
from remuda_proto.durations import milliseconds
from remuda_proto.si.v1 import si_pb2 as si

META: Final = constants.DOMAIN_K8S + constants.GROUP_META
LABEL: Final = constants.DOMAIN_K8S + constants.GROUP_LABEL


def resource(amounts: Mapping[str, int]) -> si.Resource:
    return si.Resource(resources={name: si.Quantity(value=value) for name, value in amounts.items()})


def amounts(of: si.Resource) -> dict[str, int]:
    return {name: quantity.value for name, quantity in of.resources.items()}


def application(cache: Cache, entry: ApplicationEntry) -> si.AddApplicationRequest:
    originator = cache.pods[entry.originator].pod
    user, groups = pod_reading.user_of(originator)
    tags = {names.TAG_NAMESPACE: entry.namespace, constants.CREATION_TIME: _created(originator)}
    tags |= cache.quota_tags.get(entry.namespace, {})
    secrets = ",".join(secret.name for secret in originator.spec.image_pull_secrets)
    if secrets:
        tags[names.TAG_PULL_SECRETS] = secrets[: limits.PULL_SECRETS_CHARACTERS]
    if originator.metadata.label(names.DISABLE_STATE_AWARE).lower() == pod_reading.TRUE:
        tags[constants.APP_TAG_STATE_AWARE_DISABLE] = pod_reading.TRUE
    if entry.is_forced:
        tags[constants.APP_TAG_CREATE_FORCE] = "true"
    for key in (names.TAG_TASK_GROUPS, names.TAG_POLICY_PARAMETERS):
        if originator.metadata.annotation(key):
            tags[key] = originator.metadata.annotation(key)
    request = si.AddApplicationRequest(
        applicationID=entry.id,
        queueName=entry.queue,
        ugi=si.UserGroupInformation(user=user, groups=groups),
        tags=tags,
    )
    if entry.groups and entry.policy is not None:
        request.placeholderAsk.CopyFrom(resource(placeholder_sum(entry.groups)))
        request.executionTimeoutMilliSeconds = entry.policy.timeout_ms
        request.gangSchedulingStyle = entry.policy.style
    return request


def quota_carrier(cache: Cache, like: ApplicationEntry, application_id: str) -> si.AddApplicationRequest:
    """An application that is placed where `like` is, with the present tags of the namespace. It has no gang."""
    request = application(cache, like)
    request.applicationID = application_id
    for field in ("placeholderAsk", "executionTimeoutMilliSeconds", "gangSchedulingStyle"):
        request.ClearField(field)
    for tag in (names.TAG_TASK_GROUPS, names.TAG_POLICY_PARAMETERS, constants.APP_TAG_CREATE_FORCE):
        request.tags.pop(tag, None)
    return request


def ask(cache: Cache, entry: PodEntry, predicate_class: str = "") -> si.AllocationAsk:
    pod = entry.pod
    group = pod_reading.task_group_of(pod)
    originator = cache.applications[entry.application].originator
    return si.AllocationAsk(
        allocationKey=pod.uid,
        applicationID=entry.application,
        resourceAsk=resource(entry.size),
        maxAllocations=1,
        priority=pod.spec.priority or 0,
        tags=_tags(pod, predicate_class, topology=cache.policy.topology),
        taskGroupName=group,
        placeholder=bool(group) and entry.is_placeholder,
        executionTimeoutMilliSeconds=0 if entry.is_placeholder else pod_reading.bound_ms_of(pod),
        Originator=originator == pod.uid,
        preemptionPolicy=si.PreemptionPolicy(
            allowPreemptSelf=pod_reading.may_be_preempted(
                pod, cache.priority_classes.get(pod.spec.priority_class_name)
            ),
            allowPreemptOther=pod_reading.may_preempt(pod),
        ),
    )


def _tags(pod: Pod, predicate_class: str = "", *, topology: bool = False, bound_ms: int = 0) -> dict[str, str]:
    """Labels above the bound of tags are left out: the pod is accounted for in any case. `bound_ms`: of an allocation,
    which has no field for it as an ask has; 0: none."""
    metadata = pod.metadata
    tags = {
        META + constants.KEY_NAMESPACE: metadata.namespace,
        META + constants.KEY_POD_NAME: metadata.name,
        constants.CREATION_TIME: _created(pod),
    }
    node = pod_reading.required_node_of(pod)
    if node:
        tags[constants.REQUIRED_NODE] = node
    if predicate_class:
        tags[names.TAG_PREDICATE_CLASS] = predicate_class
    if topology:
        tags |= topology_tags_of(pod, pod_reading.task_group_of(pod))
    tags |= pod_reading.run_times_of(pod)
    if bound_ms:
        by_tag_ms = milliseconds(tags.get(constants.MAX_RUNTIME, "")) or bound_ms
        tags[constants.MAX_RUNTIME] = f"{min(bound_ms, by_tag_ms)}ms"
    room = bounds.TAGS.total - sum(len(key) + len(value) for key, value in tags.items())
    for key, value in (metadata.labels or {}).items():  # keys and values are ASCII
        room -= len(LABEL) + len(key) + len(value)
        if room < 0 or len(tags) >= bounds.TAGS.most:
            break
        tags[f"{LABEL}{key}"] = value
    return tags


def _created(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""


def allocation(cache: Cache, entry: PodEntry) -> si.Allocation:
    """The allocation of a bound pod. Its UUID is the pod's UID."""
    pod = entry.pod
    group = pod_reading.task_group_of(pod)
    return si.Allocation(
        allocationKey=pod.uid,
        allocationTags=_tags(pod, topology=cache.policy.topology, bound_ms=pod_reading.bound_ms_of(pod))
        | {constants.DEVICES_TAG + resource: ",".join(names) for resource, names in entry.devices.items()},
        UUID=entry.uuid,
        resourcePerAlloc=resource(entry.size),
        priority=pod.spec.priority or 0,
        nodeID=entry.node,
        applicationID=entry.application,
        taskGroupName=group,
        placeholder=bool(group) and entry.is_placeholder,
    )


def devices(cache: Cache, tags: Mapping[str, str]) -> Booked:
    """The names of the devices of an allocation that are of a class of the settings, by resource."""
    resources = cache.devices.resources.values()
    return {one: tuple(names.split(",")) for one in resources if (names := tags.get(constants.DEVICES_TAG + one))}


def release(entry: PodEntry, why: str) -> si.AllocationRelease | si.AllocationAskRelease:
    """The release of a pod's allocation, or of its ask where it has no allocation."""
    if entry.uuid:
        return si.AllocationRelease(
            applicationID=entry.application,
            UUID=entry.uuid,
            allocationKey=entry.pod.uid,
            terminationType=si.STOPPED_BY_RM,
            message=why,
        )
    return si.AllocationAskRelease(
        applicationID=entry.application, allocationKey=entry.pod.uid, terminationType=si.STOPPED_BY_RM, message=why
    )


def release_of(allocation: si.Allocation, why: str) -> si.AllocationRelease:
    """The release of an allocation that no pod takes."""
    return si.AllocationRelease(
        applicationID=allocation.applicationID,
        UUID=allocation.UUID,
        allocationKey=allocation.allocationKey,
        terminationType=si.STOPPED_BY_RM,
        message=why,
    )


def node(
    of: Node,
    action: si.NodeInfo.ActionFromRM.ValueType,
    capacity: Mapping[str, int] | None = None,
    occupied: Mapping[str, int] | None = None,
    *,
    ready: bool | None = None,
    selected_by: str = "",
    attributes: Mapping[str, str] | None = None,
    existing: Iterable[si.Allocation] = (),
) -> si.NodeInfo:
    """A report of a node. None leaves a field out. `selected_by`: changes when verdicts about the node are void.
    `attributes`: those of its labels."""
    info = si.NodeInfo(nodeID=of.metadata.name, action=action, existingAllocations=existing)
    if capacity is not None:
        info.schedulableResource.CopyFrom(resource(capacity))
    if occupied is not None:
        info.occupiedResource.CopyFrom(resource(occupied))
    if ready is not None:
        info.attributes[constants.NODE_READY_ATTRIBUTE] = "true" if ready else "false"
    if selected_by:
        info.attributes[names.ATTRIBUTE_PREDICATES] = selected_by
    if action in (si.NodeInfo.CREATE, si.NodeInfo.CREATE_DRAIN):
        info.attributes[constants.HOST_NAME] = of.metadata.name
    info.attributes.update(attributes or {})
    return info
