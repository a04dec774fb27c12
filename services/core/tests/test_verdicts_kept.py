"""Verdicts of an RM that answers in batches are bounded, also if it has many partitions."""

from __future__ import annotations

import pytest

from remuda_core import commands
from remuda_core.check import check
from remuda_core.core import Core
from remuda_core.evolve import predicate_classes
from remuda_core.facts import Ask
from remuda_core.settings import Configuration, PartitionSettings, PlacementRule, QueueSettings

NOW_MS = 1_000
NODES, CLASSES = 10, 6


def partition_settings(name: str) -> PartitionSettings:
    leaf = QueueSettings("a")
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(leaf,))
    return PartitionSettings(name, root, placement_rules=(PlacementRule("provided"),))


@pytest.mark.parametrize("partitions", [1, 3])
def test_all_partitions_together_keep_a_bounded_number(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = 3 * NODES
    monkeypatch.setattr(predicate_classes, "VERDICTS_KEPT", kept)
    names = [f"p{number}" for number in range(partitions)]
    core = Core("rm-1")
    configuration = Configuration("1", tuple(map(partition_settings, names)))
    core.handle(commands.Register("rm-1", configuration, extra_config={"predicates": "batch"}), NOW_MS)
    for name in (f"[rm-1]{one}" for one in names):
        for number in range(NODES):
            core.handle(commands.UpdateNode(name, f"n{number}", "CREATE", capacity={"vcore": 100}), NOW_MS)
        core.handle(commands.SubmitApplication(name, "app", "root.a", "alice"), NOW_MS)
        for number in range(CLASSES):
            tags = {"remuda/predicateClass": f"c{number}"}
            core.handle(commands.SubmitAsk(Ask(name, "app", f"k{number}", {"vcore": 1}, 1, tags=tags)), NOW_MS)
    placed = 0
    for _ in range(CLASSES * partitions * 2):
        core.handle(commands.Schedule(100), NOW_MS)
        for name, partition in core.state.partitions.items():
            for question, asked in list(partition.class_questions.items()):
                verdicts = tuple(map(commands.Verdict, asked.asked))
                core.handle(commands.AnswerPredicates(name, question, verdicts), NOW_MS)
                held = sum(one.verdicts for one in core.state.partitions.values())
                assert held <= max(kept, partitions * NODES)  # the class of the question keeps its own
        check(core.state, core.index)
    placed = sum(len(one.allocations) for one in core.state.partitions.values())
    assert placed == CLASSES * partitions


def test_a_state_with_few_objects_and_many_verdicts_is_valid() -> None:
    """Classes outlive their asks: pods with volumes of their own each leave one. An audit would blame the process."""
    core, name, classes = Core("rm-1"), "[rm-1]p", 600
    core.handle(
        commands.Register("rm-1", Configuration("1", (partition_settings("p"),)), extra_config={"predicates": "batch"}),
        NOW_MS,
    )
    for number in range(100):
        core.handle(commands.UpdateNode(name, f"n{number}", "CREATE", capacity={"vcore": 100}), NOW_MS)
    core.handle(commands.SubmitApplication(name, "app", "root.a", "alice"), NOW_MS)
    partition = core.state.partitions[name]
    for number in range(classes):
        tags = {"remuda/predicateClass": f"c{number}"}
        core.handle(commands.SubmitAsk(Ask(name, "app", f"k{number}", {"vcore": 1}, 1, tags=tags)), NOW_MS)
        core.handle(commands.Schedule(100), NOW_MS)
        (question, asked), *_ = partition.class_questions.items()
        core.handle(commands.AnswerPredicates(name, question, tuple(map(commands.Verdict, asked.asked))), NOW_MS)
        core.handle(commands.Schedule(100), NOW_MS)
        core.handle(commands.ReleaseAllocation(name, "app", ""), NOW_MS)
    assert len(partition.idle_classes) == classes and partition.verdicts == classes * 100
    check(core.state, core.index)
