"""Facts of questions to the RM. The resources in question are booked like an allocation, so that no other ask takes
them.

An RM that answers about one ask and node has its refusals noted with the ask, until they expire. An RM that answers in
batches has verdicts about nodes for classes of asks. A class without asks keeps its verdicts for asks to come, as long
as it is among the last PREDICATE_CLASSES_KEPT. All classes of a partition together keep at most its part of
VERDICTS_KEPT: then the oldest forget theirs, and the RM is asked again.
"""

from __future__ import annotations

from .. import facts, timeouts
from ..costs import ends_ms
from ..limits import CLASS_QUESTIONS_OPEN, PREDICATE_CLASSES_KEPT, REFUSALS_LAST_MS, VERDICTS_KEPT
from ..rules.predicate_class import predicate_class
from ..state import (
    NEVER_MS,
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


def predicates_asked(state: State, fact: facts.PredicatesAsked) -> PredicateClass:
    partition = state.partitions[fact.partition]
    found = partition.predicate_classes[fact.predicate_class]
    state.next_question = fact.question + 1
    partition.last_asked = fact.node_ids[-1]
    partition.class_questions[fact.question] = found
    found.question, found.asked, found.answer_by_ms = fact.question, dict.fromkeys(fact.node_ids), fact.answer_by_ms
    partition.questions_paused = len(partition.class_questions) >= CLASS_QUESTIONS_OPEN
    state.timers.put(timeouts.of_class_question(partition.name, found))
    return found


def predicates_answered(state: State, fact: facts.PredicatesAnswered) -> tuple[PredicateClass, ...]:
    """Note the verdicts. Returns the classes whose asks may find a node now: that of the question, and those that have
    forgotten their verdicts because there are too many."""
    partition = state.partitions[fact.partition]
    found = partition.class_questions[fact.question]
    _question_over(state, partition, found)
    for node_id, until_ms, reason in zip(fact.node_ids, fact.until_ms, fact.reasons, strict=True):
        if reason:
            refuse(state, partition, found, node_id, until_ms or NEVER_MS, reason)
        else:
            _forget(partition, found, node_id)
            found.accepted[node_id] = until_ms or NEVER_MS
            partition.verdicts += 1
            _ends_by(state, partition, found, until_ms or NEVER_MS)
    return (found, *_bounded(state, partition, found))


def verdicts_expired(state: State, fact: facts.VerdictsExpired) -> None:
    partition = state.partitions[fact.partition]
    found = partition.predicate_classes[fact.predicate_class]
    state.timers.cancel(timeouts.of_verdicts(partition.name, found))
    for node_id in fact.node_ids:
        _forget(partition, found, node_id)
    found.until_ms = min((*found.accepted.values(), *found.refused.values()), default=NEVER_MS)
    state.timers.put(timeouts.of_verdicts(partition.name, found))


def refuse(state: State, partition: Partition, found: PredicateClass, node_id: str, until_ms: int, reason: str) -> None:
    """Note that the RM refuses the node for all asks of the class."""
    _forget(partition, found, node_id)
    found.refused[node_id] = until_ms
    partition.verdicts += 1
    found.refusal = f"{node_id}: {reason}"
    _ends_by(state, partition, found, until_ms)


def _ends_by(state: State, partition: Partition, found: PredicateClass, until_ms: int) -> None:
    """Set a timer for a verdict of the class that ends at this time."""
    if until_ms < found.until_ms:
        state.timers.cancel(timeouts.of_verdicts(partition.name, found))
        found.until_ms = until_ms
        state.timers.put(timeouts.of_verdicts(partition.name, found))


def verdicts_lifted(partition: Partition, node_id: str) -> None:
    """Forget verdicts about a node that has changed or is gone, and let questions that name it as it was not count for
    it. O(classes)."""
    for found in partition.predicate_classes.values():
        _forget(partition, found, node_id)
        found.asked.pop(node_id, None)


def _forget(partition: Partition, found: PredicateClass, node_id: str) -> None:
    if found.accepted.pop(node_id, None) is not None:
        partition.verdicts -= 1
    if found.refused.pop(node_id, None) is not None:
        partition.verdicts -= 1


def _question_over(state: State, partition: Partition, found: PredicateClass) -> None:
    state.timers.cancel(timeouts.of_class_question(partition.name, found))
    partition.class_questions.pop(found.question, None)
    if len(partition.class_questions) <= CLASS_QUESTIONS_OPEN // 2:
        partition.questions_paused = False
    found.question, found.asked, found.answer_by_ms = 0, {}, 0


def _bounded(state: State, partition: Partition, spared: PredicateClass) -> list[PredicateClass]:
    """Have the oldest classes forget their verdicts, except `spared`, while there are too many."""
    forgetful = list[PredicateClass]()
    most = VERDICTS_KEPT // len(state.partitions)
    if partition.verdicts <= most:
        return forgetful
    with_asks = [found for found in partition.predicate_classes.values() if found.asks]
    for found in (*partition.idle_classes.values(), *with_asks):
        if partition.verdicts <= most:
            break
        if found is spared:
            continue
        if found.asks:
            _forget_all(state, partition, found)
            forgetful.append(found)
        else:
            drop_class(state, partition, found)
    return forgetful


def _forget_all(state: State, partition: Partition, found: PredicateClass) -> None:
    state.timers.cancel(timeouts.of_verdicts(partition.name, found))
    partition.verdicts -= found.verdicts
    found.accepted.clear()
    found.refused.clear()
    found.until_ms = NEVER_MS


def drop_class(state: State, partition: Partition, found: PredicateClass) -> None:
    _forget_all(state, partition, found)
    if found.question:
        _question_over(state, partition, found)
    partition.idle_classes.pop(found.name, None)
    del partition.predicate_classes[found.name]


# Which asks are in which class


def join_class(partition: Partition, pending: PendingAsk) -> None:
    """Add a pending ask to its class, if the RM answers in batches."""
    found = class_named(partition, predicate_class(pending.ask.resource, pending.ask.tags))
    if not found.asks:  # behind all classes with asks
        partition.idle_classes.pop(found.name, None)
        partition.predicate_classes[found.name] = partition.predicate_classes.pop(found.name)
    found.asks += 1
    pending.refused = found


def class_named(partition: Partition, name: str) -> PredicateClass:
    found = partition.predicate_classes.get(name)
    if found is None:
        found = partition.predicate_classes[name] = PredicateClass(name)
    return found


def leave_class(state: State, partition: Partition, pending: PendingAsk) -> None:
    """Remove an ask of which nothing is pending any more from its class. Does nothing if it is in no class."""
    found = pending.refused
    if not isinstance(found, PredicateClass):
        return
    found.asks -= 1
    if not found.asks:
        partition.idle_classes[found.name] = found
        if len(partition.idle_classes) > PREDICATE_CLASSES_KEPT:
            drop_class(state, partition, next(iter(partition.idle_classes.values())))


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
