"""The facts of one command respect quotas, node capacities and guaranteed resources."""

from __future__ import annotations

from collections.abc import Iterable

from ..facts import (
    Allocated,
    Fact,
    NodeReserved,
    PredicateAsked,
    PreemptionAsked,
    PreemptionStarted,
    ReplacementStarted,
)
from ..rules.devices import split
from ..rules.leaving import leaves_for, still_ends_before
from ..rules.required_node import required_node
from ..state import Node, Partition, State


def check_decision(state: State, facts: Iterable[Fact]) -> None:
    """Raises AssertionError. To be called after each command. New allocations, and those in question, fit. Resources
    that were over a maximum before may stay so, but no new allocation may add to them."""
    for fact in facts:
        if isinstance(fact, Allocated | PredicateAsked | NodeReserved | PreemptionStarted | PreemptionAsked):
            _check_hold(state.partitions[fact.partition], fact.application_id)
        if isinstance(fact, Allocated | PredicateAsked):
            _check_allocated(state.partitions[fact.partition], fact, state.now_ms)
        elif isinstance(fact, ReplacementStarted):
            _check_hold(state.partitions[fact.allocation.partition], fact.allocation.application_id)
            _check_place(state.partitions[fact.allocation.partition], fact)
        elif isinstance(fact, PreemptionStarted):
            _check_preempted(state.partitions[fact.partition], fact)


def _check_hold(partition: Partition, application_id: str) -> None:
    """Nothing starts in a held queue and below."""
    for queue in partition.applications[application_id].queue.path_to_root:
        assert queue.hold is None, f"application {application_id} goes on, queue {queue.path} is held"


def _check_allocated(partition: Partition, fact: Allocated | PredicateAsked, now_ms: int) -> None:
    what = f"allocation {fact.application_id}/{fact.allocation_key}"
    node, application = partition.nodes[fact.node_id], partition.applications[fact.application_id]
    queue = application.queue
    asked = fact if isinstance(fact, Allocated) else application.asks[fact.allocation_key].ask
    leaves_ms = leaves_for(node.departures, queue.path, asked.tags, asked.execution_timeout_ms)
    tags, bound_ms = asked.tags, asked.execution_timeout_ms
    assert node.takes(required_node(tags)), f"{what} was placed on {node.id}, which does not take it"
    assert still_ends_before(tags, bound_ms, leaves_ms, now_ms), (
        f"{what} was placed on {node.id}, which leaves before its end"
    )
    assert node.allocations_left >= 0, f"{what} was placed on {node.id}, which is full"
    available = node.available()
    for name, amount in fact.resource.items():
        left = available.get(name, 0)
        assert amount <= 0 or left >= 0, f"{what} was placed on {node.id}, which lacks {name}={-left} now"
        _check_on_devices(node, fact, name, what)
        for quota in application.quotas:
            used, maximum = quota.used.get(name, 0), quota.most.get(name)
            assert amount <= 0 or maximum is None or used <= maximum, (
                f"{what}: {quota} now has {name}={used}, its maximum is {maximum}"
            )


def _check_on_devices(node: Node, fact: Allocated | PredicateAsked, resource: str, what: str) -> None:
    devices = node.devices.get(resource)
    if devices is None or fact.resource[resource] <= 0:
        return
    names = split(fact.devices[resource])
    assert names and fact.resource[resource] % len(names) == 0, f"{what}: no equal shares on {names}"
    for name in names:
        assert name not in devices.unfit, f"{what}: device {name} is unfit"
        left = devices.room[name] - devices.used.get(name, 0)
        assert left >= 0, f"{what}: device {name} lacks {resource}={-left} now"


def _check_preempted(partition: Partition, fact: PreemptionStarted) -> None:
    """Queues of victims keep their guaranteed resources, except queues above the ask. For an ask with a required node
    only priorities count."""
    what = f"preemption for {fact.application_id}/{fact.allocation_key}"
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    victims = [partition.allocations[uuid] for uuid in fact.uuids]
    if required_node(pending.ask.tags):
        for victim in victims:
            assert victim.node.id == fact.node_id, f"{what}: {victim.fact.uuid} is on another node"
            assert victim.fact.priority <= pending.ask.priority, f"{what}: {victim.fact.uuid} has a higher priority"
        return
    own = set(pending.application.queue.path_to_root)
    for victim in victims:
        for queue in victim.application.queue.path_to_root:
            for name, due in queue.settings.guaranteed.items():
                left = queue.allocated.get(name, 0) - queue.preempting.get(name, 0)
                assert queue in own or not victim.fact.resource.get(name) or left >= due, (
                    f"{what}: queue {queue.path} keeps {name}={left}, its guaranteed is {due}"
                )


def _check_place(partition: Partition, fact: ReplacementStarted) -> None:
    """The replacement fits in the place of its placeholder, or on another node."""
    real, placeholder = fact.allocation, partition.allocations[fact.placeholder]
    what = f"replacement {real.application_id}/{real.allocation_key}"
    node = partition.nodes[real.node_id]
    assert node.takes(required_node(real.tags)), f"{what} was placed on {node.id}, which does not take it"
    assert node is placeholder.node or node.allocations_left >= 0, f"{what}: {node.id} is full"
    assert placeholder.fact.task_group == real.task_group, f"{what}: the place is of another task group"
    for name, amount in real.resource.items():
        assert amount <= placeholder.fact.resource.get(name, 0), f"{what} is larger than its place: {name}={amount}"
        assert node is placeholder.node or node.available().get(name, 0) >= 0, f"{what}: {node.id} lacks {name}"
