"""Reserve a node for an ask that fits its quotas and no node (semantics section 11)."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from remuda_proto.guests import name_for

from .. import facts
from ..facts import Fact
from ..index.asks import AskClass
from ..index.limits import exceeds, full_queue
from ..index.node_groups import Demand
from ..index.ordered import covers
from ..index.partition import PartitionIndex
from ..rules.required_node import required_node
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
    in_the_way = index.reserved_nodes.in_the_way(pending, bound=bool(demand.required_node))
    if in_the_way is not None:
        index.reserved_nodes.wait(ask_class, in_the_way)
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
        node = index.reserving.closest_node(demand, pending.timed_out_on)
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
    return full_queue(pending) is None and not exceeds(
        pending.ask.resource, partition.total, partition.root.allocated, partition.occupied
    )


def reserved(partition: Partition, pending: PendingAsk, node: Node, *, by_preemption: bool = False) -> Fact:
    ask = pending.ask
    return facts.NodeReserved(
        partition.name, ask.application_id, ask.allocation_key, node.id, ask.resource, by_preemption
    )


def gives_way(kept_for: PendingAsk, pending: PendingAsk) -> str:
    """Why a node is no longer kept for an ask: the other one is bound to it, or has more right to it."""
    ask = pending.ask
    name = name_for(kept_for.ask.application_id, ask.application_id, ask.allocation_key)
    return f"{name} has to be on this node" if required_node(ask.tags) else f"{name} has more right to this node"


def end_unjustified(partition: Partition, index: PartitionIndex) -> Iterator[Fact]:
    """End the reservations of which a condition is gone."""
    for node, reason in index.reserved_nodes.unjustified():
        yield from ended(partition, node, reason)


def ended(partition: Partition, node: Node, reason: str, *, timed_out: bool = False) -> Iterator[Fact]:
    """End the reservation of the node, and a preemption for its ask there."""
    pending = node.reservation
    assert pending is not None, "only reserved nodes are looked at"
    if node.preempting:
        ask = pending.ask
        yield facts.PreemptionEnded(partition.name, ask.application_id, ask.allocation_key, reason)
    yield unreserved(partition, pending, node, reason, timed_out=timed_out)


def unreserved(partition: Partition, pending: PendingAsk, node: Node, reason: str, *, timed_out: bool = False) -> Fact:
    ask = pending.ask
    return facts.NodeUnreserved(
        partition.name, ask.application_id, ask.allocation_key, node.id, ask.resource, reason, node.kept_by_preemption,
        timed_out,
    )  # fmt: skip
