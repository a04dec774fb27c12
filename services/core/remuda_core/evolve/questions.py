"""Facts of questions to the RM about one ask and node. The resources in question are booked like an allocation, so that
no other ask takes them. Its refusals are noted with the ask, until they expire, or with its predicate class.
"""

from __future__ import annotations

from .. import facts, timeouts
from ..costs import ends_ms
from ..limits import REFUSALS_LAST_MS
from ..state import (
    NO_NODES,
    UNBOUNDED,
    Application,
    Node,
    Partition,
    PendingAsk,
    PredicateClass,
    Question,
    Replacement,
    State,
)
from .booking import book_allocated, book_devices, book_pending, count_claims, one_more_pending, prioritise
from .budgets import commit_until
from .predicate_classes import drop_class, join_class, leave_class, refuse, verdicts_lifted


def predicate_asked(state: State, fact: facts.PredicateAsked) -> PendingAsk:
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    pending = application.asks[fact.allocation_key]
    node = partition.nodes[fact.node_id]
    state.next_question = fact.question + 1
    question = partition.questions[fact.question] = Question(fact, node, application)
    state.timers.put(timeouts.of_question(question))
    if application.queue.budgets:
        question.until_ms = ends_ms(application, pending.ask, fact.answer_by_ms) or UNBOUNDED
        commit_until(application, question.until_ms, fact.resource, 1)
    pending.pending -= 1
    pending.free -= 1
    pending.asked += 1
    book_pending(application, fact.resource, -1)
    book_allocated(application, node, fact.resource, 1, state.now_ms)
    book_devices(node, fact, 1)
    node.allocations_left -= 1
    if not pending.pending:
        prioritise(application, pending.ask.priority, -1)
    count_claims(application, 1)
    return pending


def predicate_refused(state: State, fact: facts.PredicateRefused) -> Question | None:
    """Note the refusal. Returns the question; None if it was about a replacement, which a fact before has cancelled."""
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
    _free(state, question)
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
        _free(state, question)
    pending.asked = 0
    return tuple(dropped)


def _free(state: State, question: Question) -> None:
    """Free the resources that the question has booked."""
    commit_until(question.application, question.until_ms, question.fact.resource, -1)
    book_allocated(question.application, question.node, question.fact.resource, -1, state.now_ms)
    book_devices(question.node, question.fact, -1)
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


def refusals_forgotten(state: State, fact: facts.RefusalsForgotten) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    refusals_over(state, partition, pending)
    pending.refused = NO_NODES


def node_refused(
    state: State, partition: Partition, pending: PendingAsk, fact: facts.PredicateRefused | facts.PreemptionAnswered
) -> None:
    if isinstance(pending.refused, PredicateClass):
        refuse(state, partition, pending.refused, fact.node_id, state.now_ms + REFUSALS_LAST_MS, fact.reason)
        return
    state.timers.cancel(timeouts.of_refusals(pending))
    pending.refused |= {fact.node_id}
    pending.refusal = f"{fact.node_id}: {fact.reason}"
    pending.refused_at_ms = state.now_ms
    partition.refused[pending] = None
    state.timers.put(timeouts.of_refusals(pending))


def refusals_over(state: State, partition: Partition, pending: PendingAsk) -> None:
    """Forget the refused nodes of an ask."""
    if pending in partition.refused:
        del partition.refused[pending]
        state.timers.cancel(timeouts.of_refusals(pending))


def refusals_lifted(state: State, partition: Partition, node: Node) -> tuple[PendingAsk, ...]:
    """Forget refusals of a node that has changed. Returns the asks for which it was refused."""
    verdicts_lifted(partition, node.id)
    lifted = tuple(pending for pending in partition.refused if node.id in pending.refused)
    for pending in lifted:
        assert isinstance(pending.refused, frozenset), "classes are not listed by ask"
        refused = pending.refused - {node.id}
        if not refused:
            refusals_over(state, partition, pending)
        pending.refused = refused
    return lifted


def forget_if_served(state: State, partition: Partition, pending: PendingAsk) -> None:
    """Forget the refused nodes of an ask of which nothing is pending or in question."""
    if not pending.pending and not pending.asked:
        del pending.application.asks[pending.ask.allocation_key]
        refusals_over(state, partition, pending)
        leave_class(state, partition, pending)


def declaration_changed(state: State) -> None:
    """Follow an RM that begins or ceases to answer in batches, and keeps its state."""
    for partition in state.partitions.values():
        partition.batch_predicates = state.batch_predicates
        for pending in partition.refused:
            state.timers.cancel(timeouts.of_refusals(pending))
        partition.refused.clear()
        for found in list(partition.predicate_classes.values()):
            drop_class(state, partition, found)
        for application in partition.applications.values():
            for pending in application.asks.values():
                pending.refused = NO_NODES
                if partition.batch_predicates:
                    join_class(partition, pending)
