"""The nodes of packed applications in the index, compared with the allocations of the state."""

from __future__ import annotations

from collections import Counter

from ...index.ordered import covers
from ...index.partition import PartitionIndex
from ...state import Partition


def check_packs(partition: Partition, index: PartitionIndex) -> None:
    packs = index.packing
    assert (packs is not None) == (partition.settings.pack == "application"), f"{partition.name}: packed, or not"
    for application, pack in packs.of.items() if packs is not None else ():
        assert not application.terminal, f"application {application.id} has ended and is packed"
        assert partition.applications.get(application.id) is application, f"application {application.id} is gone"
        counts = Counter(allocation.node.id for allocation in application.allocations.values())
        assert counts == {node_id: packed.count for node_id, packed in pack.nodes.items()}, (
            f"application {application.id} is packed onto other nodes than it is on"
        )
        for packed in pack.nodes.values():
            group = index.nodes.group_of(packed.node)
            assert group is None or (packed.rank is not None and covers(packed.room, group.available)), (
                f"application {application.id}: node {packed.node.id} has more room than the pack knows"
            )
