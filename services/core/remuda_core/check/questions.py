"""Questions to the RM: what each one holds, and that a timer ends each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..limits import REFUSALS_LAST_MS
from ..rules.resource import Resource
from ..state import NEVER_MS, Application, Node, Partition, PredicateClass, State, Timer
from ..timeouts import of_class_question, of_verdicts


def check_questions(state: State, partition: Partition) -> None:
    asked: Counter[tuple[str, str]] = Counter()
    timers = frozenset(state.timers) if partition.questions or partition.refused else frozenset()
    for number, question in partition.questions.items():
        fact, name = question.fact, f"question {number}"
        assert fact.question == number < state.next_question, f"{name}: it calls itself {fact.question}"
        assert partition.nodes.get(fact.node_id) is question.node, f"{name}: node {fact.node_id} is not there"
        assert partition.applications.get(fact.application_id) is question.application, (
            f"{name}: {fact.application_id} is not in the partition"
        )
        asked[fact.application_id, fact.allocation_key] += 1
        timer = Timer(fact.answer_by_ms, "predicate", partition.name, fact.application_id, str(number))
        assert timer.at_ms <= state.now_ms or timer in timers, f"{name}: nothing ends it"
    kept = {
        (application.id, key): pending.asked
        for application in partition.applications.values()
        for key, pending in application.asks.items()
        if pending.asked
    }
    assert kept == asked, f"{partition.name}: asked about {kept}, counted anew {dict(asked)}"
    for pending in partition.refused:
        key = pending.ask.allocation_key
        assert pending.application.asks.get(key) is pending, f"ask {pending.application.id}/{key}: refused and gone"
        due_ms = pending.refused_at_ms + REFUSALS_LAST_MS
        timer = Timer(due_ms, "refusals", partition.name, pending.application.id, key)
        assert due_ms <= state.now_ms or timer in timers, f"ask {key}: its refusals last for ever"


def check_predicate_classes(state: State, partition: Partition) -> None:
    asks: Counter[PredicateClass] = Counter()
    for application in partition.applications.values():
        for pending in application.asks.values():
            found = pending.refused
            assert isinstance(found, PredicateClass) == partition.batch_predicates, f"{pending.ask}: {found}"
            if isinstance(found, PredicateClass):
                assert partition.predicate_classes.get(found.name) is found, f"class {found.name} is gone"
                asks[found] += 1
    timers = frozenset(state.timers) if partition.predicate_classes else frozenset()
    for name, found in partition.predicate_classes.items():
        assert found.asks == asks[found], f"class {name}: {found.asks} asks, counted anew {asks[found]}"
        assert (name in partition.idle_classes) == (not found.asks), f"class {name}: {found.asks} asks, idle or not"
        assert not found.accepted.keys() & found.refused.keys(), f"class {name}: a node has two verdicts"
        named = {*found.accepted, *found.refused, *found.asked}
        assert named <= partition.nodes.keys(), f"class {name}: verdicts about nodes that are gone"
        earliest = min((*found.accepted.values(), *found.refused.values()), default=NEVER_MS)
        assert found.until_ms <= earliest, f"class {name}: verdicts last for ever"
        for timer in (of_class_question(partition.name, found), of_verdicts(partition.name, found)):
            assert timer is None or timer.at_ms <= state.now_ms or timer in timers, f"class {name}: no {timer}"
    open_questions = {found.question: found for found in partition.predicate_classes.values() if found.question}
    assert open_questions == partition.class_questions, "questions about classes"
    assert partition.verdicts == sum(found.verdicts for found in partition.predicate_classes.values()), "verdicts"


def held_by_questions(partition: Partition, on: Node | Application) -> Iterator[Resource]:
    """Resources that open questions have booked on the node or in the application."""
    return (q.fact.resource for q in partition.questions.values() if on in (q.node, q.application))
