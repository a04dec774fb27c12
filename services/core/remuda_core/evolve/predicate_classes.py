"""Predicate classes: an RM that answers in batches has verdicts about nodes for classes of asks.

A class without asks keeps its verdicts for asks to come, as long as it is among the last PREDICATE_CLASSES_KEPT. All
classes of a partition together keep at most its part of VERDICTS_KEPT: then the oldest forget theirs, and the RM is
asked again.
"""

from __future__ import annotations

from .. import facts, timeouts
from ..limits import CLASS_QUESTIONS_OPEN, PREDICATE_CLASSES_KEPT, VERDICTS_KEPT
from ..rules.predicate_class import predicate_class
from ..state import NEVER_MS, Partition, PendingAsk, PredicateClass, State


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
