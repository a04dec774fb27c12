"""Facts of nodes and of reservations."""

from __future__ import annotations

from typing import NamedTuple

from .. import facts, timeouts
from ..rules.leaving import leaves_at
from ..rules.resource import add
from ..state import (
    NO_RESERVATIONS,
    Hold,
    Node,
    Partition,
    PendingAsk,
    Promise,
    RejectedAllocation,
    State,
    Timer,
    with_rejected,
)
from .booking import count_claims
from .devices import lay_out_devices
from .preemption import give_up_place, keep_place, try_refused_again
from .questions import refusals_lifted
from .windows import note_departures, note_windows


class NodeGone(NamedTuple):
    """A removed node, and the asks for which the RM had refused it."""

    node: Node
    asks: tuple[PendingAsk, ...]


def node_added(state: State, fact: facts.NodeAdded) -> None:
    partition = state.partitions[fact.partition]
    drained = state.drains.get((fact.partition, fact.node_id)) if state.drains else None
    node = partition.unreported.pop(fact.node_id, None) or Node(fact.node_id, {}, {}, {})
    node.reported = True
    node.attributes, node.capacity, node.occupied = fact.attributes, fact.capacity, fact.occupied
    node.drained_by_rm, node.drained, node.left, node.in_windows = fact.draining, drained, False, ()
    node.draining, node.leaving_ms = node.is_drained, leaves_at(fact.attributes)
    for name in fact.capacity:
        node.allocated[name] += 0  # finding a name is faster than inserting it
    lay_out_devices(partition, node)
    partition.nodes[fact.node_id] = node
    add(partition.total, fact.capacity)
    add(partition.occupied, fact.occupied)
    partition.names.add_names(fact.capacity, fact.occupied)
    if partition.settings.calendar:
        note_windows(partition, node)
    _note_leaving(state, partition, node)


def _note_leaving(state: State, partition: Partition, node: Node, before: Timer | None = None) -> None:
    """Follow when the node leaves. `before`: the timer that it had."""
    now = timeouts.of_leaving(partition.name, node)
    if now != before:
        state.timers.cancel(before)
        state.timers.put(now)
    note_departures(partition, node)


def node_leaving(state: State, fact: facts.NodeLeaving) -> None:
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    before = timeouts.of_leaving(partition.name, node)
    hold = Hold(fact.operator, fact.reason, state.now_ms, fact.from_ms)
    node.drained = state.drains[fact.partition, fact.node_id] = hold
    _note_leaving(state, partition, node, before)


def node_changed(state: State, fact: facts.NodeChanged) -> tuple[PendingAsk, ...]:
    """Returns the asks for which the RM had refused the node: it may be tried again."""
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    add(partition.total, node.capacity, -1)
    add(partition.occupied, node.occupied, -1)
    before = timeouts.of_leaving(partition.name, node)
    node.attributes, node.capacity, node.occupied = fact.attributes, fact.capacity, fact.occupied
    node.leaving_ms = leaves_at(fact.attributes)
    if partition.settings.calendar:
        note_windows(partition, node)
    _note_leaving(state, partition, node, before)
    if node.rejected:
        node.occupied = with_rejected(fact.occupied, node.rejected.values())
    lay_out_devices(partition, node)
    add(partition.total, fact.capacity)
    add(partition.occupied, node.occupied)
    partition.names.add_names(fact.capacity, fact.occupied)
    partition.names.count_removed(partition)
    return refusals_lifted(state, partition, node)


def node_draining(state: State, fact: facts.NodeDraining) -> None:
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    before = timeouts.of_leaving(partition.name, node)
    if fact.operator:
        node.drained = state.drains[fact.partition, fact.node_id] = Hold(fact.operator, fact.reason, state.now_ms)
    elif fact.left:
        node.left = True
    elif fact.window:
        node.in_windows = (*node.in_windows, fact.window)
    else:
        node.drained_by_rm = True
    node.draining = True
    _note_leaving(state, partition, node, before)


def node_schedulable(state: State, fact: facts.NodeSchedulable) -> Node | None:
    """Returns the node. None if an operator drains it no longer, and the RM has removed it."""
    partition = state.partitions[fact.partition]
    node = partition.nodes.get(fact.node_id)
    before = timeouts.of_leaving(partition.name, node) if node is not None else None
    if fact.operator:
        del state.drains[fact.partition, fact.node_id]
    if node is not None:
        if fact.operator:
            node.drained = None
        elif fact.left:
            node.left = False
        elif fact.window:
            node.in_windows = tuple(name for name in node.in_windows if name != fact.window)
        else:
            node.drained_by_rm = False
        node.draining = node.is_drained
        _note_leaving(state, partition, node, before)
    return node


