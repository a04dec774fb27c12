"""Place an ask on a node: the facts that allocate it, or the question to the RM (semantics sections 7 and 10)."""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import Allocated, Fact, PredicateAsked
from ..limits import ANSWER_WITHIN_MS
from ..rules import lifecycle
from ..state import Node, Partition, PendingAsk, State
from .transitions import start
from .verdicts import accepted, class_of

# `PredicateAsked.kind`: may the ask be placed on the node?
PLACE = "place"


def place(state: State, partition: Partition, pending: PendingAsk, node: Node, now_ms: int) -> Iterator[Fact]:
    """The question, where the RM declares predicates and has given no verdict. Else the application's new state if it
    has another one, then the allocation."""
    if state.predicates and not accepted(pending, node, now_ms):
        yield ask_before_placing(state, pending, node, now_ms)
        return
    if pending.application.state != lifecycle.RUNNING:
        yield from start(partition, pending.application, now_ms, pending.ask)
    yield allocate(state, pending, node.id)


def ask_before_placing(state: State, pending: PendingAsk, node: Node, now_ms: int) -> PredicateAsked:
    """The question. The ask's room on the node is taken until the answer, which makes the allocation or gives the room
    back."""
    ask = pending.ask
    return PredicateAsked(
        ask.partition,
        ask.application_id,
        ask.allocation_key,
        node.id,
        ask.resource,
        PLACE,
        state.next_question,
        now_ms + ANSWER_WITHIN_MS,
        class_of(pending),
        ask.tags if class_of(pending) else {},
    )


def allocate(state: State, pending: PendingAsk, node_id: str, question: int = 0) -> Allocated:
    """The fact that allocates one repeat of the ask. `question`: the number of the question that the RM has answered; 0
    if it was not asked."""
    ask = pending.ask
    return Allocated(
        ask.partition,
        pending.application.id,  # this string, not the ask's own: thousands of allocations share it
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
