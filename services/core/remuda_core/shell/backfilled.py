"""The number of placements on nodes that are reserved for other asks (semantics section 22)."""

from __future__ import annotations

from collections.abc import Sequence

from ..facts import Allocated, Fact, NodeReserved, NodeUnreserved, PredicateAsked
from ..state import State

# The partition and the node; and the application and the allocation key that it is reserved for, None: none.
Place = tuple[str, str]
Reserved = tuple[str, str] | None


def backfilled(state: State, facts: Sequence[Fact]) -> int:
    """The number of such placements among these facts, the last that the state has. The facts are read from the last
    one on, because the state says for which asks nodes are reserved after them."""
    if not any(partition.settings.backfill for partition in state.partitions.values()):
        return 0
    found, known = 0, dict[Place, Reserved]()
    for fact in reversed(facts):
        if isinstance(fact, NodeReserved):
            known[fact.partition, fact.node_id] = None
        elif isinstance(fact, NodeUnreserved):
            known[fact.partition, fact.node_id] = fact.application_id, fact.allocation_key
        elif isinstance(fact, PredicateAsked) or (isinstance(fact, Allocated) and not fact.question):
            partition = state.partitions.get(fact.partition)
            if partition is None or not partition.settings.backfill:
                continue
            place = fact.partition, fact.node_id
            kept_for = known[place] if place in known else _reserved(state, place)
            found += kept_for not in (None, (fact.application_id, fact.allocation_key))
    return found


def _reserved(state: State, place: Place) -> Reserved:
    node = state.partitions[place[0]].nodes.get(place[1])
    pending = node.reservation if node is not None else None
    return None if pending is None else (pending.ask.application_id, pending.ask.allocation_key)
