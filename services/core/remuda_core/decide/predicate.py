"""AnswerPredicate (000, Predicates; semantics section 10): what the RM says to a question that a cycle has asked it.

Between question and answer the world goes on: what was asked about may have been withdrawn (then the answer finds no
question and means nothing), or may fit no more where it was to go.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..commands import AnswerPredicate
from ..cycle.place import allocate
from ..cycle.states import start
from ..facts import Fact
from ..limits import ANSWER_WITHIN_MS, REFUSALS_LAST_MS
from ..rules import lifecycle
from ..state import Alarm, Application, Node, Partition, Question, State


def answer_predicate(state: State, command: AnswerPredicate, now_ms: int) -> Iterator[Fact]:
    partition = state.partitions.get(command.partition)
    question = partition.questions.get(command.question) if partition is not None else None
    if partition is None or question is None:
        return
    if not command.success:
        yield refused(question, command.reason or "the RM gave no reason")
        return
    problem = problem_of(question)
    if problem is not None:
        yield withdrawn(question, problem)
        return
    fact, application = question.fact, question.application
    if application.state != lifecycle.RUNNING:
        yield from start(partition, application, now_ms)
    yield allocate(state, application.asks[fact.allocation_key].ask, fact.node_id, fact.question)


def problem_of(question: Question) -> str | None:
    """Why what was asked about cannot be allocated any more; what is held for it is booked already."""
    node, resource = question.node, question.fact.resource
    if not node.schedulable:
        return f"node {node.id} takes nothing new any more"
    for name, available in node.available().items():
        if available < 0:
            return f"node {node.id} has no room any more: it lacks {name}={-available}"
    for queue in question.application.queue.lineage:
        for name, maximum in queue.settings.max.items():
            used = queue.allocated.get(name, 0)
            if resource.get(name, 0) and used > maximum:
                return f"queue {queue.path} is above its maximum: {name}={used} of {maximum}"
    for tracker in question.application.trackers:
        for name, maximum in tracker.limit.max_resources.items():
            used = tracker.used.get(name, 0)
            if resource.get(name, 0) and used > maximum:
                return f"{tracker} is above the limit: {name}={used} of {maximum}"
    for gate in question.application.gates:
        if gate.running > gate.most_running and not question.application.allocations:
            return f"{gate} has {gate.running} running applications of {gate.most_running}"
    return None


def unanswered(
    state: State, partition: Partition, application: Application, alarm: Alarm, now_ms: int
) -> Iterator[Fact]:
    """Time is up for a question."""
    question = partition.questions.get(int(alarm.key))
    if question is not None:
        yield refused(question, f"the RM has not answered within {ANSWER_WITHIN_MS / 1_000:g} s")


def refusals_old(
    state: State, partition: Partition, application: Application, alarm: Alarm, now_ms: int
) -> Iterator[Fact]:
    """The last refusal of an ask was a while ago."""
    pending = application.asks.get(alarm.key)
    if pending is not None and pending.refused and pending.refused_at_ms + REFUSALS_LAST_MS == alarm.at_ms:
        yield facts.RefusalsForgotten(partition.name, application.id, alarm.key)


def node_goes(partition: Partition, node: Node) -> Iterator[Fact]:
    for question in [question for question in partition.questions.values() if question.node is node]:
        yield withdrawn(question, f"node {node.id} was removed")


def refused(question: Question, reason: str) -> Fact:
    fact = question.fact
    return facts.PredicateRefused(
        fact.partition, fact.application_id, fact.allocation_key, fact.node_id, fact.question, reason
    )


def withdrawn(question: Question, reason: str) -> Fact:
    fact = question.fact
    return facts.PredicateWithdrawn(
        fact.partition, fact.application_id, fact.allocation_key, fact.node_id, fact.question, reason
    )
