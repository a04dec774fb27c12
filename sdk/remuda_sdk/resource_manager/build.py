"""Builders of the messages that an RM sends (000, RM and scheduler updates). Pure.

Amounts of resources are keyword arguments. A whole number is in base units: `vcore` in thousandths of a core, `memory`
in bytes, any other resource in the RM's own unit (`gpu=2`). A text is a quantity as in queues.yaml: `vcore="2"` is two
cores, `memory="1Gi"`. A fraction of `vcore` is in cores: `0.5`. Names that are no Python identifiers go into
`resources={"nvidia.com/gpu": 1}`.

A builder raises ValueError for a value that it cannot take, with the name of the argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from remuda_proto.bounds import INT32, INT64
from remuda_proto.constants import (
    DEVICES_COUNT,
    DEVICES_TAG,
    DEVICES_UNFIT,
    GANG_STYLE_HARD,
    GANG_STYLE_SOFT,
    NODE_PARTITION,
    TOPOLOGY_GROUP,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_SIZE,
    TOPOLOGY_SLICE,
    TOPOLOGY_SPREAD,
)
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager import arguments
from remuda_sdk.resource_manager.arguments import Amount, Amounts

# Kinds of asks that are remembered: an RM seldom uses more than some dozens.
REMEMBERED_KINDS = 4_096


def resource(resources: Amounts | None = None, **amounts: Amount) -> si.Resource:
    """A Resource with these amounts, of `resources` and of keyword arguments. Each is named once."""
    return _resource(arguments.amounts("resources", resources, amounts))


def _resource(amounts: Mapping[str, int]) -> si.Resource:
    made = si.Resource()
    fields = made.resources
    for name, value in amounts.items():
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
    **amounts: Amount,
) -> si.NodeInfo:
    """A node with this capacity, for `report_nodes` or `update_nodes`.

    `attributes`: labels of the node. `partition`: its partition (default: `default`). `existing`: the allocations that
    already run on it. `occupied`: amounts that are used outside of the scheduler. `draining`: report the node closed
    for new allocations."""
    made = si.NodeInfo(
        nodeID=arguments.identifier("node_id", node_id),
        attributes=arguments.text_map("attributes", attributes),
        existingAllocations=arguments.messages("existing", existing, si.Allocation),
    )
    if partition:
        made.attributes[NODE_PARTITION] = arguments.text("partition", partition)
    if arguments.flag("draining", draining):
        made.action = si.NodeInfo.CREATE_DRAIN
    if resources or amounts:
        made.schedulableResource.CopyFrom(resource(resources, **amounts))
    if occupied:
        made.occupiedResource.CopyFrom(_resource(arguments.amounts("occupied", occupied)))
    return made


STYLES = ("", GANG_STYLE_SOFT, GANG_STYLE_HARD)


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
    `gang_style`: "Hard" fails the application when its gang does not come together in time, "Soft" (default) continues
    without the gang."""
    return si.AddApplicationRequest(
        applicationID=arguments.identifier("application_id", application_id),
        queueName=arguments.text("queue", queue),
        partitionName=arguments.text("partition", partition),
        ugi=si.UserGroupInformation(user=arguments.text("user", user), groups=arguments.texts("groups", groups)),
        tags=arguments.text_map("tags", tags),
        executionTimeoutMilliSeconds=arguments.whole("execution_timeout_ms", execution_timeout_ms, 0, INT64[1]),
        placeholderAsk=_resource(arguments.amounts("placeholders", placeholders)) if placeholders else None,
        gangSchedulingStyle=arguments.one_of("gang_style", gang_style, STYLES),
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
    **amounts: Amount,
) -> si.AllocationAsk:
    """An ask for `count` allocations of these amounts each, for `ResourceManager.ask`.

    `key`: the allocation key, unique in the application. `priority`: higher is scheduled first. `timeout_ms`: how long
    an allocation may run (0: without limit). `task_group`, `placeholder`: the ask's part in a gang. `originator`: the
    ask is that of the application's own driver. `preemption`: whether the ask may preempt, and be preempted."""
    # An RM creates asks by the ten thousand: copying an ask takes half of the time of the constructor, rare fields are
    # set separately, and protobuf checks the types. Only where it refuses one, each argument is looked at.
    size = tuple(arguments.amounts("resources", resources, amounts).items())
    made = si.AllocationAsk()
    try:
        if not (application_id and key and count > 0):
            raise ValueError
        made.CopyFrom(_like(size, count, priority, partition))
        made.applicationID, made.allocationKey = application_id, key
    except (TypeError, ValueError):
        _check_ask(application_id, key, count, priority, partition)
        raise
    if tags:
        made.tags.update(arguments.text_map("tags", tags))
    if timeout_ms:
        made.executionTimeoutMilliSeconds = arguments.whole("timeout_ms", timeout_ms, 0, INT64[1])
    if task_group:
        made.taskGroupName = arguments.text("task_group", task_group)
    if placeholder:
        made.placeholder = arguments.flag("placeholder", placeholder)
        if not task_group:
            arguments.wrong("placeholder", placeholder, "a task_group with it")
    if originator:
        made.Originator = arguments.flag("originator", originator)
    if preemption is not None:
        if not isinstance(preemption, si.PreemptionPolicy):
            arguments.wrong("preemption", preemption, "a PreemptionPolicy")
        made.preemptionPolicy.CopyFrom(preemption)
    return made


