"""Builders of the messages that an RM sends (000, RM and scheduler updates). Pure.

Amounts of resources are keyword arguments in base units: `vcore` in thousandths of a core, `memory` in bytes, any other
resource in the RM's own unit. Names that are no Python identifiers go into `resources={"nvidia.com/gpu": 1}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from remuda_bus.resource_manager import limits
from remuda_proto.constants import NODE_PARTITION
from remuda_proto.si.v1 import si_pb2 as si

Amounts = Mapping[str, int]


def resource(resources: Amounts | None = None, **amounts: int) -> si.Resource:
    """A Resource with these amounts. `resources` and keyword arguments are merged."""
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
    """A node with this capacity, for `report_nodes` or `update_nodes`.

    `attributes`: labels of the node. `partition`: its partition (default: `default`). `existing`: the allocations that
    already run on it. `occupied`: amounts that are used outside of the scheduler. `draining`: report the node closed
    for new allocations."""
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
    """An application, for `submit`.

    `queue`: the full name of its queue (empty: the placement rules choose). `user`, `groups`: the submitting user.
    `execution_timeout_ms`: how long it may be Running (0: without limit); with `placeholders`, how long its gang may
    take to come together (0: 15 minutes). `placeholders`: the sum of the amounts that the placeholders will ask for.
    `gang_style`: "Hard" fails the application when its gang does not come together in time, any other continues without
    the gang."""
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
    """An ask for `count` allocations of these amounts each, for `ResourceManager.ask`.

    `key`: the allocation key, unique in the application. `priority`: higher is scheduled first. `timeout_ms`: how long
    an allocation may run (0: without limit). `task_group`, `placeholder`: the ask's part in a gang. `originator`: the
    ask is that of the application's own driver. `preemption`: whether the ask may preempt, and be preempted."""
    made = si.AllocationAsk(
        allocationKey=key,
        applicationID=application_id,
        partitionName=partition,
        resourceAsk=_size(tuple((amounts if resources is None else {**resources, **amounts}).items())),
        maxAllocations=count,
        priority=priority,
    )
    # An RM creates asks by the ten thousand, and every constructor argument costs time: rare fields are set separately.
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
    """One Resource for all asks of these amounts. protobuf copies it into each ask; it must not be changed."""
    return resource(dict(amounts))


def release_of(allocation: si.Allocation, message: str = "") -> si.AllocationRelease:
    """The release of an allocation that has ended, or is to end."""
    return si.AllocationRelease(
        partitionName=allocation.partitionName,
        applicationID=allocation.applicationID,
        UUID=allocation.UUID,
        allocationKey=allocation.allocationKey,
        terminationType=si.STOPPED_BY_RM,
        message=message,
    )
