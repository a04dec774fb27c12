"""Asks and allocations, both ways: AllocationAsk and Allocation of si.v1, which requests and facts hold."""

from __future__ import annotations

from typing import Any

from remuda_proto.si.v1 import si_pb2 as si

from .. import facts
from ..limits import SHAPES
from ..rules.resource import Resource
from .resources import RESOURCES, TAGS, read_resource, read_tags, write_resource

_written_allocations: dict[tuple[object, ...], si.Allocation] = {}


def read_ask(ask: si.AllocationAsk, resource: Resource, tags: facts.Tags) -> facts.Ask:
    preemption = ask.preemptionPolicy if ask.HasField("preemptionPolicy") else None
    return facts.Ask(
        ask.partitionName,
        ask.applicationID,
        ask.allocationKey,
        resource,
        ask.maxAllocations,
        ask.priority,
        ask.executionTimeoutMilliSeconds,
        tags,
        ask.taskGroupName,
        ask.placeholder,
        ask.Originator,
        None if preemption is None else preemption.allowPreemptSelf,
        None if preemption is None else preemption.allowPreemptOther,
    )


def read_reported(allocation: si.Allocation) -> facts.Allocated:
    return read_allocation(allocation, read_resource(allocation.resourcePerAlloc), read_tags(allocation.allocationTags))


def read_unplaced(allocation: si.Allocation) -> facts.Ask:
    """Returns the ask that an allocation without a node stands for, as since 1.6."""
    preemption = allocation.preemptionPolicy if allocation.HasField("preemptionPolicy") else None
    return facts.Ask(
        allocation.partitionName, allocation.applicationID, allocation.allocationKey,
        read_resource(allocation.resourcePerAlloc), 1, allocation.priority, 0, read_tags(allocation.allocationTags),
        allocation.taskGroupName, allocation.placeholder, allocation.originator,
        None if preemption is None else preemption.allowPreemptSelf,
        None if preemption is None else preemption.allowPreemptOther,
    )  # fmt: skip


def read_allocation(allocation: si.Allocation, resource: Resource, tags: facts.Tags) -> facts.Allocated:
    return facts.Allocated(
        allocation.partitionName,
        allocation.applicationID,
        allocation.allocationKey,
        allocation.UUID or allocation.allocationID,
        allocation.nodeID,
        resource,
        allocation.priority,
        tags,
        allocation.taskGroupName,
        allocation.placeholder,
    )


def write_ask(ask: facts.Ask, message: si.AllocationAsk) -> None:
    message.partitionName = ask.partition
    message.applicationID = ask.application_id
    message.allocationKey = ask.allocation_key
    message.resourceAsk.CopyFrom(write_resource(ask.resource))
    message.maxAllocations = ask.max_allocations
    if ask.priority:
        message.priority = ask.priority
    if ask.execution_timeout_ms:
        message.executionTimeoutMilliSeconds = ask.execution_timeout_ms
    if ask.tags:
        message.tags.update(ask.tags)
    if ask.task_group:
        message.taskGroupName = ask.task_group
    if ask.placeholder:
        message.placeholder = True
    if ask.originator:
        message.Originator = True
    if ask.allow_preempt_self is not None:
        message.preemptionPolicy.allowPreemptSelf = ask.allow_preempt_self
        message.preemptionPolicy.allowPreemptOther = bool(ask.allow_preempt_other)


def write_allocation(fact: facts.Allocated, message: si.Allocation) -> None:
    """Allocations of one application have most fields in common, which are copied from a cached message."""
    key = (
        fact.application_id,
        fact.partition,
        fact.priority,
        fact.task_group,
        fact.placeholder,
        *fact.resource.items(),
    )
    alike = _written_allocations.get(key)
    if alike is None:
        if len(_written_allocations) >= SHAPES:
            _written_allocations.clear()
        alike = _written_allocations[key] = si.Allocation(
            partitionName=fact.partition,
            applicationID=fact.application_id,
            resourcePerAlloc=write_resource(fact.resource),
            priority=fact.priority,
            taskGroupName=fact.task_group,
            placeholder=fact.placeholder,
        )
    message.CopyFrom(alike)
    message.allocationKey = fact.allocation_key
    message.UUID = fact.uuid
    message.nodeID = fact.node_id
    if fact.tags:
        message.allocationTags.update(fact.tags)


def read_logged_ask(message: Any) -> facts.Ask:
    return read_ask(message, RESOURCES[message.resourceAsk], TAGS[tuple(message.tags[:])])


def read_logged_allocation(message: Any) -> facts.Allocated:
    return read_allocation(message, RESOURCES[message.resourcePerAlloc], TAGS[tuple(message.allocationTags[:])])