def node_removed(state: State, fact: facts.NodeRemoved) -> NodeGone:
    partition = state.partitions[fact.partition]
    node = partition.nodes.pop(fact.node_id)
    state.drains.pop((fact.partition, fact.node_id), None)
    state.timers.cancel(timeouts.of_leaving(partition.name, node))
    partition.leaving.pop(node.id, None)
    partition.names.count_removed(partition)
    for one in node.rejected.values():
        partition.rejected_allocations.remove(one)
    add(partition.total, node.capacity, -1)
    add(partition.occupied, node.occupied, -1)
    return NodeGone(node, refusals_lifted(state, partition, node))


def existing_allocation_rejected(state: State, fact: facts.ExistingAllocationRejected) -> Node:
    partition, allocation = state.partitions[fact.partition], fact.allocation
    node = partition.nodes[allocation.node_id]
    one = node.rejected[fact.name] = RejectedAllocation(fact.name, allocation, fact.reason)
    partition.rejected_allocations.add(one)
    node.occupied = with_rejected(node.occupied, (one,))
    lay_out_devices(partition, node)
    add(partition.occupied, allocation.resource)
    partition.names.add_names(allocation.resource)
    return node


def rejected_allocation_forgotten(state: State, fact: facts.RejectedAllocationForgotten) -> Node:
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    one = node.rejected.pop(fact.name)
    partition.rejected_allocations.remove(one)
    node.occupied = with_rejected(node.occupied, (one,), -1)
    lay_out_devices(partition, node)
    add(partition.occupied, one.fact.resource, -1)
    return node


def node_reserved(state: State, fact: facts.NodeReserved) -> None:
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    node.reservation, node.kept_by_preemption, node.reserved_ms = pending, fact.by_preemption, state.now_ms
    node.promise = Promise(fact.promised_ms, fact.promised_ms) if fact.promised_ms else None
    state.timers.put(timeouts.of_reservation(partition.name, node, state.timing))
    if not pending.reservations:
        pending.reservations = {}
        pending.application.reserving[fact.allocation_key] = pending
    pending.reservations[node.id] = None
    since = pending.waiting or {}
    if facts.NO_NODE not in since:  # the reason for the reservation
        pending.waiting = {**since, facts.NO_NODE: state.now_ms}
    pending.free -= 1
    if pending.preemption is not None:
        keep_place(pending.preemption)
    count_claims(pending.application, 1)


def promise_changed(state: State, fact: facts.PromiseChanged) -> None:
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    state.timers.cancel(timeouts.of_reservation(partition.name, node, state.timing))
    first_ms = node.promise.first_ms if node.promise is not None else fact.promised_ms
    node.promise = Promise(fact.promised_ms, first_ms, state.now_ms, fact.cause) if fact.promised_ms else None
    later = timeouts.of_reservation(partition.name, node, state.timing)
    state.timers.put(later)


def domain_avoided(state: State, fact: facts.DomainAvoided) -> None:
    partition = state.partitions[fact.partition]
    partition.avoided, partition.avoided_ms = fact, state.now_ms


def domain_avoidance_ended(state: State, fact: facts.DomainAvoidanceEnded) -> None:
    partition = state.partitions[fact.partition]
    partition.avoided, partition.avoided_ms = None, 0


def node_unreserved(state: State, fact: facts.NodeUnreserved) -> None:
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    state.timers.cancel(timeouts.of_reservation(partition.name, node, state.timing))
    node.reservation, node.kept_by_preemption, node.reserved_ms, node.promise = None, False, 0, None
    if fact.timed_out:
        pending.timed_out_ms, pending.timed_out_on = state.now_ms, node.id
    if pending.preemption is not None and pending.preemption.node is node:
        give_up_place(pending.preemption)
    try_refused_again(partition)
    del pending.reservations[node.id]
    if not pending.reservations:
        pending.reservations = NO_RESERVATIONS
        del pending.application.reserving[fact.allocation_key]
    pending.free += 1
    count_claims(pending.application, -1)
