"""Reserve a node for an ask that fits its quotas and no node (semantics section 11)."""

from __future__ import annotations

from collections.abc import Generator

from remuda_proto.guests import name_for

from .. import facts
from ..facts import Fact
from ..index.admission import exceeds, full_queue
from ..index.ask_classes import AskClass
from ..index.fit_list import covers
from ..index.node_groups import Demand
from ..index.partition import PartitionIndex
from ..state import Node, Partition, PendingAsk, State
from .place import place


def reserve(
    state: State, partition: Partition, index: PartitionIndex, ask_class: AskClass, pending: PendingAsk, now_ms: int
) -> Generator[Fact, None, int]:
    """Reserve a node for the first ask of an ask class, `pending`, if it may reserve one now. Its demand is closed, and
    is set aside if it may not. Returns 1 if a node was reserved or the ask was placed, else 0."""
    demand = ask_class.demand
    if not index.reserving.may_reserve(demand, pending):
        index.reserving.too_young(ask_class, pending)
        return 0
    if not index.reserving.fits_total(demand):
        return 0
    if demand.required_node:
        node = partition.nodes.get(demand.required_node)
        if node is None or not _may_be_kept(index, node, demand):
            index.demands.end_reserving(demand)
            return 0
        if node.reservation is not None:  # an ask bound to this node goes before one that may run elsewhere
            yield unreserved(partition, node.reservation, node, gives_way(node.reservation, pending))
            if demand.open:
                yield from place(state, partition, pending, node, now_ms)
                return 1
    else:
        node = index.reserving.closest_node(demand)
        if node is None:
            return 0
    yield reserved(partition, pending, node)
    return 1


def _may_be_kept(index: PartitionIndex, node: Node, demand: Demand) -> bool:
    """Whether a node can be reserved for an ask bound to it: it takes the ask, which can be obtained there, and is not
    reserved for another ask that is bound to it."""
    other = node.reservation
    taken = other is not None and index.demand_of(other).required_node != ""
    if taken or node.full or not node.takes(demand.required_node) or node.id in demand.refused:
        return False
    return covers(index.nodes.obtainable(node), demand.need)


def within_quotas(partition: Partition, pending: PendingAsk) -> bool:
    """Whether all maxima above the ask, and the partition as a whole, leave room for it."""
    return full_queue(pending) is None and not exceeds(pending.ask.resource, partition.total, partition.root.allocated)


def reserved(partition: Partition, pending: PendingAsk, node: Node, *, by_preemption: bool = False) -> Fact:
    ask = pending.ask
    return facts.NodeReserved(
        partition.name, ask.application_id, ask.allocation_key, node.id, ask.resource, by_preemption
    )


def gives_way(kept_for: PendingAsk, pending: PendingAsk) -> str:
    """Why a node is no longer kept for an ask: the other one is bound to it."""
    ask = pending.ask
    return f"{name_for(kept_for.ask.application_id, ask.application_id, ask.allocation_key)} has to be on this node"


def unreserved(partition: Partition, pending: PendingAsk, node: Node, reason: str) -> Fact:
    ask = pending.ask
    return facts.NodeUnreserved(
        partition.name, ask.application_id, ask.allocation_key, node.id, ask.resource, reason, node.kept_by_preemption
    )
