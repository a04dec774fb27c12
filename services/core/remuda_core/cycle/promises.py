"""When a reserved node has room for its ask, by the bounds of what runs there (semantics section 22).

Nothing outlives its bound by more than its release takes. So the times here are upper bounds, unless a release is late;
an allocation without a bound is never expected to end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .. import facts
from ..facts import Fact
from ..index.node_groups import Demand
from ..index.ordered import covers
from ..index.partition import PartitionIndex
from ..limits import PROMISE_CHANGES_MS, PROMISE_CHANGES_SHARE
from ..rules.resource import Resource, add
from ..state import NEVER_MS, Allocation, Node, Partition, after


class Start(NamedTuple):
    """When a node has room by bounds, in ms (NEVER_MS: not known), and the allocation whose end makes the room; None if
    there is room."""

    at_ms: int
    behind: Allocation | None = None


def ends_ms(allocation: Allocation, now_ms: int) -> int:
    """When the allocation has left at the latest, by its bound or because its release was asked for; NEVER_MS if it has
    no bound. One that is late is expected within PROMISE_CHANGES_MS."""
    timeout_ms = allocation.fact.execution_timeout_ms
    bound_ms = after(allocation.at_ms, timeout_ms) if timeout_ms > 0 else NEVER_MS
    if allocation.releasing:
        bound_ms = min(bound_ms, allocation.releasing_ms + PROMISE_CHANGES_MS)
    return bound_ms if bound_ms >= now_ms else now_ms + PROMISE_CHANGES_MS


def again_at(allocation: Allocation, now_ms: int) -> int:
    """When what `ends_ms` says of the allocation is another though nothing has changed."""
    end_ms = ends_ms(allocation, now_ms)
    return end_ms + 1 if ends_ms(allocation, now_ms + 1) == end_ms else now_ms + 1


def start_by_bounds(node: Node, need: Resource, now_ms: int) -> Start:
    """The first time at which the node has room for `need`, if nothing else comes. O(n log n) with the allocations of
    the node. On a node with devices it is not known: amounts do not say which devices become free together."""
    available = node.available()
    lacking = {name: less for name, amount in need.items() if (less := amount - available.get(name, 0)) > 0}
    if node.devices:
        return Start(NEVER_MS)
    if not lacking:
        return Start(now_ms)
    there = [(ends_ms(one, now_ms), one.asked_seq, uuid, one) for uuid, one in node.allocations.items()]
    for at_ms, _, _, allocation in sorted(there):
        if at_ms >= NEVER_MS:
            break
        for name, amount in allocation.fact.resource.items():
            if name in lacking:
                lacking[name] -= amount
        if all(less <= 0 for less in lacking.values()):
            return Start(at_ms, allocation)
    return Start(NEVER_MS)


def released_by(node: Node, until_ms: int, now_ms: int) -> Resource:
    """The amounts that bounds free on the node by `until_ms`, beyond those that are free now."""
    found: dict[str, int] = {}
    for allocation in node.allocations.values():
        if ends_ms(allocation, now_ms) <= until_ms:
            add(found, allocation.fact.resource)
    return found


def earliest_node(
    partition: Partition, index: PartitionIndex, demand: Demand, but: str, now_ms: int
) -> tuple[Node | None, int]:
    """The node to reserve that has room first by bounds, of those on which the demand can be obtained; then the one
    that lacks least; one that is avoided only if there is no other. `but`: this one only if there is no other. None if
    no such time is known. And how many nodes were looked at."""
    best: tuple[bool, bool, int, float, str] | None = None
    found: Node | None = None
    for node in partition.nodes.values():
        if not node.candidate or demand.avoids(node.id) or not covers(index.nodes.obtainable(node), demand.need):
            continue
        at_ms = start_by_bounds(node, demand.resource, now_ms).at_ms
        if at_ms < NEVER_MS and index.nodes.lasts(node, demand, at_ms):
            avoided = index.nodes.entry_of(node).avoided
            rank = (avoided, node.id == but, at_ms, lacking_share(index, node, demand), node.id)
            if best is None or rank < best:
                best, found = rank, node
    return found, len(partition.nodes)


def lacking_share(index: PartitionIndex, node: Node, demand: Demand) -> float:
    """How much of the demand the node lacks: the sum of the shares that are missing."""
    have = index.nodes.available(node)
    return sum((want - max(0, free)) / want for free, want in zip(have, demand.need, strict=True) if want > free)


def starts(partition: Partition, node: Node, now_ms: int) -> Start:
    """When the ask that the node is reserved for can start by bounds. Placeholders of one application start together:
    the latest time of all nodes that are reserved for them counts."""
    pending = node.reservation
    assert pending is not None, "only reserved nodes promise"
    if not pending.ask.placeholder:
        return start_by_bounds(node, pending.ask.resource, now_ms)
    of_gang = (
        start_by_bounds(partition.nodes[node_id], one.ask.resource, now_ms)
        for one in pending.application.reserving.values()
        if one.ask.placeholder
        for node_id in one.reservations
    )
    return max(of_gang, key=lambda start: start.at_ms)


def promise_changes(node: Node, start: Start, now_ms: int) -> Iterator[Fact]:
    """Move the promise of a reserved node if its ask starts later by bounds than it says: by more than a tenth, and at
    most once in PROMISE_CHANGES_MS; or at once, when the promised time is over. Promise a time where there was none."""
    promise, at_ms = node.promise, start.at_ms
    if node.preempting or (at_ms >= NEVER_MS and promise is None):
        return
    before_ms = promise.promised_ms if promise is not None else 0
    if promise is not None and before_ms > now_ms:
        much_later = at_ms - before_ms > (before_ms - now_ms) // PROMISE_CHANGES_SHARE
        if not much_later or promise.changed_ms + PROMISE_CHANGES_MS > now_ms:
            return
    elif at_ms <= before_ms:
        return
    pending = node.reservation
    assert pending is not None, "only reserved nodes promise"
    ask = pending.ask
    yield facts.PromiseChanged(
        *ask.name, node.id, 0 if at_ms >= NEVER_MS else at_ms, before_ms, _cause(promise is None, start, now_ms)
    )


def _cause(first: bool, start: Start, now_ms: int) -> str:
    """Why a promise changes."""
    if first:
        return "all that is in the way has a bound now"
    if start.at_ms >= NEVER_MS:
        return "what is in the way has no bound"
    allocation = start.behind
    if allocation is None:
        return "a node of the gang is reserved later"
    fact = allocation.fact
    name = f"allocation {fact.uuid} of {fact.application_id}/{fact.allocation_key}"
    timeout_ms = fact.execution_timeout_ms
    late = allocation.releasing or (timeout_ms > 0 and allocation.at_ms + timeout_ms < now_ms)
    return f"{name} is to be released, and has not left" if late else f"{name} has to end first"
