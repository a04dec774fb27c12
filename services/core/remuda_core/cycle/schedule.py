"""The scheduling cycle (semantics section 9), in its own words:

while the budget lasts:
    who is next?        the first ask, in the order of queues, applications and asks, that fits under every maximum
    where is best?      the node it fits that scores best
    nowhere             set that demand aside until a node gains room, and go on with the next
    allocate            the application's new state first, then the allocation
"""

from __future__ import annotations

from collections.abc import Iterator

from ..commands import Schedule
from ..facts import Allocated, Fact
from ..rules import lifecycle
from ..state import Partition, State
from .index import Index
from .states import start


def schedule(state: State, command: Schedule, now_ms: int) -> Iterator[Fact]:
    budget = command.limit
    for partition in state.partitions.values():
        index = index_of(partition)
        while budget > 0 and (pending := index.next_ask()) is not None:
            demand = pending.line.lane.demand  # type: ignore[union-attr]
            node = index.nodes.best(demand)
            if node is None:
                index.close(demand)
                continue
            budget -= 1
            application = pending.application
            if application.state != lifecycle.RUNNING:
                yield from start(partition, application, now_ms)
            ask = pending.ask
            yield Allocated(
                partition.name,
                application.id,
                ask.allocation_key,
                state.next_uuid(),
                node.id,
                ask.resource,
                ask.priority,
                ask.tags,
                ask.task_group,
                ask.placeholder,
                ask.execution_timeout_ms,
                ask.originator,
                ask.allow_preempt_self,
            )
            index = partition.index or index_of(partition)


def index_of(partition: Partition) -> Index:
    if partition.index is None:
        partition.index = Index(partition)
    return partition.index
