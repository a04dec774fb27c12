"""The scheduling index is built in slices: each a bounded number of items, whatever the resource manager has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from remuda_core.check import check
from remuda_core.commands import Configure, Register, RmConnection, Schedule, SubmitApplication, SubmitAsk, UpdateNode
from remuda_core.core import Core
from remuda_core.facts import Allocated, Ask
from remuda_core.index import build, index
from remuda_core.index.nodes import NodeIndex
from remuda_core.index.partition import PartitionIndex
from remuda_core.limits import INDEXED_PER_STEP
from remuda_core.settings import Configuration, Limit, PartitionSettings, QueueSettings, built_in

PARTITION = "[rm-1]default"
NODES, APPLICATIONS, ASKS = 500, 100, 4


def waiting() -> Core:
    """Nodes that are all different, and asks of as many sizes."""
    core = Core("rm-1")
    core.handle(Register("rm-1", built_in()), 1_000)
    for n in range(NODES):
        core.handle(UpdateNode(PARTITION, f"n{n}", "CREATE", capacity={"vcore": 1 + n, f"r{n % 50}": 1}), 1_000)
    for n in range(APPLICATIONS):
        core.handle(SubmitApplication(PARTITION, f"app-{n}", "", "u", tags={"namespace": f"team-{n % 20}"}), 1_000)
        for k in range(ASKS):
            core.handle(SubmitAsk(Ask(PARTITION, f"app-{n}", f"k{k}", {"vcore": 1 + n * ASKS + k}, 1)), 1_000)
    return core


@pytest.fixture
def items(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the look-ups since the list was last cleared."""
    seen: list[str] = []

    def counted(owner: Any, name: str) -> None:
        method: Callable[..., Any] = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            seen.append(name)
            return method(*arguments)

        monkeypatch.setattr(owner, name, call)

    for owner, name in (
        (NodeIndex, "_entry"),
        (PartitionIndex, "add_one_queue"),
        (build, "state_changed"),
        (build, "note_slots"),
        (build, "add_ask"),
    ):
        counted(owner, name)
    return seen


def test_no_slice_has_more_items_than_it_may(items: list[str]) -> None:
    core = waiting()
    slices = []
    for _ in core.index.build_in_steps(core.state):
        assert not core.index.partitions, "what is incomplete is not used"
        slices.append(len(items))
        items.clear()
    slices.append(len(items))
    assert max(slices) <= INDEXED_PER_STEP + 1  # root is placed at once
    assert sum(slices) >= NODES + 2 * APPLICATIONS + APPLICATIONS * ASKS
    check(core.state, core.index, grown=False)


def test_a_pass_begins_with_the_slices_of_an_index_that_is_not_there() -> None:
    at_once, in_steps = waiting(), waiting()
    facts: list[Any] = []
    pauses = [len(facts) for _ in in_steps.handle_in_steps((Schedule(1_000),), 2_000, facts)]
    assert pauses.count(0) > (NODES + APPLICATIONS * ASKS) // INDEXED_PER_STEP
    assert facts == at_once.handle(Schedule(1_000), 2_000)
    assert sum(isinstance(fact, Allocated) for fact in facts) == APPLICATIONS * ASKS
    check(in_steps.state, in_steps.index)


def test_what_is_incomplete_when_a_leader_gives_up_is_lost() -> None:
    core = waiting()
    pausing = core.handle_in_steps((Schedule(1_000),), 2_000, [])
    next(pausing)
    del pausing
    core.handle(UpdateNode(PARTITION, "n0", "DECOMISSION"), 2_000)
    core.handle(Schedule(1_000), 2_000)
    check(core.state, core.index)


