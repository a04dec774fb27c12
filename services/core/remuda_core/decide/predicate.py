"""AnswerPredicate and AnswerPredicates (000, Predicates; semantics sections 10, 13): the RM's answers to questions of a
pass, about one ask and node, or about many nodes for a predicate class.

Between question and answer the state may change. An answer without an open question is ignored, and so are verdicts
about nodes that have changed since the question. An allocation that fits no longer is not made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from remuda_proto.bounds import MESSAGE_BYTES, shortened

from .. import facts
from ..commands import AnswerPredicate, AnswerPredicates, Verdict
from ..cycle.place import allocate, expired
from ..cycle.preempt import ask_rm, carry_out, plan
from ..cycle.replace import asked_for
from ..cycle.transitions import start
from ..facts import Fact, Tags
from ..index.index import Index
from ..limits import ANSWER_WITHIN_MS, REFUSALS_LAST_MS, VERDICT_LASTS_LEAST_MS, VERDICT_LASTS_MOST_MS
from ..rules import lifecycle
from ..rules.connection import RUNNING
from ..rules.devices import split
from ..rules.leaving import still_ends_before
from ..rules.required_node import required_node
from ..state import Node, Partition, PendingAsk, PredicateClass, Preemption, Question, Queue, Replacement, State
from ..timeouts import preemption_asked
from .allocation import replacement_cancelled

NOT_ANSWERED: Final = f"the RM has not answered within {ANSWER_WITHIN_MS / 1_000:g} s"


def answer_predicate(state: State, index: Index, command: AnswerPredicate, now_ms: int) -> Iterator[Fact]:
    partition = state.partitions.get(command.partition)
    if partition is None:
        return
    command = replace(command, reason=shortened(command.reason, MESSAGE_BYTES))
    if state.rm_state != RUNNING:  # a silent RM gets no new allocations
        command = AnswerPredicate(command.partition, command.question, False, f"the RM is {state.rm_state}")
    question = partition.questions.get(command.question)
    if question is None:
        yield from answer_replacement(partition, command)
        yield from answer_preemption(state, partition, index, command, now_ms)
        return
    if not command.success:
        yield refused(question, command.reason or "the RM gave no reason")
        return
    problem = problem_of_question(question, now_ms)
    if problem is not None:
        yield withdrawn(question, problem)
        return
    fact, application = question.fact, question.application
    pending = application.asks[fact.allocation_key]
    if application.state != lifecycle.RUNNING:
        yield from start(partition, application, now_ms, pending.ask)
    yield allocate(state, pending, question.node, fact.question, fact.devices)


def answer_replacement(partition: Partition, command: AnswerPredicate) -> Iterator[Fact]:
    replacement = partition.replacements_asked.get(command.question)
    if replacement is None:
        return
    problem = problem_of_devices(replacement.node, replacement.fact.devices)
    if command.success and not problem and replacement.node.takes(required_node(replacement.fact.tags)):
        yield asked_for(replacement.placeholder, replacement.fact)
        return
    fact, reason = replacement.fact, command.reason or "the RM gave no reason"
    if command.success:
        reason = problem or f"node {replacement.node.id} takes nothing new any more"
    yield replacement_cancelled(replacement, reason)
    if not command.success and fact.allocation_key in replacement.placeholder.application.asks:
        yield facts.PredicateRefused(*fact.ask_name, fact.node_id, command.question, reason)


def answer_preemption(
    state: State, partition: Partition, index: Index, command: AnswerPredicate, now_ms: int
) -> Iterator[Fact]:
    """Handle the answer to a question about a preemption. After a yes it is planned again. If it is no longer needed,
    or the plan differs, it ends, and the RM is asked again in the ask's next turn."""
    asked = preemption_asked(partition, command.question)
    if asked is None:
        return
    spared = () if command.success or not command.spared else spared_by(partition, asked, frozenset(command.spared))
    yield preemption_answered(asked, command.success, command.reason, spared)
    is_spared = bool(set(spared) & set(asked.uuids))  # each round spares a victim, so that there is a last
    if not asked.pending.pending or not (is_spared or command.success):
        return
    found = plan(state, partition, asked.pending, now_ms, index=index.of(state, partition))
    if isinstance(found, str):
        return
    if is_spared:
        yield ask_rm(state, found, now_ms)
    elif (found.node, found.uuids) == (asked.node, asked.uuids):
        yield from carry_out(state, partition, found)


def spared_by(partition: Partition, asked: Preemption, keys: frozenset[str]) -> tuple[str, ...]:
    """Returns the UUIDs of the victims with these keys, and of other allocations with these keys on their nodes."""
    victims = [partition.allocations[uuid] for uuid in asked.uuids if uuid in partition.allocations]
    nodes = dict.fromkeys((asked.node, *(victim.node for victim in victims)))
    among = {a.fact.uuid: a for a in (*victims, *(a for node in nodes for a in node.allocations.values()))}
    return tuple(uuid for uuid, a in among.items() if a.fact.allocation_key in keys)


def preemption_answered(asked: Preemption, success: bool, reason: str, spared: tuple[str, ...] = ()) -> Fact:
    ask = asked.pending.ask
    return facts.PreemptionAnswered(*ask.name, asked.node.id, asked.question, success, reason, spared)


