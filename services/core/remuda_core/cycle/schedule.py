"""The scheduling cycle (semantics section 9), in its own words:

while the budget lasts:
    who is next?        the first ask, in the order of queues, applications and asks, that fits under every maximum
    where is best?      the node it fits that scores best
    nowhere             set that demand aside until a node gains room, and go on with the next
    allocate            the application's new state first, then the allocation
                        (where the RM declares predicates: ask it, and allocate when it answers)
then, for who still waits: may others be preempted?
"""

from __future__ import annotations

from collections.abc import Iterator

from ..commands import Schedule
from ..facts import Allocated, Ask, Fact, PredicateAsked
from ..limits import ANSWER_WITHIN_MS, QUESTIONS_OPEN
from ..rules import lifecycle
from ..state import Node, Partition, PendingAsk, State
from .attempt import preempt
from .index import Index
from .states import start

# What an RM is asked: may it be placed there now?
PLACE = "place"


def schedule(state: State, command: Schedule, now_ms: int) -> Iterator[Fact]:
    budget, is_asked = command.limit, state.predicates
    for partition in state.partitions.values():
        index = index_of(partition)
        while budget > 0 and (pending := index.next_ask()) is not None:
            demand = pending.line.lane.demand  # type: ignore[union-attr]
            node = index.nodes.best(demand)
            if node is None:
                index.close(demand)
                continue
            if is_asked:
                if len(partition.questions) >= QUESTIONS_OPEN:
                    break
                budget -= 1
                yield ask_rm(state, pending, node, PLACE, now_ms)
                index = partition.index or index_of(partition)
                continue
            budget -= 1
            application = pending.application
            if application.state != lifecycle.RUNNING:
                yield from start(partition, application, now_ms)
            yield allocate(state, pending.ask, node.id)
            index = partition.index or index_of(partition)
        else:
            if budget > 0 and index.claimants is not None:
                yield from preempt(state, partition, index.claimants, budget, now_ms)


def allocate(state: State, ask: Ask, node_id: str, question: int = 0) -> Allocated:
    return Allocated(
        ask.partition,
        ask.application_id,
        ask.allocation_key,
        state.next_uuid(),
        node_id,
        ask.resource,
        ask.priority,
        ask.tags,
        ask.task_group,
        ask.placeholder,
        ask.execution_timeout_ms,
        ask.originator,
        ask.allow_preempt_self,
        question,
    )


def ask_rm(state: State, pending: PendingAsk, node: Node, kind: str, now_ms: int) -> PredicateAsked:
    ask = pending.ask
    return PredicateAsked(
        ask.partition,
        ask.application_id,
        ask.allocation_key,
        node.id,
        ask.resource,
        kind,
        state.next_question,
        now_ms + ANSWER_WITHIN_MS,
    )


def index_of(partition: Partition) -> Index:
    if partition.index is None:
        partition.index = Index(partition)
    return partition.index
