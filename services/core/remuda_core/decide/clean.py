"""CleanQueues: removes queues and partitions that are no longer needed (semantics sections 6 and 16)."""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..commands import CleanQueues
from ..facts import Fact
from ..state import Partition, State


def clean_queues(state: State, command: CleanQueues, now_ms: int) -> Iterator[Fact]:
    for partition in list(state.partitions.values()):
        yield from clean(partition)


def clean(partition: Partition) -> Iterator[Fact]:
    """Remove empty dynamic queues, empty draining queues, and the partition if it is draining and empty."""
    removable = [q for q in partition.queues.values() if q.parent is not None and (not q.managed or q.draining)]
    for queue in sorted(removable, key=lambda q: q.path, reverse=True):  # children before parents
        if not queue.children and not queue.applications:
            yield facts.QueueRemoved(partition.name, queue.path, queue.managed)
    if partition.draining and not partition.nodes and not any(not a.terminal for a in partition.applications.values()):
        yield facts.PartitionRemoved(partition.name)