def problem_of_question(question: Question, now_ms: int) -> str | None:
    """The reason why the allocation in question can no longer be made; None if it can. Its resources are booked
    already."""
    node, resource = question.node, question.fact.resource
    pending = question.application.asks[question.fact.allocation_key]
    if not node.takes(required_node(pending.ask.tags)):
        return f"node {node.id} takes nothing new any more"
    if not still_ends_before(pending.ask.tags, pending.ask.execution_timeout_ms, node.leaves_for(pending), now_ms):
        return f"node {node.id} leaves before it would have ended"
    for name, available in node.available().items():
        if available < 0:
            return f"node {node.id} has no room any more: it lacks {name}={-available}"
    if problem := problem_of_devices(node, question.fact.devices):
        return problem
    for quota in question.application.quotas:
        for name, maximum in quota.most.items():
            used = quota.used.get(name, 0)
            if resource.get(name, 0) and used > maximum:
                what = "its maximum" if isinstance(quota, Queue) else "the limit"
                return f"{quota} is above {what}: {name}={used} of {maximum}"
    for gate in question.application.application_limits:
        if gate.running > gate.most_running and not question.application.allocations:
            return f"{gate} has {gate.running} running applications of {gate.most_running}"
    return None


def problem_of_devices(node: Node, held: Tags) -> str | None:
    """Why devices that were chosen before take nothing new any more. None if they do."""
    for resource, names in held.items():
        devices = node.devices.get(resource)
        if devices is None:
            continue
        for name in split(names):
            if name not in devices.room or name in devices.unfit:
                return f"device {name} of node {node.id} takes nothing new any more"
            if devices.room[name] < devices.used.get(name, 0):
                return f"device {name} of node {node.id} has no room any more"
    return None


def unanswered(
    state: State, partition: Partition, asked: Question | Replacement | Preemption, now_ms: int
) -> Iterator[Fact]:
    """Take it for a refusal that the RM has not answered a question in time."""
    if isinstance(asked, Question):
        yield refused(asked, NOT_ANSWERED)
    elif isinstance(asked, Replacement):
        yield from answer_replacement(partition, AnswerPredicate(partition.name, asked.question, False, NOT_ANSWERED))
    else:
        yield preemption_answered(asked, False, NOT_ANSWERED)


def refusals_old(state: State, partition: Partition, pending: PendingAsk, now_ms: int) -> Iterator[Fact]:
    """Forget the refusals of an ask REFUSALS_LAST_MS after the last one: all nodes may be tried again."""
    yield facts.RefusalsForgotten(*pending.ask.name)


def node_goes(partition: Partition, node: Node) -> Iterator[Fact]:
    for question in [question for question in partition.questions.values() if question.node is node]:
        yield withdrawn(question, f"node {node.id} was removed")


def refused(question: Question, reason: str) -> Fact:
    fact = question.fact
    return facts.PredicateRefused(*fact.ask_name, fact.node_id, fact.question, reason)


def withdrawn(question: Question, reason: str) -> Fact:
    fact = question.fact
    return facts.PredicateWithdrawn(*fact.ask_name, fact.node_id, fact.question, reason)


def answer_predicates(state: State, command: AnswerPredicates, now_ms: int) -> Iterator[Fact]:
    partition = state.partitions.get(command.partition)
    found = partition.class_questions.get(command.question) if partition is not None else None
    if partition is not None and found is not None:
        given = {verdict.node_id: verdict for verdict in command.verdicts}
        yield answered(partition, found, given, command.reason or "the RM gave no verdict", now_ms)


def answered(
    partition: Partition, found: PredicateClass, given: dict[str, Verdict], otherwise: str, now_ms: int
) -> Fact:
    """The fact with the verdicts about the nodes in question. `otherwise`: why a node without a verdict counts as
    refused."""
    missing = Verdict("", shortened(otherwise, MESSAGE_BYTES), REFUSALS_LAST_MS)
    verdicts = [given.get(node_id, missing) for node_id in found.asked]
    return facts.PredicatesAnswered(
        partition.name,
        found.name,
        found.question,
        tuple(found.asked),
        tuple(verdict.holds_ms and until_ms(verdict.holds_ms, now_ms) for verdict in verdicts),
        tuple(verdict.reason and shortened(verdict.reason, MESSAGE_BYTES) for verdict in verdicts),
    )


def until_ms(holds_ms: int, now_ms: int) -> int:
    """The time at which a verdict ends, in ms."""
    return now_ms + min(max(holds_ms, VERDICT_LASTS_LEAST_MS), VERDICT_LASTS_MOST_MS)


def class_unanswered(state: State, partition: Partition, found: PredicateClass, now_ms: int) -> Iterator[Fact]:
    """Take it for refusals of all nodes of the question, for a while, that the RM has not answered in time."""
    yield answered(partition, found, {}, NOT_ANSWERED, now_ms)


def verdicts_over(state: State, partition: Partition, found: PredicateClass, now_ms: int) -> Iterator[Fact]:
    """Forget the verdicts of a class whose time is over."""
    yield expired(partition, found, now_ms)
