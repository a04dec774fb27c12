"""Short ways to write the messages an RM sends (000, RM and scheduler updates). Pure.

Resources are keyword arguments in base units: `vcore` in thousandths of a core, `memory` in bytes, everything else in
the RM's own unit; names that are no Python names go into `resources={"nvidia.com/gpu": 1}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from remuda_proto.constants import NODE_PARTITION
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import limits

Amounts = Mapping[str, int]


def resource(resources: Amounts | None = None, **amounts: int) -> si.Resource:
    """A Resource of all the amounts."""
    made = si.Resource()
    fields = made.resources
    for name, value in amounts.items() if resources is None else {**resources, **amounts}.items():
        fields[name].value = value
    return made


def node(
    node_id: str,
    *,
    attributes: Mapping[str, str] | None = None,
    partition: str = "",
    existing: Iterable[si.Allocation] = (),
    occupied: Amounts | None = None,
    draining: bool = False,
    resources: Amounts | None = None,
    **amounts: int,
) -> si.NodeInfo:
    """A node with this capacity, to be reported (`report_nodes`) or updated (`update_nodes`). `existing`: what already
    runs there; `occupied`: what others use of it; `draining`: report it closed for new allocations."""
    made = si.NodeInfo(nodeID=node_id, attributes=attributes, existingAllocations=existing)
    if partition:
        made.attributes[NODE_PARTITION] = partition
    if draining:
        made.action = si.NodeInfo.CREATE_DRAIN
    if resources or amounts:
        made.schedulableResource.CopyFrom(resource(resources, **amounts))
    if occupied:
        made.occupiedResource.CopyFrom(resource(occupied))
    return made


def application(
    application_id: str,
    *,
    queue: str = "",
    user: str = "",
    groups: Iterable[str] = (),
    partition: str = "",
    tags: Mapping[str, str] | None = None,
    execution_timeout_ms: int = 0,
    placeholders: Amounts | None = None,
    gang_style: str = "",
) -> si.AddApplicationRequest:
    """An application to submit. `placeholders`: the sum of what the placeholders of its gang will ask for;
    `gang_style`: "Hard" or "Soft"."""
    return si.AddApplicationRequest(
        applicationID=application_id,
        queueName=queue,
        partitionName=partition,
        ugi=si.UserGroupInformation(user=user, groups=groups),
        tags=tags,
        executionTimeoutMilliSeconds=execution_timeout_ms,
        placeholderAsk=resource(placeholders) if placeholders else None,
        gangSchedulingStyle=gang_style,
    )


def ask(
    application_id: str,
    key: str,
    *,
    count: int = 1,
    priority: int = 0,
    partition: str = "",
    tags: Mapping[str, str] | None = None,
    timeout_ms: int = 0,
    task_group: str = "",
    placeholder: bool = False,
    originator: bool = False,
    preemption: si.PreemptionPolicy | None = None,
    resources: Amounts | None = None,
    **amounts: int,
) -> si.AllocationAsk:
    """An ask for `count` allocations of this size each. `timeout_ms`: how long an allocation may live, 0: for ever."""
    made = si.AllocationAsk(
        allocationKey=key,
        applicationID=application_id,
        partitionName=partition,
        resourceAsk=_size(tuple((amounts if resources is None else {**resources, **amounts}).items())),
        maxAllocations=count,
        priority=priority,
    )
    # Asks come by the ten thousand, and every argument costs: what is seldom said is only set where it is.
    if tags:
        made.tags.update(tags)
    if timeout_ms:
        made.executionTimeoutMilliSeconds = timeout_ms
    if task_group:
        made.taskGroupName = task_group
        made.placeholder = placeholder
    if originator:
        made.Originator = True
    if preemption is not None:
        made.preemptionPolicy.CopyFrom(preemption)
    return made


@lru_cache(maxsize=limits.REMEMBERED_SIZES)
def _size(amounts: tuple[tuple[str, int], ...]) -> si.Resource:
    """Shared by all asks of that size: protobuf copies it, so it must not be changed."""
    return resource(dict(amounts))


def release_of(allocation: si.Allocation, message: str = "") -> si.AllocationRelease:
    """This allocation has ended, or is to end."""
    return si.AllocationRelease(
        partitionName=allocation.partitionName,
        applicationID=allocation.applicationID,
        UUID=allocation.UUID,
        allocationKey=allocation.allocationKey,
        terminationType=si.STOPPED_BY_RM,
        message=message,
    )
