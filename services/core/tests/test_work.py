"""The cost of one item of a request does not grow with the other objects of the RM. Counted in calls, not in time."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from remuda_core.check import check
from remuda_core.commands import (
    Command,
    Register,
    ReleaseAllocation,
    ReleaseAsk,
    Schedule,
    SubmitApplication,
    SubmitAsk,
    Tick,
    UpdateNode,
)
from remuda_core.core import Core
from remuda_core.cycle import schedule
from remuda_core.decide import allocation
from remuda_core.explain import standing
from remuda_core.facts import Allocated, Ask, AskReleased, AskWaiting, NodeRejected
from remuda_core.limits import RESOURCE_NAMES_PER_PARTITION
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, built_in
from remuda_core.snapshot import restore, save
from remuda_core.state import state

PARTITION = "[rm-1]default"


def core_with(applications: int) -> Core:
    core = Core("rm-1")
    core.handle(Register("rm-1", built_in()), 1_000)
    core.handle(UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 10**9}), 1_000)
    for n in range(applications):
        core.handle(SubmitApplication(PARTITION, f"app-{n}", "", "u", tags={"namespace": "a"}), 1_000)
        core.handle(SubmitAsk(Ask(PARTITION, f"app-{n}", f"key-{n}", {"vcore": 1}, 2)), 1_000)
    return core


def work(core: Core, commands: list[Command]) -> int:
    """Instructions of Python that ran."""
    instructions = 0

    def count(frame: Any, event: str, arg: Any) -> Any:
        nonlocal instructions
        frame.f_trace_opcodes = True
        instructions += event == "opcode"
        return count

    sys.settrace(count)
    try:
        core.handle_all(commands, 2_000)
    finally:
        sys.settrace(None)
    return instructions


@pytest.mark.parametrize("key", ["nosuch", "key-7"])
def test_releases_that_name_no_application(key: str) -> None:
    releases: list[Command] = [ReleaseAsk(PARTITION, "", key) for _ in range(100)]
    few, many = core_with(10), core_with(1_000)
    for core in (few, many):  # makes the list of keys
        core.handle(ReleaseAsk(PARTITION, "", "other"), 2_000)
    assert work(many, releases) < 2 * work(few, releases) + 10_000


def test_a_release_without_an_application_finds_asks_that_come_later() -> None:
    core = core_with(3)
    core.handle(ReleaseAsk(PARTITION, "", "nosuch"), 2_000)
    for n in range(2_000):
        core.handle(SubmitAsk(Ask(PARTITION, f"app-{n % 3}", f"later-{n}", {"vcore": 1}, 1)), 2_000)
    core.handle(SubmitAsk(Ask(PARTITION, "app-2", "later-0", {"vcore": 1}, 1)), 2_000)
    check(core.state, core.index)
    facts = core.handle(ReleaseAsk(PARTITION, "", "later-0"), 2_000)
    assert [fact.application_id for fact in facts if isinstance(fact, AskReleased)] == ["app-0", "app-2"]
    check(core.state, core.index)


def placed(count: int) -> Core:
    """One application whose asks are all allocated."""
    core = core_with(0)
    core.handle(SubmitApplication(PARTITION, "app", "", "u", tags={"namespace": "a"}), 1_000)
    core.handle_all([SubmitAsk(Ask(PARTITION, "app", f"key-{n}", {"vcore": 1}, 1)) for n in range(count)], 1_000)
    core.handle(Schedule(count), 1_000)
    assert core.state.allocations == count
    return core


def test_a_release_of_all_asks_is_written_once() -> None:
    core = placed(5)
    release = ReleaseAsk(PARTITION, "app", "")
    first = core.handle(release, 2_000)
    assert [fact.allocation_key for fact in first if isinstance(fact, AskReleased)] == [f"key-{n}" for n in range(5)]
    assert core.handle(release, 2_000) == []
    assert core.handle(ReleaseAsk(PARTITION, "app", "key-2"), 2_000) == []
    core.go_on_from(restore("rm-1", list(save(core.state))))
    check(core.state, core.index)
    assert core.handle(release, 2_000) == []
    core.handle(SubmitAsk(Ask(PARTITION, "app", "key-2", {"vcore": 1}, 1)), 2_000)
    core.handle(Schedule(1), 2_000)
    again = core.handle(release, 2_000)
    assert [fact.allocation_key for fact in again if isinstance(fact, AskReleased)] == ["key-2"]
    check(core.state, core.index)


def test_releases_of_all_asks_that_are_over() -> None:
    releases: list[Command] = [ReleaseAsk(PARTITION, "app", "")] * 100
    few, many = placed(10), placed(1_000)
    for core in (few, many):
        core.handle(releases[0], 2_000)
    assert work(many, releases) < 2 * work(few, releases) + 10_000


def test_an_ask_that_lets_go_of_its_reservations() -> None:
    def reserved(nodes: int) -> Core:
        core = core_with(0)
        for n in range(nodes):
            core.handle(UpdateNode(PARTITION, f"busy-{n}", "CREATE", capacity={"gpu": 1}), 1_000)
        core.handle(SubmitApplication(PARTITION, "app", "", "u", tags={"namespace": "a"}), 1_000)
        core.handle(SubmitAsk(Ask(PARTITION, "app", "small", {"gpu": 1}, nodes)), 1_000)
        core.handle(Schedule(nodes), 1_000)
        for n in range(nodes):
            core.handle(UpdateNode(PARTITION, f"busy-{n}", "UPDATE", capacity={"gpu": 2}), 1_000)
        core.handle(SubmitAsk(Ask(PARTITION, "app", "wide", {"gpu": 2}, nodes // 2)), 1_000)
        for now_ms in range(10_000, 10_000 + 1_000 * nodes, 1_000):
            core.handle_all([Tick(), Schedule(10 * nodes)], now_ms)
        return core

    few, many = reserved(10), reserved(600)
    kept = [len(one.state.partitions[PARTITION].applications["app"].asks["wide"].reservations) for one in (few, many)]
    assert kept[1] >= 10 * kept[0] > 0
    release: list[Command] = [ReleaseAsk(PARTITION, "app", "wide")]
    assert work(many, release) / kept[1] < 2 * work(few, release) / kept[0]
    check(many.state)


def test_a_partition_has_so_many_names_of_resources() -> None:
    core = Core("rm-1")
    core.handle(Register("rm-1", built_in()), 1_000)

    def add(number: int, name: str) -> str | None:
        node = UpdateNode(PARTITION, f"n{number}", "CREATE", capacity={"vcore": 1, name: 1})
        facts = core.handle(node, 1_000)
        return next((fact.reason for fact in facts if isinstance(fact, NodeRejected)), None)

    found = [add(n, f"name-{n}") for n in range(1_000)]
    assert sum(reason is None for reason in found) == RESOURCE_NAMES_PER_PARTITION - len(("vcore", "memory"))
    assert found[-1] is not None and "schedulableResource: resource 'name-999' is new" in found[-1]
    assert add(1_000, "name-7") is None, "what is known may come again"
    for n in range(200):
        core.handle(UpdateNode(PARTITION, f"n{n}", "DECOMISSION"), 1_000)
    assert add(1_001, "another") is None, "nodes with names of their own have gone"
    core.handle(Schedule(10), 1_000)
    check(core.state, core.index)


def test_an_rm_has_so_many_allocations_and_the_rest_waits_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (state, standing, allocation):
        monkeypatch.setattr(module, "ALLOCATIONS_PER_RM", 10)
    core = core_with(1)
    core.handle(SubmitAsk(Ask(PARTITION, "app-0", "many", {"vcore": 1}, 2**31 - 1)), 1_000)
    facts = [fact for _ in range(5) for fact in core.handle(Schedule(100), 2_000)]
    assert sum(isinstance(fact, Allocated) for fact in facts) == 10
    [waiting] = [fact for fact in core.handle(Tick(), 10_000) if isinstance(fact, AskWaiting)]
    assert waiting.constraint == "allocations" and "10 allocations, at most 10" in waiting.reason
    node = core.state.partitions[PARTITION].nodes["n1"]
    one = next(iter(node.allocations.values())).fact
    core.handle(ReleaseAllocation(PARTITION, "app-0", one.uuid), 11_000)
    assert sum(isinstance(fact, Allocated) for fact in core.handle(Schedule(100), 11_000)) == 1
    check(core.state, core.index)


def many_shapes(steps: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[str, str]], int]:
    """Which ask is placed on which node, one after the other, and in how many passes."""
    monkeypatch.setattr(schedule, "STEPS_PER_PASS", steps)
    core = Core("rm-1")
    core.handle(Register("rm-1", built_in()), 1_000)
    for n in range(30):
        core.handle(UpdateNode(PARTITION, f"n{n}", "CREATE", capacity={"vcore": 10 + n % 7, "memory": 90 - n}), 1_000)
    for n in range(20):
        core.handle(SubmitApplication(PARTITION, f"app-{n}", "", "u", tags={"namespace": f"q{n % 5}"}), 1_000)
        for m in range(10):
            ask = Ask(PARTITION, f"app-{n}", f"key-{m}", {"vcore": 1 + (n * m) % 6, "memory": 3 + (n + m) % 11}, 2)
            core.handle(SubmitAsk(ask), 1_000)
    placed, passes = list[tuple[str, str]](), 0
    core.index.unfinished = True
    while core.index.unfinished:
        facts = core.handle(Schedule(10_000), 1_000)
        check(core.state, core.index)
        placed += [(fact.allocation_key, fact.node_id) for fact in facts if isinstance(fact, Allocated)]
        passes += 1
    return placed, passes


def test_a_pass_that_has_done_its_work_ends_and_the_next_one_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, passes = many_shapes(10**9, monkeypatch)
    assert passes == 1 and len(at_once) > 50
    in_pieces, passes = many_shapes(200, monkeypatch)
    assert in_pieces == at_once
    assert passes > 5


def waiting_core(queues: int, sizes: int) -> Core:
    """One full node, and in each queue an ask of each size, none of which fits."""
    core = Core("rm-1")
    names = [f"q{n}" for n in range(queues)]
    below = tuple(QueueSettings(name) for name in names)
    root = QueueSettings("root", parent=True, submit_acl="*", queues=below)
    core.handle(Register("rm-1", Configuration("", (PartitionSettings("default", root),))), 1_000)
    core.handle(UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": sizes}), 1_000)
    for name in names:
        core.handle(SubmitApplication(PARTITION, name, f"root.{name}", "u"), 1_000)
    core.handle(SubmitAsk(Ask(PARTITION, "q0", "large", {"vcore": sizes})), 1_000)
    core.handle(Schedule(1_000), 1_000)
    for name in names:
        for size in range(sizes):
            core.handle(SubmitAsk(Ask(PARTITION, name, f"k{size}", {"vcore": 1 + size})), 1_000)
    core.handle(Schedule(1_000), 1_000)
    return core


def released(core: Core) -> list[Command]:
    (allocation,) = core.state.partitions[PARTITION].allocations.values()
    return [ReleaseAllocation(PARTITION, allocation.fact.application_id, allocation.fact.uuid), Schedule(1)]


def test_a_freed_node_costs_the_same_whatever_waits() -> None:
    few, many = (waiting_core(queues, sizes) for queues, sizes in ((4, 4), (200, 20)))
    assert work(many, released(many)) < 2 * work(few, released(few))
    check(many.state, many.index)


def test_a_pass_that_finds_nothing_in_its_steps_gets_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "STEPS_PER_PASS", 3)
    core = waiting_core(50, 1)
    core.handle(UpdateNode(PARTITION, "n2", "CREATE", capacity={"gpu": 1}), 1_000)
    core.handle(SubmitAsk(Ask(PARTITION, "q49", "gpu", {"gpu": 1})), 1_000)
    passes = 0
    while not any(type(fact) is Allocated for fact in core.handle(Schedule(1_000), 1_000)):
        passes += 1
        assert core.index.unfinished and passes < 20


def test_nodes_that_come_to_differ_leave_no_groups_behind() -> None:
    """They begin alike. With the first allocation each begins a group of its own, which moves with it from then on."""
    core = Core("rm-1")
    core.handle(Register("rm-1", built_in()), 1_000)
    for n in range(10):
        core.handle(UpdateNode(PARTITION, f"n{n}", "CREATE", capacity={"vcore": 10**9}), 1_000)
    core.handle(SubmitApplication(PARTITION, "app", "", "u", tags={"namespace": "a"}), 1_000)
    for n in range(100):
        core.handle(SubmitAsk(Ask(PARTITION, "app", f"key-{n}", {"vcore": 1_000 + n * n})), 1_000)
    core.handle(Schedule(1_000), 1_000)
    groups = core.index.partitions[PARTITION].nodes.groups()
    assert len(groups) == 10
    assert core.index.partitions[PARTITION].nodes._numbers == 11, "the one of all, and one for each"
