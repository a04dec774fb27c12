"""Reserve a node for an ask that fits its quotas and no node, and give a reserved node to an ask with more right to it
(semantics section 11).

An ask whose queue stays within its guaranteed goes before one whose queue does not; among equals the higher priority
decides. So the right is an order, and two asks never take the same node from each other in turn.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from typing import NamedTuple

from remuda_proto.guests import name_for

from .. import facts
from ..facts import Fact
from ..index.asks import AskClass
from ..index.limits import exceeds, full_queue, limit_of
from ..index.node_groups import Demand
from ..index.ordered import covers
from ..index.partition import PartitionIndex
from ..limits import KEPT_NODES_PER_CLAIMANT
from ..rules.properties import priority_seen_above
from ..rules.required_node import required_node
from ..settings import EASY
from ..state import NEVER_MS, Node, Partition, PendingAsk, Queue, State
from .place import place
from .promises import earliest_node, start_by_bounds


def reserve(
    state: State, partition: Partition, index: PartitionIndex, ask_class: AskClass, pending: PendingAsk, now_ms: int
) -> Generator[Fact, None, int]:
    """Reserve a node for the first ask of an ask class, `pending`, if it may reserve one now. Its demand is closed, and
    is set aside if it may not; of a demand that is bound to a node only the ask class is, because each of them may
    preempt there. Returns 1 if a node was reserved or the ask was placed, else 0."""
    demand = ask_class.demand
    if not index.reserving.may_reserve(demand, pending):
        index.reserving.too_young(ask_class, pending)
        return 0
    if index.candidates is None and not index.reserving.fits_total(ask_class):  # what is promised need not fit yet
        return 0
    in_the_way = index.reserved_nodes.in_the_way(pending, bound=bool(demand.required_node))
    if in_the_way is not None:
        index.reserved_nodes.wait(ask_class, in_the_way)
        return 0
    if demand.required_node:
        node = partition.nodes.get(demand.required_node)
        if node is None or not _may_be_kept(index, node, demand):
            ask_class.set_aside()
            return 0
        if node.reservation is not None:  # an ask bound to this node goes before one that may run elsewhere
            yield unreserved(node, gives_way(node.reservation, pending))
            if demand.open:
                yield from place(state, partition, pending, node, now_ms)
                return 1
    else:
        node = node_for(partition, index, demand, pending, now_ms)
        if node is None:
            return 0
    yield reserved(pending, node, promised_ms(partition, pending, node, now_ms))
    return 1


def node_for(
    partition: Partition, index: PartitionIndex, demand: Demand, pending: PendingAsk, now_ms: int
) -> Node | None:
    """The node to reserve: with backfill the one that has room first by bounds, if any has; else the one that lacks
    least."""
    if index.candidates is not None and index.reserving.work_left > 0:
        node, looked_at = earliest_node(partition, index, demand, pending.timed_out_on, now_ms)
        index.reserving.work_left -= looked_at
        if node is not None:
            return node
    return index.reserving.closest_node(demand, pending.timed_out_on)


def _may_be_kept(index: PartitionIndex, node: Node, demand: Demand) -> bool:
    """Whether a node can be reserved for an ask bound to it: it takes the ask, which can be obtained there, and is not
    reserved for another ask that is bound to it."""
    other = node.reservation
    taken = other is not None and index.demand_of(other).required_node != ""
    if taken or node.kept is not None or node.full or not node.takes(demand.required_node):
        return False
    if node.id in demand.refused:
        return False
    return covers(index.nodes.obtainable(node), demand.need)


def within_quotas(partition: Partition, pending: PendingAsk) -> bool:
    """Whether all maxima above the ask, and the partition as a whole, leave room for it."""
    return full_queue(pending) is None and not exceeds(
        pending.ask.resource, partition.total, partition.root.allocated, partition.occupied
    )


def reserved(pending: PendingAsk, node: Node, promised_ms: int = 0, *, by_preemption: bool = False) -> Fact:
    ask = pending.ask
    return facts.NodeReserved(*ask.name, node.id, ask.resource, by_preemption, promised_ms)


def promised_ms(partition: Partition, pending: PendingAsk, node: Node, now_ms: int) -> int:
    """When the node has room for the ask at the latest; 0: not known, or without backfill."""
    if partition.settings.backfill != EASY:
        return 0
    at_ms = start_by_bounds(node, pending.ask.resource, now_ms).at_ms
    return at_ms if at_ms < NEVER_MS else 0


def gives_way(kept_for: PendingAsk, pending: PendingAsk) -> str:
    """The reason why a reservation gives way: the other ask is bound to the node, or has more right to it."""
    ask = pending.ask
    name = name_for(kept_for.ask.application_id, ask.application_id, ask.allocation_key)
    return f"{name} has to be on this node" if required_node(ask.tags) else f"{name} has more right to this node"


def end_unjustified(index: PartitionIndex) -> Iterator[Fact]:
    """End the reservations of which a condition is gone."""
    for node, reason in index.reserved_nodes.unjustified():
        yield from ended(node, reason)


def ended(node: Node, reason: str, *, timed_out: bool = False) -> Iterator[Fact]:
    """End the reservation of the node, and a preemption for its ask there."""
    if node.preempting and node.reservation is not None:
        yield facts.PreemptionEnded(*node.reservation.ask.name, reason)
    yield unreserved(node, reason, timed_out=timed_out)


def unreserved(node: Node, reason: str, *, timed_out: bool = False) -> Fact:
    assert node.reservation is not None, "only reserved nodes are looked at"
    ask = node.reservation.ask
    return facts.NodeUnreserved(*ask.name, node.id, ask.resource, reason, node.kept_by_preemption, timed_out)


class Claim(NamedTuple):
    """The right of the first ask of a class to a reserved node. It is placed there at once if it `fits`; else the node
    is reserved for it from now on."""

    ask_class: AskClass
    pending: PendingAsk
    node: Node
    fits: bool


def take_kept(
    state: State, partition: Partition, index: PartitionIndex, limit: int, now_ms: int
) -> Generator[Fact, None, int]:
    """Give nodes that are reserved for asks of less right to asks that fit no other node, in the order of queues.
    Returns how many were placed or had a node reserved, at most `limit`. Looks at CLAIMANTS_PER_PASS ask classes."""
    claims = [
        claim for one in index.reserved_nodes.next_claimants() if (claim := _claim(partition, index, one)) is not None
    ]
    if not claims:
        return 0
    index.measure()
    taken = 0
    for ask_class in [one.ask_class for one in sorted(claims, key=lambda one: index.ask_rank(one.pending))]:
        while taken < limit and (claim := _claim(partition, index, ask_class)) is not None:
            pending, node = claim.pending, claim.node
            assert node.reservation is not None, "it is kept"
            yield from ended(node, gives_way(node.reservation, pending))
            if claim.fits:
                yield from place(state, partition, pending, node, now_ms)
            else:
                yield reserved(pending, node, promised_ms(partition, pending, node, now_ms))
            taken += 1
    return taken


def _claim(partition: Partition, index: PartitionIndex, ask_class: AskClass) -> Claim | None:
    """The node that the first ask of the class may take; None if there is none."""
    demand = ask_class.demand
    if ask_class.hidden or not demand.possible or demand.required_node or not ask_class.ranking.members:
        return None
    if demand.group_of_asks is not None:
        return None  # a group waits for a domain
    pending = ask_class.first()
    node = _takeable(index, demand, pending, obtainable=False)
    if node is not None:
        return None if _fits_elsewhere(index, demand) else Claim(ask_class, pending, node, True)
    if not index.reserving.may_reserve(demand, pending):
        return None
    in_the_way = index.reserved_nodes.in_the_way(pending, bound=False)
    if in_the_way is not None and in_the_way is not partition:
        return None
    node = _takeable(index, demand, pending, obtainable=True)
    if node is None or _fits_elsewhere(index, demand):
        return None
    if in_the_way is None and not index.reserving.finds_no_node(demand):
        return None  # it reserves another one in its turn
    return Claim(ask_class, pending, node, False)


def _takeable(index: PartitionIndex, demand: Demand, pending: PendingAsk, *, obtainable: bool) -> Node | None:
    for node in islice(index.reserved_nodes.with_room(demand, obtainable=obtainable), KEPT_NODES_PER_CLAIMANT):
        if node.reservation is not pending and may_take(pending, node):
            return node if full_queue(pending) is None and limit_of(pending) is None else None
    return None


def _fits_elsewhere(index: PartitionIndex, demand: Demand) -> bool:
    """Whether a node that is not reserved fits the ask, or may do so when the RM has answered."""
    if demand.open:
        fits = index.nodes.best(demand) is not None
    else:
        fits = index.some_node_fits(demand)
    found = demand.predicate_class
    return fits or (found is not None and (found.question > 0 or bool(index.nodes.without_verdict(demand, ""))))


def may_take(pending: PendingAsk, node: Node) -> bool:
    """Whether the node is not reserved, or reserved for this ask, or for an ask that has less right to it. From an ask
    for which others are preempted there, only a guarantee takes the node; from an ask that is bound to it, nothing
    does."""
    kept_for = node.reservation
    if node.kept is not None:
        return False
    if kept_for is None or kept_for is pending:
        return True
    if required_node(kept_for.ask.tags):
        return False
    guaranteed, other_guaranteed = within_guaranteed(pending), within_guaranteed(kept_for)
    if guaranteed != other_guaranteed:
        return guaranteed
    return not node.preempting and has_higher_priority(pending, kept_for)


def within_guaranteed(pending: PendingAsk) -> bool:
    """Whether the queue stays within its guaranteed with one more allocation of the ask. For each resource the nearest
    queue that guarantees it counts; something has to be guaranteed."""
    path_to_root = pending.application.queue.path_to_root
    found = False
    for name, amount in pending.ask.resource.items():
        by = next((queue for queue in path_to_root if name in queue.settings.guaranteed), None) if amount else None
        if by is not None:
            found = True
            if by.allocated.get(name, 0) - by.preempting.get(name, 0) + amount > by.settings.guaranteed[name]:
                return False
    return found


def has_higher_priority(one: PendingAsk, other: PendingAsk) -> bool:
    """Whether the ask has a higher priority, as the nearest queue above both sees it through offsets and fences."""
    above = set(one.application.queue.path_to_root)
    common = next(queue for queue in other.application.queue.path_to_root if queue in above)
    return _priority_below(one, common) > _priority_below(other, common)


def _priority_below(pending: PendingAsk, common: Queue) -> float:
    priority: float = pending.ask.priority
    for queue in pending.application.queue.path_to_root:
        if queue is common:
            break
        priority = priority_seen_above(queue.settings.properties, priority)
    return priority
