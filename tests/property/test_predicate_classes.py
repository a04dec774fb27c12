"""Laws of predicates in batches (semantics section 10), for any order of asks, answers, changes of nodes and time.

A record beside the core keeps each verdict as the RM gave it. Questions and placements are judged by that record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core import commands
from remuda_core.cycle import schedule
from remuda_core.evolve import predicate_classes
from remuda_core.facts import Allocated, Ask, Fact, PredicatesAsked
from remuda_core.index import nodes
from remuda_core.limits import ANSWER_WITHIN_MS, REFUSALS_LAST_MS
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.state import NEVER_MS, Partition

from .node_oracle import has_room, score
from .world import RM, World

PARTITION = f"[{RM}]default"
# As small as a test wants them.
PER_QUESTION, OPEN_MOST = 3, 2
CLASSES = 4


@contextmanager
def bounds(**values: int) -> Iterator[None]:
    """Other values for bounds: of nodes per question, open questions, classes and verdicts kept, nodes ranked."""
    with ExitStack() as stack:
        for name, value in values.items():
            for module in (predicate_classes, nodes, schedule):
                if hasattr(module, name):
                    stack.enter_context(patch.object(module, name, value))
        yield


class Record:
    """A cluster whose RM answers in batches, and what the RM has said."""

    def __init__(self, count: int, vcore: int, node_sort: str = "fair") -> None:
        self.world = World()
        self.until: dict[tuple[str, str], int] = {}  # (class, node): how long it is accepted
        self.verdict_until: dict[tuple[str, str], int] = {}  # how long any verdict holds
        self.questions: list[PredicatesAsked] = []
        self._last = ""
        self._asks = 0
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
        configuration = Configuration("1", (PartitionSettings("default", root, node_sort),))
        self.do(commands.Register(RM, configuration, extra_config={"predicates": "batch"}))
        for number in range(count):
            self.do(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", capacity={"vcore": vcore}))
        self.do(commands.SubmitApplication(PARTITION, "app", "root.a", "alice"))

    @property
    def partition(self) -> Partition:
        return self.world.state.partitions[PARTITION]

    def do(self, command: commands.Command) -> list[Fact]:
        """Each fact is judged by the state right before it."""
        shadow = self.world.replayed()
        one = isinstance(command, commands.Schedule) and command.limit == 1
        facts = self.world.schedule_one() if one else self.world.handle(command)
        for fact in facts:
            before = shadow.state.partitions.get(PARTITION)
            if isinstance(fact, PredicatesAsked):
                assert before is not None
                self._judge_question(before, fact)
            elif isinstance(fact, Allocated):
                until_ms = self.until.get((fact.tags["remuda/predicateClass"], fact.node_id), 0)
                assert until_ms > self.world.now_ms, f"{fact.allocation_key} on {fact.node_id}, which is not accepted"
            shadow.replay([fact], self.world.now_ms)
        return facts

    def _judge_question(self, before: Partition, fact: PredicatesAsked) -> None:
        now_ms, known = self.world.now_ms, before.predicate_classes.get(fact.predicate_class)
        assert known is None or not known.question, "the RM is asked about the class already"
        assert len(fact.node_ids) <= PER_QUESTION
        assert len(before.class_questions) < OPEN_MOST
        for node_id, node in before.nodes.items():
            accepted = self.until.get((fact.predicate_class, node_id), 0) > now_ms
            assert not (accepted and has_room(node, fact.resource, fact.tags)), f"{node_id} is accepted, and would do"
        for node_id in fact.node_ids:
            assert self.verdict_until.get((fact.predicate_class, node_id), 0) <= now_ms, f"{node_id} has a verdict"
            assert has_room(before.nodes[node_id], fact.resource, fact.tags), f"{node_id} has no room"
        turn = [(score(before, before.nodes[name]), name <= self._last, name) for name in fact.node_ids]
        assert turn == sorted(turn), f"after {self._last}: {fact.node_ids}"
        self._last = fact.node_ids[-1]
        self.questions.append(fact)

    # What may happen

    def ask(self, number: int, size: int, count: int = 1) -> str:
        self._asks += 1
        key, tags = f"k{self._asks}", {"remuda/predicateClass": f"c{number}"}
        self.do(commands.SubmitAsk(Ask(PARTITION, "app", key, {"vcore": size}, count, tags=tags)))
        return key

    def answer(self, which: int, refused: set[int], holds_ms: int) -> None:
        """One of the open questions. `refused`: places in it."""
        open_ones = list(self.partition.class_questions.items())
        if not open_ones:
            return
        question, found = open_ones[which % len(open_ones)]
        given = [
            commands.Verdict(node_id, "no" if place in refused else "", holds_ms)
            for place, node_id in enumerate(found.asked)
        ]
        until_ms = NEVER_MS if not holds_ms else self.world.now_ms + max(holds_ms, 1_000)
        for verdict in given:
            self.verdict_until[found.name, verdict.node_id] = until_ms
            self.until[found.name, verdict.node_id] = 0 if verdict.reason else until_ms
        self.do(commands.AnswerPredicates(PARTITION, question, tuple(given)))

    def change(self, number: int, vcore: int) -> None:
        names = sorted(self.partition.nodes)
        changed = names[number % len(names)]
        for of_verdicts in (self.until, self.verdict_until):
            for key in [key for key in of_verdicts if key[1] == changed]:
                del of_verdicts[key]
        self.do(commands.UpdateNode(PARTITION, changed, "UPDATE", capacity={"vcore": vcore}))

    def release(self, number: int) -> None:
        uuids = list(self.partition.allocations)
        if uuids:
            self.do(commands.ReleaseAllocation(PARTITION, "app", uuids[number % len(uuids)]))

    def wait(self, ms: int) -> None:
        """No tick: verdicts end all the same."""
        self.world.now_ms += ms

    def pass_time(self, ms: int) -> None:
        self.world.now_ms += ms
        for found in self.partition.class_questions.values():
            if found.answer_by_ms <= self.world.now_ms:
                for node_id in found.asked:
                    self.verdict_until[found.name, node_id] = self.world.now_ms + REFUSALS_LAST_MS
                    self.until[found.name, node_id] = 0
        self.do(commands.Tick())


events = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, CLASSES - 1), st.sampled_from((1, 1, 2)), st.integers(1, 3)),
        st.tuples(st.just("answer"), st.integers(0, 9), st.sets(st.integers(0, 2)), st.sampled_from((0, 0, 1, 5_000))),
        st.tuples(st.just("change"), st.integers(0, 9), st.integers(1, 5)),
        st.tuples(st.just("release"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.sampled_from((1, 1_000))),
        st.tuples(st.just("pass_time"), st.sampled_from((1, 1_000, ANSWER_WITHIN_MS, REFUSALS_LAST_MS))),
    ),
    max_size=25,
)


@given(
    count=st.integers(1, 9), node_sort=st.sampled_from(("fair", "binpacking")), happening=events,
    ranked_most=st.sampled_from((3, 1_000)), looks=st.sampled_from((0, 16)),
)  # fmt: skip
def test_each_question_and_each_placement_agrees_with_what_the_rm_has_said(
    count: int, node_sort: str, happening: list[tuple[Any, ...]], ranked_most: int, looks: int
) -> None:
    """Accepted nodes go before unknown ones. A verdict ends with its time, and when its node changes. Questions go in
    turn through nodes of equal score. `World` compares each placement with the oracle."""
    small = {"NODES_PER_QUESTION": PER_QUESTION, "CLASS_QUESTIONS_OPEN": OPEN_MOST}
    with bounds(**small, RANKED_NODES_KEPT=ranked_most, LOOKS_PER_GROUP=looks):
        record = Record(count, 3, node_sort)
        for name, *values in happening:
            getattr(record, name)(*values)
            record.do(commands.Schedule(1))
            record.do(commands.Schedule(100))


def test_questions_go_on_behind_the_last_one() -> None:
    """Through the nodes with the best score, which those with an ask have no more."""
    with bounds(NODES_PER_QUESTION=PER_QUESTION, CLASS_QUESTIONS_OPEN=OPEN_MOST):
        record = Record(8, 10)
        for number in range(CLASSES):
            record.ask(number, 1)
            record.do(commands.Schedule(100))
            record.answer(0, set(), 0)
        asked = [question.node_ids for question in record.questions]
    assert asked == [("n0", "n1", "n2"), ("n3", "n4", "n5"), ("n6", "n7", "n1"), ("n2", "n4", "n5")]


def test_accepted_node_that_becomes_the_best_again_is_chosen() -> None:
    """While asks of its demand wait."""
    with bounds(NODES_PER_QUESTION=PER_QUESTION, CLASS_QUESTIONS_OPEN=OPEN_MOST):
        record = Record(2, 3)
        record.ask(0, 1, 6)
        record.do(commands.Schedule(100))
        record.answer(0, set(), 0)
        for _ in range(4):
            record.do(commands.Schedule(1))
        on = {name: list(node.allocations) for name, node in record.partition.nodes.items()}
        for uuid in (*on["n0"], on["n1"][0]):
            record.do(commands.ReleaseAllocation(PARTITION, "app", uuid))
        placed = [fact.node_id for fact in record.do(commands.Schedule(1)) if isinstance(fact, Allocated)]
    assert placed == ["n0"]


def test_placements_on_accepted_nodes_are_no_open_questions() -> None:
    """One pass makes more of them than questions may be open."""
    with bounds(NODES_PER_QUESTION=PER_QUESTION, CLASS_QUESTIONS_OPEN=OPEN_MOST, QUESTIONS_OPEN=2):
        record = Record(1, 9)
        record.ask(0, 1, 7)
        record.do(commands.Schedule(100))
        record.answer(0, set(), 0)
        assert sum(isinstance(fact, Allocated) for fact in record.do(commands.Schedule(100))) == 7


def test_verdict_ends_with_its_time_before_a_tick_notices() -> None:
    with bounds(NODES_PER_QUESTION=PER_QUESTION, CLASS_QUESTIONS_OPEN=OPEN_MOST):
        record = Record(1, 3)
        record.ask(0, 1)
        record.do(commands.Schedule(100))
        record.answer(0, set(), 1_000)
        record.do(commands.Schedule(100))
        record.wait(1_000)
        record.ask(0, 1)
        record.do(commands.Schedule(100))
        assert len(record.questions) == 2


def test_classes_without_an_answer_hold_up_no_class_with_accepted_nodes() -> None:
    """As many questions as may be are open. Asks of further classes wait until half of them are answered."""
    with bounds(NODES_PER_QUESTION=PER_QUESTION, CLASS_QUESTIONS_OPEN=OPEN_MOST):
        record = Record(6, 10)
        record.ask(9, 1)
        record.do(commands.Schedule(100))
        record.answer(0, set(), 0)
        for number in range(CLASSES):
            record.ask(number, 1)
        key = record.ask(9, 1)
        placed = [fact.allocation_key for fact in record.do(commands.Schedule(100)) if isinstance(fact, Allocated)]
        assert placed == ["k1", key]
        assert [question.predicate_class for question in record.questions] == ["c9", "c0", "c1"]
        record.answer(0, set(), 0)
        record.do(commands.Schedule(100))
        assert [question.predicate_class for question in record.questions] == ["c9", "c0", "c1", "c2"]
        assert record.partition.questions_paused


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_classes_without_asks_as_are_kept_keep_their_verdicts(more: int) -> None:
    kept = 3
    with bounds(PREDICATE_CLASSES_KEPT=kept, NODES_PER_QUESTION=PER_QUESTION, CLASS_QUESTIONS_OPEN=OPEN_MOST):
        record = Record(2, 10)
        for number in range(kept + more):
            record.ask(number, 1)
            record.do(commands.Schedule(100))
            record.answer(0, set(), 0)
            record.do(commands.Schedule(100))
        assert list(record.partition.predicate_classes) == [f"c{number}" for number in range(more, kept + more)]
        assert record.partition.verdicts == 2 * kept


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_verdicts_as_are_kept_stay(more: int) -> None:
    """One more, and the oldest class without asks forgets its own; then those with asks."""
    with bounds(VERDICTS_KEPT=6 - more, NODES_PER_QUESTION=PER_QUESTION, CLASS_QUESTIONS_OPEN=OPEN_MOST):
        record = Record(2, 10)
        for number in range(3):
            record.ask(number, 1)
            if number != 1:
                record.ask(number, 11)  # fits no node, so the class keeps an ask
            record.do(commands.Schedule(100))
            record.answer(0, set(), 0)
            record.do(commands.Schedule(100))
        kept = {found.name: found.verdicts for found in record.partition.predicate_classes.values()}
        assert kept == ({"c0": 2, "c1": 2, "c2": 2} if not more else {"c0": 2, "c2": 2})
