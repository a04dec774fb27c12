"""Every reservation is justified now, or is looked at in the next pass."""

from __future__ import annotations

from ...index.limits import Limit
from ...index.ordered import covers
from ...index.partition import PartitionIndex
from ...index.reservations import ReservedNodes
from ...rules.required_node import required_node
from ...rules.resource import items_of, total_of
from ...state import Node, Partition, PendingAsk, Queue


def check_kept_nodes(partition: Partition, index: PartitionIndex) -> None:
    kept, nodes = index.reserved_nodes, [node for node in partition.nodes.values() if node.reservation is not None]
    assert kept.of.keys() == set(nodes), f"{partition.name}: other nodes are reserved"
    for node in nodes:
        _check_node(node, index)
    limits = {limit for node in nodes for limit in _limits(_ask(node))}
    assert kept.under.keys() == limits, f"{partition.name}: nodes are reserved under other limits"
    for limit in limits:
        _check_limit(limit, [node for node in nodes if limit in _limits(_ask(node))], kept)
    _check_shares(partition, nodes, kept)
    classes = {one for order in index.orders.values() for one in getattr(order, "ask_classes", {}).values()}
    assert kept.claimants.keys() == classes, f"{partition.name}: ask classes that may never take a node"
    waiting = {one: what for what, some in kept.waiting.items() for one in some}
    assert waiting == {one: one.waits_for for one in classes if one.waits_for is not None}, (
        f"{partition.name}: ask classes wait for other limits"
    )


def _ask(node: Node) -> PendingAsk:
    assert node.reservation is not None, f"node {node.id} is not reserved"
    return node.reservation


def _limits(ask: PendingAsk) -> tuple[Limit, ...]:
    return (*ask.application.queue.path_to_root, *ask.application.trackers)


def _preempts(node: Node) -> bool:
    preemption = _ask(node).preemption
    return preemption is not None and preemption.node is node


def _check_node(node: Node, index: PartitionIndex) -> None:
    ask, kept, vector = _ask(node), index.reserved_nodes.of[node], index.nodes.vector
    bound = required_node(ask.ask.tags)
    need = vector(ask.ask.resource)
    fine = (
        node.takes(bound)
        and node.id not in ask.refused
        and all(name in index.names for name, amount in ask.ask.resource.items() if amount)
        and covers(vector(node.obtainable()), need)
    )
    assert fine or node in index.reserved_nodes.doubted, f"node {node.id}: its reservation is not justified"
    if not bound:
        rooms = (kept.available.room, kept.obtainable.room)
        assert rooms == (vector(node.available()), vector(node.obtainable())), f"node {node.id}: its room is another"
    listed = (kept.available.rank is not None, kept.obtainable.rank is not None)
    assert listed == (not bound, not bound), f"node {node.id}: it may be taken: {listed}"


def _check_limit(limit: Limit, nodes: list[Node], kept: ReservedNodes) -> None:
    assert kept.under[limit].keys() == set(nodes), f"{limit}: other nodes are reserved under it"
    counting = [_ask(node).ask.resource for node in nodes if not (_preempts(node) and _ask(node).has_place)]
    reserved = total_of(counting)
    assert items_of(kept.sums.get(limit, {})) == items_of(reserved), f"{limit}: reserved is {kept.sums.get(limit)}"
    most, used = (
        (limit.settings.max, limit.allocated) if isinstance(limit, Queue) else (limit.limit.max_resources, limit.used)
    )
    beyond = [
        name
        for name, maximum in most.items()
        if used.get(name, 0) + limit.held.get(name, 0) + reserved.get(name, 0) > maximum
    ]
    free = [node.id for node in nodes if not _preempts(node)]
    assert not (beyond and free and counting) or limit in kept.doubted_limits, (
        f"{limit}: {beyond} exceed its maximum with what is reserved, and yet {free} are"
    )


def _check_shares(partition: Partition, nodes: list[Node], kept: ReservedNodes) -> None:
    shared = [node for node in nodes if not required_node(_ask(node).ask.tags) and not _preempts(node)]
    assert kept.in_share.keys() == set(shared), f"{partition.name}: other nodes count in the share"
    by_leaf: dict[Queue, list[Node]] = {}
    for node in shared:
        by_leaf.setdefault(_ask(node).application.queue, []).append(node)
    assert {leaf: set(some) for leaf, some in kept.shares.items()} == {
        leaf: set(some) for leaf, some in by_leaf.items()
    }
    count, settings = len(partition.nodes), partition.settings
    most = max(1, count * settings.reservation_share // 100)
    most_of_leaf = max(1, count * settings.queue_reservation_share // 100)
    assert kept.share_doubted or len(shared) <= most, f"{partition.name}: {len(shared)} nodes are reserved"
    for leaf, some in by_leaf.items():
        assert kept.share_doubted or len(some) <= most_of_leaf, f"{leaf}: {len(some)} nodes are reserved for its asks"
