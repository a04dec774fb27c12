"""Facts of questions to the RM. The resources in question are booked like an allocation, so that no other ask takes
them."""

from __future__ import annotations

from .. import facts, timeouts
from ..state import (
    Application,
    Partition,
    PendingAsk,
    Question,
    Replacement,
    State,
)
from .booking import book_allocated
from .pending import book_pending, one_more_pending, prioritise
from .refusals import node_refused
from .tracking import count_claims


def predicate_asked(state: State, fact: facts.PredicateAsked) -> PendingAsk:
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    pending = application.asks[fact.allocation_key]
    node = partition.nodes[fact.node_id]
    state.next_question = fact.question + 1
    question = partition.questions[fact.question] = Question(fact, node, application)
    state.timers.put(timeouts.of_question(question))
    pending.pending -= 1
    pending.free -= 1
    pending.asked += 1
    book_pending(application, fact.resource, -1)
    book_allocated(application, node, fact.resource, 1)
    node.allocations_left -= 1
    if not pending.pending:
        prioritise(application, pending.ask.priority, -1)
    count_claims(application, 1)
    return pending


def predicate_refused(state: State, fact: facts.PredicateRefused) -> Question | None:
    """Returns the question; None if it was about a replacement, which a fact before has cancelled."""
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    node_refused(state, partition, pending, fact)
    question = partition.questions.pop(fact.question, None)
    if question is not None:
        _pending_again(state, pending, question)
    return question


def predicate_withdrawn(state: State, fact: facts.PredicateWithdrawn) -> Question:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    question = partition.questions.pop(fact.question)
    _pending_again(state, pending, question)
    return question


def _pending_again(state: State, pending: PendingAsk, question: Question) -> None:
    state.timers.cancel(timeouts.of_question(question))
    pending.asked -= 1
    _free(question)
    one_more_pending(pending)


def questions_dropped(
    state: State, partition: Partition, application: Application, pending: PendingAsk
) -> tuple[Question, ...]:
    """Withdraw the questions about an ask. Searches all questions, of which there are few."""
    key = pending.ask.allocation_key
    dropped = [q for q in partition.questions.values() if q.application is application and q.fact.allocation_key == key]
    for question in dropped:
        del partition.questions[question.fact.question]
        state.timers.cancel(timeouts.of_question(question))
        _free(question)
    pending.asked = 0
    return tuple(dropped)


def _free(question: Question) -> None:
    """Free the resources that the question has booked."""
    book_allocated(question.application, question.node, question.fact.resource, -1)
    question.node.allocations_left += 1
    count_claims(question.application, -1)


def replacement_asked(state: State, fact: facts.ReplacementAsked) -> None:
    partition = state.partitions[fact.partition]
    replacement = partition.applications[fact.application_id].replacements[fact.uuid]
    state.next_question = fact.question + 1
    replacement.question, replacement.answer_by_ms = fact.question, fact.answer_by_ms
    state.timers.put(timeouts.of_replacement(replacement))
    partition.replacements_asked[fact.question] = replacement


def replacement_question_over(state: State, partition: Partition, replacement: Replacement) -> None:
    state.timers.cancel(timeouts.of_replacement(replacement))
    del partition.replacements_asked[replacement.question]
    replacement.question = 0
