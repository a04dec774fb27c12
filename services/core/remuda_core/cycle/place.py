"""An ask is placed on a node: what that means in facts."""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import Allocated, Fact, PredicateAsked
from ..limits import ANSWER_WITHIN_MS
from ..rules import lifecycle
from ..state import Node, Partition, PendingAsk, State
from .transitions import start

# What an RM is asked: may it be placed there now?
PLACE = "place"


def placed(state: State, partition: Partition, pending: PendingAsk, node: Node, now_ms: int) -> Iterator[Fact]:
    """The application's new state first, then the allocation. Where the RM declares predicates: a question, and all
    that when it is answered."""
    if state.predicates:
        yield ask_rm(state, pending, node, PLACE, now_ms)
        return
    application = pending.application
    if application.state != lifecycle.RUNNING:
        yield from start(partition, application, now_ms, pending.ask)
    yield allocate(state, pending, node.id)


def allocate(state: State, pending: PendingAsk, node_id: str, question: int = 0) -> Allocated:
    ask = pending.ask
    return Allocated(
        ask.partition,
        pending.application.id,  # the same as the ask's own: thousands of allocations share it, and it is found at once
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
