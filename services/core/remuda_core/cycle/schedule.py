"""The scheduling cycle (semantics section 9), in its own words. A pass takes each partition through these steps:

reserved    asks for which a node is kept: on that node, or on another; those bound to it may preempt there
normal      gangs            real asks take the places their placeholders keep, where there are any to take (`gang`)
            who is next?     the first ask, in the order of queues, applications and asks, that fits under every maximum
            where is best?   the node it fits that scores best
            nowhere          an ask that has waited long enough reserves a node; one that is bound to it does at once,
                             and may preempt there; its demand is set aside until one gains room, and the next is
                             looked for
            allocate         the application's new state first, then the allocation
                             (where the RM declares predicates: ask it, and allocate when it answers)
preempt     for who still waits: may others be preempted?
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ..commands import Schedule
from ..facts import Fact
from ..index.index import Index
from ..index.partition import PartitionIndex
from ..limits import QUESTIONS_OPEN
from ..rules import lifecycle
from ..rules.connection import RUNNING
from ..rules.resource import INT64_MAX
from ..state import Partition, State
from .place import allocate, placed
from .preempt import preempt, preempt_in_turn, preempt_where_bound
from .replace import replace
from .reserve import reserve, unreserved
from .transitions import start


def schedule(state: State, index: Index, command: Schedule, now_ms: int) -> Iterator[Fact]:
    """Nothing unless the RM is there to hear of it. The limit is for all partitions: it is shared out evenly, and what
    some do not need goes to the others. Each gets at least one, so that none waits for the backlog of another."""
    if state.rm_state != RUNNING:
        return
    partitions = list(state.partitions.values())
    for partition in partitions:
        index.of(state, partition).begin_pass(now_ms, state.reservation_delay_ms)
    left, rest = min(command.limit, state.room), dict[str, int]()
    busy = tried = partitions if left > 0 else []
    while busy:
        share, more = max(1, left // len(busy)), []
        for partition in busy:
            one, room = index.of(state, partition), min(share, room_for_questions(state, partition))
            done = yield from reserved(state, partition, one, room, now_ms)
            yield from preempt_where_bound(state, partition, one, now_ms)  # whatever the limit: nothing is placed
            if done < room:
                done += yield from normal(state, partition, one, room - done, now_ms)
            left -= done
            if done < room:
                rest[partition.name] = room - done
            elif room == share:
                more.append(partition)
        busy = more[: max(0, left)]
    for partition in tried:
        one = index.of(state, partition)
        if one.preemptors is not None:
            yield from preempt(state, partition, one, one.preemptors, rest.get(partition.name, 0), now_ms)


def room_for_questions(state: State, partition: Partition) -> int:
    """How many allocations may be asked about; without predicates there is no bound."""
    return QUESTIONS_OPEN - len(partition.questions) if state.predicates else INT64_MAX


def reserved(
    state: State, partition: Partition, index: PartitionIndex, limit: int, now_ms: int
) -> Generator[Fact, None, int]:
    """Returns how many were placed, as `normal` does."""
    done = 0
    while done < limit and (found := index.reservations.next()) is not None:
        kept, node = found
        pending = kept.reservation
        assert pending is not None, "a reservation is for an ask"
        yield unreserved(partition, pending, kept, f"placed on {node.id}")
        yield from placed(state, partition, pending, node, now_ms)
        done += 1
    return done


def normal(
    state: State, partition: Partition, index: PartitionIndex, limit: int, now_ms: int
) -> Generator[Fact, None, int]:
    done = 0
    is_asked = state.predicates
    while done < limit:
        if index.gangs_to_serve:
            done += yield from replace(state, index, limit - done, now_ms)
            continue
        ask_class = index.next_ask_class()
        if ask_class is None:
            break
        pending, demand = ask_class.first(), ask_class.demand
        node = index.nodes.best(demand) if demand.open or index.freed_nodes.nodes else None
        if node is None:
            assert demand.live, "what fits a gap fits a node"
            if demand.open:
                index.close(demand)
            if demand.reserving:
                done += yield from reserve(state, partition, index, ask_class, pending, now_ms)
                if demand.required_node and done < limit:  # else in the next pass, before any normal ask
                    yield from preempt_in_turn(state, partition, index, pending, now_ms)
            continue
        done += 1
        application = pending.application
        if is_asked:
            yield from placed(state, partition, pending, node, now_ms)
        else:  # the same without the call
            if application.state != lifecycle.RUNNING:
                yield from start(partition, application, now_ms, pending.ask)
            yield allocate(state, pending, node.id)
    return done
