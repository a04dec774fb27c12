"""The changes that `what_if` finds let the ask run, and nothing smaller of their kinds does: by brute force on small
states."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda_core import commands, facts
from remuda_core.check import digest
from remuda_core.core import Core
from remuda_core.limits import WHAT_IF_TOGETHER
from remuda_core.settings import Configuration, Limit, PartitionSettings, PlacementRule, QueueSettings
from remuda_core.trials.play import copy_of
from remuda_core.trials.steps import APPLICATION
from remuda_core.trials.what_if import Ask, search

from .storm import Storm
from .sufficient import check_smallest, check_sufficient, runs

PARTITION = "[rm-1]default"
NOW_MS = 1_700_000_000_000
few = st.integers(1, 3)


@st.composite
def cores(draw: st.DrawFn) -> Core:
    """Two queues in one, with maxima and limits, one or two nodes, and asks of which some wait."""

    def maximum() -> dict[str, int]:
        return {"vcore": draw(st.integers(2, 6))} if draw(st.booleans()) else {}

    def limits() -> tuple[Limit, ...]:
        if not draw(st.booleans()):
            return ()
        return (Limit(("ann",), (), maximum() or {"vcore": 2}, draw(st.integers(0, 2))),)

    def leaf(name: str) -> QueueSettings:
        properties = {"application.sort.policy": draw(st.sampled_from(("fifo", "fair")))}
        return QueueSettings(
            name, max=maximum(), max_applications=draw(st.integers(0, 2)), limits=limits(), properties=properties
        )

    below = QueueSettings("p", parent=True, max=maximum(), limits=limits(), queues=(leaf("a"), leaf("b")))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(below,))
    partition = PartitionSettings("default", root, placement_rules=(PlacementRule("provided"),))
    core = Core("rm-1")
    core.handle(commands.Register("rm-1", Configuration("x", (partition,))), NOW_MS)
    for number in range(draw(st.integers(1, 2))):
        capacity = {"vcore": draw(st.integers(2, 5))}
        core.handle(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", {}, capacity), NOW_MS)
    for number in range(draw(st.integers(2, 5))):
        queue, user = draw(st.sampled_from(("root.p.a", "root.p.b"))), draw(st.sampled_from(("ann", "bob")))
        core.handle(commands.SubmitApplication(PARTITION, f"app-{number}", queue, user), NOW_MS)
        asked = facts.Ask(PARTITION, f"app-{number}", "k", {"vcore": draw(few)}, draw(few))
        core.handle(commands.SubmitAsk(asked), NOW_MS)
        if draw(st.booleans()):
            core.handle(commands.Schedule(1_000), NOW_MS)
    core.handle(commands.Schedule(1_000), NOW_MS)
    return core


@given(cores(), st.integers(0, 4))
@settings(max_examples=30)
def test_changes_are_sufficient_and_smallest(core: Core, chosen: int) -> None:
    pending = [
        ask for a in core.state.partitions[PARTITION].applications.values() for ask in a.asks.values() if ask.pending
    ]
    if pending:
        ask = pending[chosen % len(pending)]
        check_search(core, Ask(PARTITION, ask.application.id, ask.ask.allocation_key), NOW_MS + 1_000, brute_force=True)


@given(st.lists(few, min_size=2, max_size=5), st.integers(2, 12), st.integers(1, 2))
@settings(max_examples=25)
def test_applications_that_end_together(sizes: list[int], need: int, nodes: int) -> None:
    """Full nodes: whether some applications suffice is a matter of sums on one node."""
    core = Core("rm-1")
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
    partition = PartitionSettings("default", root, placement_rules=(PlacementRule("provided"),))
    core.handle(commands.Register("rm-1", Configuration("x", (partition,))), NOW_MS)
    on = [sizes[number::nodes] for number in range(nodes)]
    for number, held in enumerate(on):  # each node is full before the next one comes
        core.handle(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", {}, {"vcore": sum(held)}), NOW_MS)
        for place, size in enumerate(held):
            submit(core, f"app-{number}-{place}", size)
    submit(core, "waits", need)
    found = search(core, Ask(PARTITION, "waits", "k"), lambda work: work(copy_of(core)), NOW_MS + 1_000)
    ending = [change for change in found.changes if all(step.step == APPLICATION for step in change.steps)]
    suffice = any(sum(sorted(held)[-WHAT_IF_TOGETHER:]) >= need for held in on)
    assert bool(ending) == suffice or nodes > 1
    for change in ending:
        check_sufficient(core, Ask(PARTITION, "waits", "k"), change.steps, NOW_MS + 1_000)
        check_smallest(core, Ask(PARTITION, "waits", "k"), change.steps, NOW_MS + 1_000)


def submit(core: Core, name: str, vcore: int) -> None:
    core.handle(commands.SubmitApplication(PARTITION, name, "root.a", "ann"), NOW_MS)
    core.handle(commands.SubmitAsk(facts.Ask(PARTITION, name, "k", {"vcore": vcore}, 1)), NOW_MS)
    core.handle(commands.Schedule(1_000), NOW_MS)


@pytest.mark.parametrize("seed", range(6))
def test_in_storms(seed: int) -> None:
    """Of anything that a storm leaves: what is found suffices."""
    storm = Storm(seed)
    for _ in storm.run(80):
        pass
    core, now_ms = storm.world.core, storm.world.now_ms
    for partition in core.state.partitions.values():
        asks = [ask for a in partition.applications.values() for ask in a.asks.values()]
        for ask in asks[:2]:
            check_search(
                core, Ask(partition.name, ask.application.id, ask.ask.allocation_key), now_ms, brute_force=False
            )


def check_search(core: Core, ask: Ask, now_ms: int, brute_force: bool) -> None:
    before = digest(core.state)
    found = search(core, ask, lambda work: work(copy_of(core)), now_ms)
    assert digest(core.state) == before, "a search changes nothing"
    assert found.runs == runs(core, ask, [], now_ms)
    for change in found.changes:
        check_sufficient(core, ask, change.steps, now_ms)
        if brute_force:
            assert change.exact
            check_smallest(core, ask, change.steps, now_ms)