def together(
    *, required: str = "", preferred: str = "", spread: str = "", slices: tuple[str, int] | None = None,
    group: str = "", size: int = 0,
) -> dict[str, str]:  # fmt: skip
    """Tags of asks that are a group of the topology (docs/placement.md); `required` and `preferred` also of an
    application. `required`, `preferred`, `spread`: levels. `slices`: the level of slices and how many members each has.
    `group`: which asks are the group (empty: the task group, else the ask with its repeats). `size`: how many members
    have to fit before the first starts (0: all that are pending)."""
    level, members = slices if slices is not None else ("", 0)
    texts = {
        TOPOLOGY_REQUIRED: arguments.text("required", required),
        TOPOLOGY_PREFERRED: arguments.text("preferred", preferred),
        TOPOLOGY_SPREAD: arguments.text("spread", spread),
        TOPOLOGY_SLICE: f"{arguments.identifier('slices', level)}/{arguments.whole('slices', members, 1, INT32[1])}"
        if slices is not None
        else "",
        TOPOLOGY_GROUP: arguments.text("group", group),
        TOPOLOGY_SIZE: str(size) if arguments.whole("size", size, 0, INT32[1]) else "",
    }
    return {tag: text for tag, text in texts.items() if text}


def on_devices(resource: str, count: int) -> dict[str, str]:
    """Tags of an ask whose amount of the resource is in so many equal shares, on different devices."""
    name = arguments.identifier("resource", resource)
    return {f"{DEVICES_TAG}{name}{DEVICES_COUNT}": str(arguments.whole("count", count, 1, INT32[1]))}


def with_devices(resource: str, names: Iterable[str], unfit: Iterable[str] = ()) -> dict[str, str]:
    """Attributes of a node: the names of its devices, in their order, and of those that take nothing new."""
    key = DEVICES_TAG + arguments.identifier("resource", resource)
    named, ill = arguments.texts("names", names), arguments.texts("unfit", unfit)
    return {key: ",".join(named), key + DEVICES_UNFIT: ",".join(ill)}


def devices_of(allocation: si.Allocation, resource: str) -> tuple[str, ...]:
    """The names of the devices that an allocation has; empty: none."""
    names = allocation.allocationTags.get(DEVICES_TAG + resource, "")
    return tuple(names.split(",")) if names else ()


def _check_ask(application_id: object, key: object, count: object, priority: object, partition: object) -> None:
    """Raises ValueError for the first of them that is wrong."""
    arguments.identifier("application_id", application_id)
    arguments.identifier("key", key)
    arguments.whole("count", count, 1, INT32[1])
    arguments.whole("priority", priority, *INT32)
    arguments.text("partition", partition)


@lru_cache(maxsize=REMEMBERED_KINDS, typed=True)
def _like(amounts: tuple[tuple[str, int], ...], count: int, priority: int, partition: str) -> si.AllocationAsk:
    """One ask for all that are the same but for their names. It is copied; it must not be changed."""
    return si.AllocationAsk(
        partitionName=partition, resourceAsk=_resource(dict(amounts)), maxAllocations=count, priority=priority
    )


def release_of(allocation: si.Allocation, message: str = "") -> si.AllocationRelease:
    """The release of an allocation that has ended, or is to end."""
    if not isinstance(allocation, si.Allocation):
        arguments.wrong("allocation", allocation, "an Allocation")
    return si.AllocationRelease(
        partitionName=allocation.partitionName,
        applicationID=allocation.applicationID,
        UUID=allocation.UUID,
        allocationKey=allocation.allocationKey,
        terminationType=si.STOPPED_BY_RM,
        message=arguments.text("message", message),
    )