def test_new_names_of_resources_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of them have the index built anew, and it is the same as one that was."""
    builds: list[str] = []

    def counted(*arguments: Any) -> Any:
        builds.append(arguments[0].name)
        return build.build_in_steps(*arguments)

    monkeypatch.setattr(index, "build_in_steps", counted)
    core = Core("rm-1")
    core.handle(Register("rm-1", built_in()), 1_000)
    core.handle(SubmitApplication(PARTITION, "app", "", "u", tags={"namespace": "team"}), 1_000)
    for n in range(60):
        core.handle(UpdateNode(PARTITION, f"n{n}", "CREATE", capacity={"vcore": 1, f"r{n}": 1}), 1_000)
        for name in (f"r{n}", f"r{n // 2}"):
            core.handle(SubmitAsk(Ask(PARTITION, "app", f"{n}-{name}", {name: 1}, 1)), 1_000)
        facts = core.handle(Schedule(10), 1_000)
        assert [fact.node_id for fact in facts if isinstance(fact, Allocated)] == [f"n{n}"]
        check(core.state, core.index, grown=False)
    assert len(builds) <= 7
    core.handle(SubmitAsk(Ask(PARTITION, "app", "early", {"late": 1}, 1)), 1_000)
    assert core.handle(Schedule(10), 1_000) == []
    core.handle(UpdateNode(PARTITION, "late", "CREATE", capacity={"late": 1}), 1_000)
    facts = core.handle(Schedule(10), 1_000)
    assert [fact.node_id for fact in facts if isinstance(fact, Allocated)] == ["late"]
    check(core.state, core.index, grown=False)


def test_an_rm_that_is_not_there_needs_no_index() -> None:
    core = waiting()
    core.handle(RmConnection("lost", "gone"), 2_000)
    core.handle(Schedule(1_000), 2_000)
    assert not core.index.partitions


def test_a_leaf_with_very_many_asks_is_reordered_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "REORDERED_AT_ONCE", 100)

    def leaf(policy: str) -> Configuration:
        queue = QueueSettings("a", properties={"application.sort.policy": policy})
        root = QueueSettings("root", True, submit_acl="*", queues=(queue, QueueSettings("b")))
        return Configuration(policy, (PartitionSettings("default", root),))

    core = Core("rm-1")
    core.handle(Register("rm-1", leaf("fifo")), 1_000)
    for name in ("a", "b"):
        core.handle(SubmitApplication(PARTITION, name, f"root.{name}", "u"), 1_000)
    for k in range(201):
        core.handle(SubmitAsk(Ask(PARTITION, "a", f"k{k}", {"vcore": 1 + k})), 1_000)
    core.handle(UpdateNode(PARTITION, "n", "CREATE", capacity={"vcore": 1}), 1_000)
    core.handle(Schedule(1), 1_000)
    partition = core.state.partitions[PARTITION]
    core.handle(Configure(leaf("fair")), 1_000)
    assert core.index.find(partition) is None
    steps = len(list(core.handle_in_steps((Schedule(10),), 1_000, [])))
    assert steps >= 200 // INDEXED_PER_STEP
    check(core.state, core.index)
    for k in range(601):  # so that those of the leaf are few among all
        core.handle(SubmitAsk(Ask(PARTITION, "b", f"k{k}", {"vcore": 1})), 1_000)
    core.handle(Configure(leaf("fifo")), 1_000)
    assert core.index.find(partition) is not None
    check(core.state, core.index)


@pytest.mark.parametrize("queue", ["root", "root.team", "root.team.a"])
def test_limits_of_very_many_applications_change_in_slices(monkeypatch: pytest.MonkeyPatch, queue: str) -> None:
    """An application counts once for each size of its asks, however many it has."""
    monkeypatch.setattr(build, "REORDERED_AT_ONCE", 100)

    def limited(most: int) -> Configuration:
        def settings(path: str, **fields: Any) -> QueueSettings:
            limits = (Limit(users=("u",), max_resources={"vcore": most}),) if most and path == queue else ()
            return QueueSettings(path.rpartition(".")[2], limits=limits, **fields)

        team = settings("root.team", parent=True, queues=(settings("root.team.a"),))
        root = settings("root", parent=True, submit_acl="*", queues=(team,))
        return Configuration(str(most), (PartitionSettings("default", root),))

    core = Core("rm-1")
    core.handle(Register("rm-1", limited(0)), 1_000)
    core.handle(UpdateNode(PARTITION, "n", "CREATE", capacity={"vcore": 9}), 1_000)
    core.handle(SubmitApplication(PARTITION, "large", "root.team.a", "u"), 1_000)
    for k in range(500):
        core.handle(SubmitAsk(Ask(PARTITION, "large", f"k{k}", {"vcore": 10})), 1_000)
    core.handle(Schedule(10), 1_000)
    partition = core.state.partitions[PARTITION]
    core.handle(Configure(limited(8)), 1_000)
    assert core.index.find(partition) is not None
    check(core.state, core.index)
    for k in range(201):
        core.handle(SubmitApplication(PARTITION, f"{k}", "root.team.a", "u"), 1_000)
        core.handle(SubmitAsk(Ask(PARTITION, f"{k}", "k", {"vcore": 10})), 1_000)
    core.handle(Configure(limited(9)), 1_000)
    assert core.index.find(partition) is None
    steps = len(list(core.handle_in_steps((Schedule(10),), 1_000, [])))
    assert steps >= 200 // INDEXED_PER_STEP
    check(core.state, core.index)
