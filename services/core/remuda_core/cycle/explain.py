"""Why does this ask wait? Everything that stands in its way now, computed from the state when somebody wants to
know.

A constraint is of one of these kinds:

    queue               a queue on the way to the root is at its maximum
    node                no node has room, or the one it is bound to has not
    unknown_node        the node it is bound to does not exist
    unschedulable_node  the node it is bound to takes nothing new
    predicate           nodes have room, and the RM refuses them
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..facts import Constraint
from ..rules.resource import Resource, show
from ..state import Node, Partition, PendingAsk
from .required_node import required_node

# Those that looking at the nodes finds.
OF_NODES: Final = frozenset({"node", "unknown_node", "unschedulable_node", "predicate"})


def explain(partition: Partition, pending: PendingAsk) -> list[Constraint]:
    """Empty: nothing is in the way, it is only not its turn yet."""
    return [*standing_constraints(pending), *node_constraints(partition, pending)]


def standing_constraints(pending: PendingAsk) -> list[Constraint]:
    """All but the nodes: found quickly, however many there are of anything."""
    return queue_constraints(pending)


def queue_constraints(pending: PendingAsk) -> list[Constraint]:
    found = []
    for queue in pending.application.queue.lineage:
        for name, maximum in sorted(queue.settings.max.items()):
            need, have = pending.ask.resource.get(name, 0), maximum - queue.allocated.get(name, 0)
            if need > have:
                reason = (
                    f"queue {queue.path} is at its maximum: {name} needs {need}, {max(have, 0)} of {maximum} are left"
                )
                found.append(Constraint("queue", queue.path, reason, name, need, have))
    return found


def node_constraints(partition: Partition, pending: PendingAsk) -> list[Constraint]:
    need, bound_to = pending.ask.resource, required_node(pending.ask.tags)
    refused = refusals(partition, pending)
    nodes: Iterable[Node]
    if bound_to:
        node = partition.nodes.get(bound_to)
        if node is None:
            return [Constraint("unknown_node", bound_to, f"the required node {bound_to} does not exist")]
        if not node.schedulable:
            return [Constraint("unschedulable_node", bound_to, f"the required node {bound_to} takes nothing new")]
        nodes = [node] if bound_to not in pending.refused else []
    elif partition.index is not None:
        nodes = partition.index.nodes.one_of_each(pending.refused)
    else:
        nodes = [n for n in partition.nodes.values() if n.schedulable and n.id not in pending.refused]
    closest: tuple[float, str, Node] | None = None
    for node in nodes:
        lacking = missing(need, node)
        if not lacking:
            return []
        if closest is None or (lacking, node.id) < closest[:2]:
            closest = (lacking, node.id, node)
    if closest is not None:
        return [*refused, _lack(need, closest[2], bound=bool(bound_to))]
    return refused or [Constraint("node", "", "there is no schedulable node")]


def refusals(partition: Partition, pending: PendingAsk) -> list[Constraint]:
    """Nodes that have room, and are refused by the RM."""
    if not pending.refused:
        return []
    nodes = [partition.nodes[node_id] for node_id in pending.refused if node_id in partition.nodes]
    refused = sum(node.schedulable and not missing(pending.ask.resource, node) for node in nodes)
    if not refused:
        return []
    where, _, why = pending.refusal.partition(": ")
    others = f"{refused} nodes, the last of them " if refused > 1 else ""
    return [Constraint("predicate", where, f"the RM refuses {others}{where}: {why}")]


def missing(need: Resource, node: Node) -> float:
    """How much of the ask a node lacks: the sum over resources of the part that is not available. 0: it fits. Where
    more of a resource is taken than there is, nothing fits, whether it asks for it or not."""
    available = node.available()
    asked = ((amount, available.get(name, 0)) for name, amount in need.items() if amount > 0)
    lacking = sum((amount - max(have, 0)) / amount for amount, have in asked if amount > have)
    return lacking + sum(1.0 for name, have in available.items() if have < 0 and not need.get(name))


def _lack(need: Resource, node: Node, *, bound: bool) -> Constraint:
    available = node.available()
    short = [name for name, amount in need.items() if amount > available.get(name, 0) and amount > 0]
    name = min(short or [name for name, have in available.items() if have < 0])
    wanted, have = need.get(name, 0), available.get(name, 0)
    what = f"{name} needs {wanted}, {max(have, 0)} are left" if short else f"more {name} is taken than there is"
    reason = (
        f"the required node {node.id} has no room: {what}"
        if bound
        else f"no node has {show(need)} available; closest is {node.id}: {what}"
    )
    return Constraint("node", node.id, reason, name, wanted, have)
