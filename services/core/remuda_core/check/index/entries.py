"""The entries that the index keeps of asks, applications and nodes."""

from __future__ import annotations

from collections import defaultdict

from ...index.ordered import Vector
from ...index.partition import PartitionIndex
from ...state import Partition


def check_entries(partition: Partition, index: PartitionIndex) -> None:
    """The entries of asks and applications agree with the state."""
    alive = [application for queue in partition.queues.values() for application in queue.applications.values()]
    asks = {ask for application in alive for ask in application.asks.values()}
    assert index.lines.keys() == {ask for ask in asks if ask.free}, f"{partition.name}: lines of asks that are gone"
    reserving = {ask for ask in asks if ask.reservations}
    assert index.demand_of_reserved.keys() == reserving, f"{partition.name}: other asks have reservations"
    held = {preemption.pending: preemption.held for preemption in partition.preemptions.values()}
    assert index.preempting == held, f"{partition.name}: other preemptions are under way"
    slots = {
        application: application.application_limits
        for application in alive
        if application.counts_as_running and application.application_limits
    }
    assert index.running_slots == slots, f"{partition.name}: other applications run where that is limited"
    assert index.gangs.keys() <= set(alive), f"{partition.name}: gangs of applications that are gone"
    entries = {node_id: entry.node for node_id, entry in index.nodes._entries.items()}
    assert entries == partition.nodes, f"{partition.name}: entries of nodes that are gone"


def check_nodes(partition: Partition, index: PartitionIndex) -> None:
    expected: defaultdict[tuple[Vector, Vector, Vector], set[str]] = defaultdict(set)
    for node in partition.nodes.values():
        assert index.knows(node.capacity), f"node {node.id}: a resource has no place in the index"
        if node.candidate:
            amounts = (node.capacity, node.obtainable(), node.available())
            capacity, obtainable, available = map(index.nodes.vector, amounts)
            expected[capacity, obtainable, available].add(node.id)
        else:
            assert index.nodes.group_of(node) is None, f"node {node.id} takes nothing new and is in a group"
    found = index.nodes.groups()
    assert found == expected, f"{partition.name}: node groups {found}, expected {dict(expected)}"
    for key, ids in expected.items():
        first = min(ids)
        group = index.nodes.group_of(partition.nodes[first])
        assert group is not None and group.size == len(ids), f"group of {first}: size is not {len(ids)}"
        assert (group.capacity, group.obtainable, group.available) == key, f"group of {first}: it is another's"
        assert group.first().id == first, f"group of {first}: its first node is {group.first().id}"
