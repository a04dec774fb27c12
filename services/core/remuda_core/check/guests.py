"""Guests that outlive a registration: nodes in whose place they are, and what waits for its partition."""

from __future__ import annotations

from remuda_proto.guests import is_guest

from ..state import Partition, State


def check_unreported(partition: Partition) -> None:
    """Each stands in for a node that is not there, for the sake of guests alone."""
    for node_id, node in partition.unreported.items():
        assert node_id not in partition.nodes, f"node {node_id} is reported, and it is expected"
        assert node.id == node_id and not node.reported, f"node {node_id}: it calls itself {node.id}, or is reported"
        assert node.allocations, f"node {node_id} is expected, and nothing is there"
        others = [uuid for uuid, one in node.allocations.items() if not is_guest(one.application.id)]
        assert not others, f"node {node_id} is not reported, and has {others}, which are of no guest"
        assert not (node.capacity or node.arriving or node.reservation), f"node {node_id} is used, and not reported"
    for node in partition.nodes.values():
        assert node.reported, f"node {node.id} is there, and calls itself not reported"


def check_left_guests(state: State) -> None:
    for name, guests in state.left_guests.items():
        assert name not in state.partitions, f"partition {name} is there, and guests {list(guests)} wait for it"
        for application_id, left in guests.items():
            assert is_guest(application_id) and left.allocations, f"{application_id} is no guest, or holds nothing"
            assert left.releases.keys() <= left.allocations.keys(), f"{application_id}: releases of what it has not"
