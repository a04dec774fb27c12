"""The part of the oracle that is about single nodes: their room and their score (semantics section 10)."""

from __future__ import annotations

from collections.abc import Mapping

from remuda_core.rules.resource import Resource
from remuda_core.state import Node, Partition, PendingAsk, PredicateClass

from . import bounds


def has_room(node: Node, need: Resource) -> bool:
    available = node.available()
    return all(need.get(name, 0) <= available.get(name, 0) for name in {*need, *available})


def obtainable(node: Node, need: Resource) -> bool:
    """It would have room if all had left that can leave."""
    stays = [a.fact.resource for a in node.allocations.values() if bound_tag(a.fact.tags) and not a_copy(a.fact.tags)]
    return all(
        amount <= node.capacity.get(name, 0) - node.occupied.get(name, 0) - sum(one.get(name, 0) for one in stays)
        for name, amount in need.items()
    ) and all(
        node.capacity.get(name, 0) >= node.occupied.get(name, 0) + sum(one.get(name, 0) for one in stays)
        for name in {*node.occupied, *(name for one in stays for name in one)}
    )


def bound_tag(tags: Mapping[str, str]) -> str:
    return tags.get("si/requiredNode") or tags.get("yunikorn.apache.org/requiredNode", "")


def a_copy(tags: Mapping[str, str]) -> bool:
    """It is bound only because it runs there already."""
    return tags.get("remuda/boundPreemptible") == "true"


def is_full(partition: Partition, node: Node) -> bool:
    """It has as many allocations as one node may have, with those that are to come."""
    asked = sum(question.node is node for question in partition.questions.values())
    return len(node.allocations) + len(node.arriving) + asked >= bounds.most_on_a_node()


def score(partition: Partition, node: Node) -> float:
    """Weighted mean of the used shares, best is least."""
    used = total = 0.0
    available = node.available()
    for name, how_much in partition.settings.resource_weights.items():
        capacity = node.capacity.get(name, 0)
        if capacity:
            used += how_much * (capacity - available[name]) / capacity
            total += how_much
    mean = used / total if total else 0.0
    return -mean if partition.settings.node_sort == "binpacking" else mean


def bound_to(ask: PendingAsk) -> str:
    return bound_tag(ask.ask.tags)


def refuses(ask: PendingAsk, node_id: str) -> bool:
    """The RM refuses the node, or answers in batches and has not accepted it."""
    found = ask.refused
    return node_id not in found.accepted if isinstance(found, PredicateClass) else node_id in found


def is_asked_about(ask: PendingAsk) -> bool:
    """The RM is asked about the class of the ask."""
    return isinstance(ask.refused, PredicateClass) and ask.refused.question > 0


def packed(partition: Partition, ask: PendingAsk, candidates: list[Node]) -> set[str]:
    """Where applications are packed: of the nodes on which its application is and that it fits, the one with the
    smallest ID."""
    if partition.settings.pack != "application":
        return set()
    own = {allocation.node.id for allocation in ask.application.allocations.values()}
    allowed = [node for node in candidates if node.id in own and not refuses(ask, node.id)]
    fitting = [node.id for node in allowed if has_room(node, ask.ask.resource)]
    return {min(fitting)} if fitting else set()
