"""AnswerPredicates (000, Predicates; semantics section 10): the RM's verdicts about many nodes for a predicate class.

An answer without an open question is ignored, and so are verdicts about nodes that have changed since the question.
"""

from __future__ import annotations

from collections.abc import Iterator

from remuda_proto.bounds import MESSAGE_BYTES, shortened

from .. import facts
from ..commands import AnswerPredicates, Verdict
from ..cycle.verdicts import expired
from ..facts import Fact
from ..limits import ANSWER_WITHIN_MS, REFUSALS_LAST_MS, VERDICT_LASTS_LEAST_MS, VERDICT_LASTS_MOST_MS
from ..state import Partition, PredicateClass, State, Timer


def answer_predicates(state: State, command: AnswerPredicates, now_ms: int) -> Iterator[Fact]:
    partition = state.partitions.get(command.partition)
    found = partition.class_questions.get(command.question) if partition is not None else None
    if partition is not None and found is not None:
        given = {verdict.node_id: verdict for verdict in command.verdicts}
        yield answered(partition, found, given, command.reason or "the RM gave no verdict", now_ms)


def answered(
    partition: Partition, found: PredicateClass, given: dict[str, Verdict], otherwise: str, now_ms: int
) -> Fact:
    """The verdicts about the nodes in question. `otherwise`: why a node without a verdict counts as refused."""
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
    """When a verdict ends that holds by time."""
    return now_ms + min(max(holds_ms, VERDICT_LASTS_LEAST_MS), VERDICT_LASTS_MOST_MS)


def unanswered(state: State, partition: Partition, timer: Timer, now_ms: int) -> Iterator[Fact]:
    """The RM has not answered in time: it refuses all nodes of the question for a while."""
    found = partition.predicate_classes.get(timer.key)
    if found is not None and found.question and found.answer_by_ms == timer.at_ms:
        reason = f"the RM has not answered within {ANSWER_WITHIN_MS / 1_000:g} s"
        yield answered(partition, found, {}, reason, now_ms)


def verdicts_over(state: State, partition: Partition, timer: Timer, now_ms: int) -> Iterator[Fact]:
    """The time of some verdicts is over."""
    found = partition.predicate_classes.get(timer.key)
    if found is not None and found.until_ms == timer.at_ms:
        yield expired(partition, found, now_ms)
