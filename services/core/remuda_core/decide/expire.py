"""Tick: time has passed. Applications leave states that last only so long, and queues nobody needs any more are removed."""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..commands import Tick
from ..facts import Fact
from ..rules import lifecycle
from ..state import Partition, State
from .allocation import occasion


def tick(state: State, command: Tick, now_ms: int) -> Iterator[Fact]:
    for application in state.timers.due(now_ms):
        partition = next((p for p in state.partitions.values() if p.applications.get(application.id) is application), None)
        if partition is None:
            continue
        yield from occasion(partition, application, lifecycle.TIMEOUTS[application.state][1], now_ms)
        if application.state == lifecycle.EXPIRED:
            yield facts.ApplicationRemoved(partition.name, application.id, application.queue.path)
    for partition in list(state.partitions.values()):
        yield from clean(partition)


def clean(partition: Partition) -> Iterator[Fact]:
    """Dynamic queues, and managed ones that drain, go when they are empty; a partition that is no longer configured likewise."""
    removable = [q for q in partition.queues.values() if q.parent is not None and (not q.managed or q.draining)]
    for queue in sorted(removable, key=lambda q: q.path, reverse=True):  # children before parents
        if not queue.children and not queue.applications:
            yield facts.QueueRemoved(partition.name, queue.path)
    if partition.draining and not partition.nodes and not any(not a.terminal for a in partition.applications.values()):
        yield facts.PartitionRemoved(partition.name)
