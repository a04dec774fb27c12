"""Frees the memory of an RM that this process does not follow any more, in slices.

The objects of a state refer to each other, and the garbage collector seldom runs (`process.run`). They are taken apart
here, so that their memory is free at once.
"""

from __future__ import annotations

import asyncio

from .. import limits
from ..core import Core
from ..state import Partition, State


async def discard(core: Core) -> None:
    partitions = list(core.state.partitions.values())
    core.go_on_from(State(core.state.rm_id))
    for partition in partitions:
        await _take_apart(partition)


async def _take_apart(partition: Partition) -> None:
    partition.allocations.clear()  # nodes and applications still refer to them
    for number, node in enumerate(partition.nodes.values()):
        node.allocations.clear()
        if number % limits.DISCARDED_AT_ONCE == 0:
            await asyncio.sleep(0)
    freed = 0
    for application in partition.applications.values():
        for entries in (application.allocations, application.asks):
            while entries:
                entries.popitem()
                freed += 1
                if freed % limits.DISCARDED_AT_ONCE == 0:
                    await asyncio.sleep(0)
    partition.nodes.clear()
    partition.applications.clear()
    partition.queues.clear()
