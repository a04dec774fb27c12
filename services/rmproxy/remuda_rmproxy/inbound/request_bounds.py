"""Enforces the bounds of `remuda_proto.bounds` on parsed messages of si.v1. Pure.

A registration or configuration update above a bound is refused as a whole. Of other requests, each item above a bound
is refused by itself: its names stay in the request, and the command says why, so that the core rejects it at its place.
A small message cannot exceed any bound, so for nearly all items only the size is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from google.protobuf.descriptor import Descriptor

from remuda_proto import bounds
from remuda_proto.bounds import Items, Nested, Text, TextMap, Texts
from remuda_proto.constants import FOREIGN_TAG, NODE_PARTITION
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si

# Why items are refused: with 0 the item itself, with its position from 1 an allocation that is reported with a node.
Reasons = Iterator[tuple[int, str]]
# Of an application that is refused: a core of an earlier version, which does not know `Command.refused`, refuses it for
# this style, which is longer than a style may be.
REFUSED_STYLE: Final = "refused by rmproxy, because something else of it is above its bound"


def violations(message: Any) -> Iterator[str]:
    """Yields a reason for each field of a registration or configuration update that is above its bound."""
    for name, bound in bounds.of_message(message.DESCRIPTOR.name):
        value = getattr(message, name)
        problem = None
        if isinstance(bound, Text):
            problem = bounds.too_long(name, value, bound.most)
        elif isinstance(bound, TextMap):
            problem = bounds.problem_of_map(name, value, bound)
        if problem:
            yield problem


def refused_items(name: str, items: Any) -> Iterator[inbox_pb2.RefusedItem]:
    """Yields why items of the list `name` of a request are refused, and reduces these to their names. Names and free
    texts of all items are cut."""
    if not len(items):
        return
    refuse, safe_bytes = REFUSE_BY_TYPE[items[0].DESCRIPTOR.name]
    for position, item in enumerate(items):
        if item.ByteSize() > safe_bytes:
            item.DiscardUnknownFields()
            for existing, reason in refuse(item):
                yield inbox_pb2.RefusedItem(list=name, position=position, existing=existing, reason=reason)


def _refuse_application(new: si.AddApplicationRequest) -> Reasons:
    ugi = new.ugi
    problem = bounds.problem_of_application(
        new.applicationID, new.queueName, ugi.user, ugi.groups, new.tags, new.gangSchedulingStyle
    ) or _problem_of_resource("placeholderAsk", new.placeholderAsk)
    if problem:
        groups = () if bounds.problem_of_texts("groups", ugi.groups, bounds.GROUPS) else tuple(ugi.groups)
        user = si.UserGroupInformation(user=ugi.user, groups=groups)
        _keep(new, "applicationID", "queueName", "partitionName")
        new.ugi.CopyFrom(user)
        yield 0, problem
    _cut(new)
    _cut(new.ugi)
    if problem:
        new.gangSchedulingStyle = REFUSED_STYLE


def _refuse_ask(ask: si.AllocationAsk) -> Reasons:
    problem = bounds.problem_of_ask(ask.allocationKey, ask.applicationID, ask.taskGroupName, ask.tags)
    if problem := problem or _problem_of_resource("resourceAsk", ask.resourceAsk):
        _keep(ask, "allocationKey", "applicationID", "partitionName")
        yield 0, problem
    _cut(ask)


def _refuse_allocation(allocation: si.Allocation) -> Reasons:
    """An allocation without a node is an ask. Of others, all that is within its bounds stays: they occupy their nodes,
    whoever has made them."""
    if allocation.nodeID:
        problem = _reduce_reported(allocation)
    else:
        key, application, tags = allocation.allocationKey, allocation.applicationID, allocation.allocationTags
        problem = bounds.problem_of_ask(key, application, allocation.taskGroupName, tags)
        if problem := problem or _problem_of_resource("resourceAsk", allocation.resourcePerAlloc):
            _keep(allocation, "allocationKey", "applicationID", "partitionName")
    if problem:
        yield 0, problem
    _cut(allocation)


def _refuse_node(node: si.NodeInfo) -> Reasons:
    """The allocations of a node that is refused are not looked at. Without an action, a core of an earlier version
    refuses the node, too."""
    problem = bounds.problem_of_node(node.nodeID, node.attributes)
    problem = problem or _problem_of_resource("schedulableResource", node.schedulableResource)
    problem = problem or _problem_of_resource("occupiedResource", node.occupiedResource)
    if problem:
        partition = node.attributes.get(NODE_PARTITION, "")
        _keep(node, "nodeID")
        node.attributes[NODE_PARTITION] = _just_above(partition, bounds.ID_BYTES)
        yield 0, problem
    del node.existingAllocations[bounds.EXISTING_ALLOCATIONS + 1 :]  # the core refuses so many, if it takes the node
    for number, allocation in enumerate(node.existingAllocations, 1):
        if problem := _reduce_reported(allocation):
            yield number, problem
        _cut(allocation)
    _cut(node)


def _reduce_reported(allocation: si.Allocation) -> str | None:
    """Why a reported allocation is refused, without what is above its bounds. An allocation without a UUID has that of
    its key."""
    uuid, tags = allocation.UUID or allocation.allocationID or allocation.allocationKey, allocation.allocationTags
    problem = bounds.problem_of_allocation(uuid, allocation.allocationKey, allocation.taskGroupName, tags)
    problem = problem or _problem_of_resource("resourcePerAlloc", allocation.resourcePerAlloc)
    if problem:
        if bounds.problem_of_map("allocationTags", tags, bounds.TAGS):
            foreign = tags.get(FOREIGN_TAG)
            tags.clear()
            if foreign is not None:
                tags[FOREIGN_TAG] = bounds.shortened(foreign, bounds.WORD_BYTES)
        _cut_amounts(allocation.resourcePerAlloc)
    return problem


def _problem_of_resource(field: str, resource: si.Resource) -> str | None:
    return bounds.problem_of_resource_names(field, resource.resources)


def _refuse_nothing(message: Any) -> Reasons:
    """A release of what does not exist is ignored, so names that nothing can have are only cut."""
    _cut(message)
    yield from ()


def _keep(message: Any, *names: str) -> None:
    """Clear everything but these texts."""
    kept = {name: getattr(message, name) for name in names}
    message.Clear()
    for name, text in kept.items():
        setattr(message, name, text)


def _cut_amounts(resource: si.Resource) -> None:
    """Keep the first names, one more than there may be, and cut those that are too long: the core counts what is
    valid."""
    names = sorted(resource.resources)[: bounds.RESOURCE_NAMES + 1]
    kept = {_just_above(name, bounds.RESOURCE_NAME_BYTES): resource.resources[name].value for name in names}
    resource.resources.clear()
    for name, amount in kept.items():
        resource.resources[name].value = amount


def _cut(message: Any) -> None:
    """Shorten free texts to their bounds, and names to one character above: whoever reads such a name sees that it is
    not whole."""
    for name, bound in bounds.of_message(message.DESCRIPTOR.name):
        if isinstance(bound, Text):
            text = getattr(message, name)
            if bounds.exceeds(text, bound.most):
                cut = bounds.shortened(text, bound.most) if bound.cut else _just_above(text, bound.most)
                setattr(message, name, cut)


def _just_above(text: str, most: int) -> str:
    """The shortest beginning of the text that is above the bound, or the text if it is within."""
    return text[: len(bounds.shortened(text, most)) + 1]


def _safe_bytes(descriptor: Descriptor) -> int:
    """No text is longer than its message. An element takes at least two bytes, an entry of a map four."""
    least = bounds.ITEMS
    for name, bound in bounds.of_message(descriptor.name):
        field: Any = descriptor.fields_by_name[name]
        if isinstance(bound, Text):
            least = min(least, bound.most)
        elif isinstance(bound, Texts):
            least = min(least, 2 * bound.most, bound.each)
        elif isinstance(bound, TextMap):
            least = min(least, 4 * bound.most, bound.key, bound.value)
        elif isinstance(bound, Items):
            least = min(least, 4 * bound.most, bound.key) if bound.key else min(least, 2 * bound.most)
        if isinstance(bound, Nested) or (isinstance(bound, Items) and not bound.key):
            least = min(least, _safe_bytes(field.message_type))
    return least


# The function that refuses an item of this type, and the size up to which it changes nothing.
REFUSE_BY_TYPE: Final[dict[str, tuple[Callable[[Any], Iterable[tuple[int, str]]], int]]] = {
    kind.DESCRIPTOR.name: (refuse, _safe_bytes(kind.DESCRIPTOR))
    for kind, refuse in (
        (si.AllocationAsk, _refuse_ask), (si.Allocation, _refuse_allocation), (si.NodeInfo, _refuse_node),
        (si.AddApplicationRequest, _refuse_application), (si.RemoveApplicationRequest, _refuse_nothing),
        (si.AllocationRelease, _refuse_nothing), (si.AllocationAskRelease, _refuse_nothing),
    )
}  # fmt: skip
