"""The scheduling cycle (semantics section 9), in its own words. A pass takes a partition through STEPS:

reserved    asks for which a node is kept: on that node, or on another
normal      gangs            real asks take the places their placeholders keep, where there are any to take (`gang`)
            who is next?     the first ask, in the order of queues, applications and asks, that fits under every maximum
            where is best?   the node it fits that scores best
            nowhere          an ask that has waited long enough reserves a node; its demand is set aside until one gains
                             room, and the next is looked for
            allocate         the application's new state first, then the allocation
                             (where the RM declares predicates: ask it, and allocate when it answers)
preempt     for who still waits: may others be preempted?
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final

from ..commands import Schedule
from ..facts import Fact
from ..limits import QUESTIONS_OPEN
from ..rules import lifecycle
from ..rules.connection import RUNNING
from ..state import Partition, State
from .attempt import preempt
from .gang import replace
from .index import Index
from .place import allocate, placed
from .reserve import reserve, unreserved
from .states import start


def schedule(state: State, command: Schedule, now_ms: int) -> Iterator[Fact]:
    """Nothing unless the RM is there to hear of it."""
    if state.rm_state != RUNNING:
        return
    for partition in state.partitions.values():
        index_of(partition).begin(now_ms, state.reservation_delay_ms)
        left = command.limit
        if state.predicates:
            left = min(left, QUESTIONS_OPEN - len(partition.questions))
        for step in STEPS:
            if left > 0:
                left -= yield from step(state, partition, left, now_ms)


def reserved(state: State, partition: Partition, limit: int, now_ms: int) -> Generator[Fact, None, int]:
    done = 0
    while done < limit and (found := index_of(partition).reservations.next()) is not None:
        kept, node = found
        pending = kept.reservation
        assert pending is not None, "a reservation is for an ask"
        yield unreserved(partition, pending, kept, f"placed on {node.id}")
        yield from placed(state, partition, pending, node, now_ms)
        done += 1
    return done


def normal(state: State, partition: Partition, limit: int, now_ms: int) -> Generator[Fact, None, int]:
    done = 0
    index, is_asked = index_of(partition), state.predicates
    while done < limit:
        if index.gangs_to_serve:
            done += yield from replace(state, index, limit - done, now_ms)
            continue
        pending = index.next_ask()
        if pending is None:
            break
        demand = pending.line.lane.demand  # type: ignore[union-attr]
        node = index.nodes.best(demand) if demand.open or index.gaps.nodes else None
        if node is None:
            assert demand.live, "what fits a gap fits a node"
            if demand.open:
                index.close(demand)
            if demand.reserving:
                done += yield from reserve(state, partition, index, pending, now_ms)
            continue
        done += 1
        application = pending.application
        if is_asked:
            yield from placed(state, partition, pending, node, now_ms)
        else:  # the same without the call
            if application.state != lifecycle.RUNNING:
                yield from start(partition, application, now_ms, pending.ask)
            yield allocate(state, pending, node.id)
        index = partition.index or index_of(partition)
    return done


def preemption(state: State, partition: Partition, limit: int, now_ms: int) -> Generator[Fact, None, int]:
    claimants = index_of(partition).claimants
    if claimants is not None:
        yield from preempt(state, partition, claimants, limit, now_ms)
    return 0


Step = Callable[[State, Partition, int, int], Generator[Fact, None, int]]
# Each places at most so many, and returns how many it did.
STEPS: Final[tuple[Step, ...]] = (reserved, normal, preemption)


def index_of(partition: Partition) -> Index:
    if partition.index is None:
        partition.index = Index(partition)
    return partition.index
