"""Place the members of a group (semantics section 21): all that start together in one pass, or one of them."""

from __future__ import annotations

from collections.abc import Generator

from ..facts import Fact
from ..index.node_groups import Demand
from ..index.partition import PartitionIndex
from ..limits import STEPS_PER_GROUP, STEPS_PER_PLACEMENT
from ..state import Partition, PendingAsk, State
from .place import ask_for_more, expired, place


def place_group(
    state: State, partition: Partition, index: PartitionIndex, demand: Demand, pending: PendingAsk, now_ms: int
) -> Generator[Fact, None, int]:
    """Place what the group of the ask places next. Returns how many were placed: a start is not cut short by the limit
    of the pass, because the other members would find their room taken. Closes the demand if there is no room."""
    groups, known, placed = index.groups, demand.predicate_class, 0
    assert groups is not None, "the ask is a member of a group"
    index.budget.left -= STEPS_PER_GROUP
    for one in groups.next_places(demand, pending):
        node = groups.node_for(one)
        if node is None:
            break
        if known is not None and not known.accepts(node.id, now_ms):
            yield expired(partition, known, now_ms)
            return placed
        yield from place(state, partition, one.ask, node, now_ms)
        index.freed_nodes.shrunk(node)
        index.budget.left -= STEPS_PER_PLACEMENT
        placed += 1
    if not placed and demand.open:
        awaited = groups.failed
        yield from ask_for_more(state, index, demand, pending, now_ms)
        groups.failed = awaited
        in_vain = groups.opened_in_vain()
        index.close(demand)
        if in_vain is not None:
            for other in in_vain[1]:
                groups.failed = in_vain[0]
                index.close(other)
    return placed
