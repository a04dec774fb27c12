"""Place asks on reserved nodes if that delays nothing that was promised (semantics section 22).

A reserved node has room for its ask at a time that follows from the bounds of what runs there. Another ask may start
there if it has ended by then, by its own bound, or if the reserved ask fits at that time all the same. So no start here
delays a reserved ask beyond its promise, whatever the expectations are worth: these only order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from heapq import heapify, heappop, heappush
from operator import add as plus

from ..facts import Fact
from ..index.asks import AskClass
from ..index.backfill import Candidates, Hole
from ..index.limits import full_queue, limit_of
from ..index.ordered import Rank
from ..index.partition import PartitionIndex
from ..limits import ANSWER_WITHIN_MS, STEPS_PER_PLACEMENT
from ..settings import SHORTEST
from ..state import NEVER_MS, Node, Partition, State
from .place import place
from .promises import Start, again_at, promise_changes, released_by, starts


def backfill(
    state: State, partition: Partition, index: PartitionIndex, limit: int, now_ms: int
) -> Generator[Fact, None, int]:
    """Place at most `limit` asks on reserved nodes. Returns how many were placed. Does nothing if nothing has changed
    since the last pass that found no more."""
    candidates, windows, reserved = index.candidates, index.windows, index.reserved_nodes.of
    if candidates is None or not reserved:
        return 0
    if not candidates.changed and not windows.is_due(now_ms):
        return 0
    for node in windows.stale(reserved, reserved, now_ms):
        start = starts(partition, node, now_ms)
        yield from promise_changes(node, start, now_ms)
        _look(index, candidates, node, start, now_ms)
    windows.rouse(candidates.new, now_ms)
    candidates.new.clear()
    shortest, placed = partition.settings.backfill_order == SHORTEST, 0
    index.measure()  # ranks depend on the partition's total
    found: dict[AskClass, None] = {}
    for node_id, hole in sorted(windows.live.items()):
        of_hole = dict.fromkeys(candidates.fitting(hole, now_ms))
        if not of_hole:
            windows.idle[node_id] = windows.live.pop(node_id)
        found |= of_hole
    heap = [(_rank(index, one, shortest), one) for one in found if _may_start(index, one)]
    heapify(heap)
    while heap and placed < limit and index.budget.left > 0:
        rank, ask_class = heappop(heap)
        index.budget.left -= STEPS_PER_PLACEMENT
        if not _may_start(index, ask_class):
            continue
        if (now := _rank(index, ask_class, shortest)) != rank:  # ranks only get worse in a pass
            heappush(heap, (now, ask_class))
            continue
        holes = (one for _, one in sorted(windows.live.items()))
        if (suits := _hole_for(state, holes, ask_class, now_ms)) is None:
            continue
        node = suits.node
        yield from place(state, partition, ask_class.first(), node, now_ms)
        placed += 1
        _look(index, candidates, node, starts(partition, node, now_ms), now_ms)
        if ask_class in candidates and ask_class.ranking.members:
            heappush(heap, (_rank(index, ask_class, shortest), ask_class))
    candidates.changed = bool(heap)
    return placed


def _look(index: PartitionIndex, candidates: Candidates, node: Node, start: Start, now_ms: int) -> None:
    """Note the hole of a reserved node, and when to look again: when the bound of an allocation or the promise is over,
    and at once while the ask may start, or later than was promised."""
    again_ms = [again_at(one, now_ms) for one in node.allocations.values()]
    if (promise := node.promise) is not None:
        again_ms.append(promise.promised_ms + 1 if promise.promised_ms > now_ms else now_ms + 1)
        if start.at_ms > promise.promised_ms:
            again_ms.append(now_ms + 1)
    if start.at_ms <= now_ms:
        again_ms.append(now_ms + 1)
    hole = hole_of(index, node, start.at_ms, now_ms)
    if hole is not None:
        again_ms.append(hole.until_ms)
    index.windows.put(node, hole, min(again_ms, default=NEVER_MS), candidates, now_ms)


def hole_of(index: PartitionIndex, node: Node, starts_ms: int, now_ms: int) -> Hole | None:
    """The room of a reserved node that backfill may use. None after the promised time, where a preemption makes room,
    and before anything is promised."""
    promise, pending = node.promise, node.reservation
    assert pending is not None, "only reserved nodes have holes"
    if promise is None or starts_ms >= NEVER_MS or node.preempting or node.full or not node.ready:
        return None
    until_ms = min(starts_ms, promise.promised_ms)
    if until_ms <= now_ms:
        return None
    nodes = index.nodes
    available = nodes.available(node)
    if not any(amount > 0 for amount in available):
        return None
    later = tuple(map(plus, available, nodes.vector(released_by(node, until_ms, now_ms))))
    spare = nodes.after(index.demand_of(pending), later)
    return Hole(node, until_ms, available, tuple(map(min, available, spare)))


def _may_start(index: PartitionIndex, ask_class: AskClass) -> bool:
    """Whether the first ask of the class is admitted, and leaves what reserved asks need under each maximum and
    limit."""
    if ask_class.hidden or not ask_class.ranking.members:
        return False
    pending = ask_class.first()
    if full_queue(pending) is not None or limit_of(pending) is not None:
        return False
    return index.reserved_nodes.leaves_room(pending)


def _rank(index: PartitionIndex, ask_class: AskClass, shortest: bool) -> Rank:
    """The place of the class's first ask in the order of queues; before that, if the shortest go first, the expected
    run time."""
    rank = (*index.ask_rank(ask_class.first()), ask_class.number)
    return (ask_class.demand.expectation, *rank) if shortest else rank


def _hole_for(state: State, holes: Iterable[Hole], ask_class: AskClass, now_ms: int) -> Hole | None:
    """The first hole, by the ID of its node, for the first ask of the class."""
    demand, pending = ask_class.demand, ask_class.first()
    lasts_ms = demand.bound
    if state.predicates:
        lasts_ms += ANSWER_WITHIN_MS  # the allocation begins with the answer
    for hole in holes:
        node = hole.node
        if not node.takes(demand.required_node) or demand.avoids(node.id) or node.id in pending.refused:
            continue
        if node.reservation is not pending and hole.fits(demand, lasts_ms, now_ms):
            return hole
    return None
