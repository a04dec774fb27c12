"""Place an ask on a node: the facts that allocate it, or the question to the RM (semantics sections 7 and 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from ..facts import Allocated, Fact, PredicateAsked
from ..limits import ANSWER_WITHIN_MS
from ..rules import lifecycle
from ..state import Node, Partition, PendingAsk, State
from .transitions import start

# `PredicateAsked.kind`: may the ask be placed on the node?
PLACE = "place"

# (state, partition, ask, node, now_ms) -> the facts of a placement.
Placing = Callable[[State, Partition, PendingAsk, Node, int], Iterable[Fact]]


def placing(state: State) -> Placing:
    """How asks of this RM are placed: at once, or after a question where the RM declares predicates. A pass looks this
    up once."""
    return ask_before_placing if state.predicates else place_at_once


def place_at_once(state: State, partition: Partition, pending: PendingAsk, node: Node, now_ms: int) -> Iterable[Fact]:
    """The application's new state if it has another one, then the allocation."""
    application, allocated = pending.application, allocate(state, pending, node.id)
    if application.state == lifecycle.RUNNING:
        return (allocated,)
    return chain(start(partition, application, now_ms, pending.ask), (allocated,))


def ask_before_placing(
    state: State, partition: Partition, pending: PendingAsk, node: Node, now_ms: int
) -> Iterable[Fact]:
    """The question. The ask's room on the node is taken until the answer, which makes the allocation or gives the room
    back."""
    ask = pending.ask
    return (
        PredicateAsked(
            ask.partition,
            ask.application_id,
            ask.allocation_key,
            node.id,
            ask.resource,
            PLACE,
            state.next_question,
            now_ms + ANSWER_WITHIN_MS,
        ),
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
