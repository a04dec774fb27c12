"""One scheduling pass (semantics section 9). `schedule` takes each partition through three steps.

1. Reserved asks. Reservations end of which a condition is gone, and asks take nodes that are kept for others of less
   right. An ask for which a node is reserved is placed on that node or on any other with room. An ask that is bound to
   its reserved node may preempt there.
2. All other asks. Gangs come first: real asks replace placeholders. Then, until nothing more can be placed:
   a. *Which ask is next?* The first one, in the order of queues, applications and asks, that fits under every maximum
      and limit.
   b. *Which node is best?* The one with the best score among those that the ask fits; where applications are packed, a
      node on which its application is already comes first.
   c. A node was found: allocate, or ask the RM first where it declares predicates.
   d. No node was found: set the ask's demand aside until a node gains room. If the ask has waited for the reservation
      delay, it reserves a node. If it is bound to a node, it reserves that node at once, and may preempt there.
   With backfill, asks that end in time are placed on reserved nodes at last. Where the oldest group waits for long,
   others avoid a domain from now on.
3. Preemption, for asks that still wait and whose queues guarantee them what they need.

A pass yields facts. The caller writes each fact into state and index before the pass continues, so every line here sees
all earlier decisions. Asks that cannot be placed are set aside in the index and cost nothing until that may change. A
pass is bounded in what it places and in what it looks at.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ..commands import Schedule
from ..facts import Fact
from ..index.index import Index
from ..index.node_groups import Demand
from ..index.partition import PartitionIndex
from ..index.patience import LateAsks
from ..limits import QUESTIONS_OPEN, STEPS_PER_PASS, STEPS_PER_PLACEMENT
from ..rules import lifecycle
from ..rules.connection import RUNNING
from ..rules.resource import INT64_MAX
from ..state import Node, Partition, PendingAsk, State
from .avoid import avoid
from .backfill import backfill
from .groups import place_group
from .measure import measure_work
from .place import allocate, ask_for_more, choose_devices, expired, place
from .preempt import preempt, preempt_in_turn, preempt_where_bound
from .preempt_groups import place_freed
from .replace import replace
from .reserve import end_unjustified, reserve, take_kept, unreserved


def schedule(state: State, index: Index, command: Schedule, now_ms: int) -> Iterator[Fact]:
    """All facts of one pass; none unless the RM is connected.

    `command.limit`: how many asks may be placed in all partitions together. The partitions share it evenly, and what
    one of them does not need goes to the others. Each may place at least one, so that none waits for the backlog of
    another. A partition that has used up its steps (STEPS_PER_PASS) places no more in this pass. `index.unfinished` is
    set if the next pass has to continue."""
    index.unfinished = False
    if state.rm_state != RUNNING:
        return
    # Begin the pass: reservations end of which a condition is gone.
    partitions = list(state.partitions.values())
    for partition in partitions:
        one = index.of(state, partition)
        one.begin_pass(now_ms, state.reservation_delay_ms, STEPS_PER_PASS // len(partitions))
        yield from end_unjustified(one)
    # Steps 1 and 2, again for partitions whose share of the limit was too small.
    left, unused = min(command.limit, state.room), dict[str, int]()
    busy = scheduled = partitions if left > 0 else []
    while busy:
        share, still_busy = max(1, left // len(busy)), []
        for partition in busy:
            one, limit = index.of(state, partition), min(share, questions_left(state, partition))
            # 1. Reserved asks.
            placed = yield from place_freed(state, partition, one, now_ms)
            placed += yield from take_kept(state, partition, one, limit - placed, now_ms)
            placed += yield from place_reserved(state, partition, one, limit - placed, now_ms)
            yield from preempt_where_bound(state, partition, one, now_ms)  # whatever the limit: nothing is placed
            # 2. All other asks.
            if placed < limit:
                placed += yield from place_pending(state, partition, one, limit - placed, now_ms)
            if one.candidates is not None and placed < limit:
                placed += yield from backfill(state, partition, one, limit - placed, now_ms)
            left -= placed
            if one.budget.left <= 0:
                continue
            if placed < limit:
                unused[partition.name] = limit - placed
            elif limit == share or questions_left(state, partition):  # accepted nodes take no question
                still_busy.append(partition)
        busy = still_busy[: max(0, left)]
    index.unfinished = any(index.of(state, partition).budget.left <= 0 for partition in scheduled)
    # 3. Preemption.
    for partition in scheduled:
        one = index.of(state, partition)
        if one.groups is not None:
            yield from avoid(state, partition, one, one.groups, now_ms)
        yield from end_unjustified(one)
        if one.preemptors is not None:
            yield from preempt(state, partition, one, one.preemptors, unused.get(partition.name, 0), now_ms)
        if partition.prices is not None:
            yield from measure_work(state, partition, now_ms)


def questions_left(state: State, partition: Partition) -> int:
    """The number of further placements that the RM may be asked about; unlimited if the RM declares no predicates."""
    return QUESTIONS_OPEN - len(partition.questions) if state.predicates else INT64_MAX


def place_reserved(
    state: State, partition: Partition, index: PartitionIndex, limit: int, now_ms: int
) -> Generator[Fact, None, int]:
    """Step 1: asks with reservations, in the order of queues. Returns how many were placed, at most `limit`."""
    placed = 0
    while placed < limit and (found := index.reservations.next_placement()) is not None:
        reserved, node = found
        pending = reserved.reservation
        assert pending is not None, "a reservation is for an ask"
        yield unreserved(reserved, f"placed on {node.id}")
        yield from place(state, partition, pending, node, now_ms)
        placed += 1
    return placed


def place_pending(
    state: State, partition: Partition, index: PartitionIndex, limit: int, now_ms: int
) -> Generator[Fact, None, int]:
    """Step 2: all other asks, in the order of queues. Returns how many were placed, at most `limit`; a reservation
    counts as one. Ends early when the work of the pass is over."""
    placed, budget, packing, asks_first, freed = 0, index.budget, index.packing, state.predicates, index.freed_nodes
    nodes, gangs_to_serve = index.nodes, index.gangs_to_serve
    late = index.late_asks if index.late_asks.late else None  # no ask becomes late while a pass goes on
    is_plain = late is None and index.groups is None
    while placed < limit and budget.left > 0:
        # Gangs come first.
        if gangs_to_serve:
            placed += yield from replace(state, index, limit - placed, now_ms)
            continue
        # a. Which ask is next?
        ask_class = index.next_ask_class()
        if ask_class is None:
            break
        budget.left -= STEPS_PER_PLACEMENT
        budget.found = True
        pending, demand = ask_class.first(), ask_class.demand
        node = None
        if not is_plain:
            if late is not None and (found := place_for_late_ask(index, late, pending)) is not None:
                pending, demand, node = found
            elif demand.group_of_asks is not None:
                placed += yield from place_group(state, partition, index, demand, pending, now_ms)
                continue
        # b. Which node is best?
        if packing is not None and node is None and index.some_node_fits(demand):
            node = packing.best(pending.application, demand)
        if node is None:
            node = nodes.best(demand) if demand.open else index.best_freed_node(demand)
        # c. A node was found.
        if node is not None:
            known = demand.predicate_class
            if known is not None and not known.accepts(node.id, now_ms):
                yield expired(partition, known, now_ms)
                continue
            if (asks_first and known is None) or pending.application.state != lifecycle.RUNNING:
                yield from place(state, partition, pending, node, now_ms)
            elif node.devices:
                yield allocate(state, pending, node, devices=choose_devices(partition, pending, node))
            else:  # nearly always. Through `place` a placement takes 2 % more instructions (callgrind, "5000 nodes")
                yield allocate(state, pending, node)
            if freed.nodes:
                freed.shrunk(node)
            placed += 1
            continue
        # d. No node was found.
        if demand.open:
            yield from ask_for_more(state, index, demand, pending, now_ms)
            index.close(demand)
        if demand.reserving:
            placed += yield from reserve(state, partition, index, ask_class, pending, now_ms)
            if demand.required_node and placed < limit:  # else in the next pass, before any ask without a reservation
                yield from preempt_in_turn(state, partition, index, pending, now_ms)
    return placed


def place_for_late_ask(
    index: PartitionIndex, late: LateAsks, first: PendingAsk
) -> tuple[PendingAsk, Demand, Node] | None:
    """The first ask that has waited longer than the patience of its queue, may go before `first` and fits a node, and
    the best node for it."""
    for ask, demand in late.before(first):
        if (node := index.node_for(ask, demand)) is not None:
            return ask, demand, node
        late.pass_over(ask)
    return None
