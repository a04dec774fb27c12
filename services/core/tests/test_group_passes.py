"""Groups in passes that are bounded: a start is whole, and what a pass leaves, the next one takes up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remuda_core.check import check
from remuda_core.commands import Register, Schedule, SubmitApplication, SubmitAsk, UpdateNode
from remuda_core.core import Core
from remuda_core.cycle import schedule
from remuda_core.facts import Allocated, Ask
from remuda_core.limits import GROUP_SIZE
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, TopologyLevel
from remuda_proto.constants import TOPOLOGY_REQUIRED

PARTITION = "[rm]default"
NOW_MS = 1_000_000


def cluster(racks: int, nodes: int, vcore: int) -> Core:
    core = Core("rm")
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
    settings = PartitionSettings("default", root, topology=(TopologyLevel("rack", "rack"),))
    core.handle(Register("rm", Configuration("sum", (settings,))), NOW_MS)
    for rack in range(racks):
        for node in range(nodes):
            where = {"rack": f"r{rack}"}
            core.handle(UpdateNode(PARTITION, f"n{rack}-{node}", "CREATE", where, {"vcore": vcore}), NOW_MS)
    return core


def submit(core: Core, name: str, members: int, vcore: int) -> None:
    core.handle(SubmitApplication(PARTITION, name, "root.a", "alice"), NOW_MS)
    ask = Ask(PARTITION, name, "k", {"vcore": vcore}, members, tags={TOPOLOGY_REQUIRED: "rack"})
    core.handle(SubmitAsk(ask), NOW_MS)


def placed(core: Core, limit: int) -> Iterator[tuple[str, str]]:
    for fact in core.handle(Schedule(limit), NOW_MS):
        if isinstance(fact, Allocated):
            yield fact.application_id, fact.node_id


def test_the_largest_group_starts_in_one_pass() -> None:
    core = cluster(2, 100, 100)
    submit(core, "large", GROUP_SIZE, 1)
    found = list(placed(core, 1))
    assert len(found) == GROUP_SIZE
    assert len({node.partition("-")[0] for _, node in found}) == 1
    check(core.state, core.index)


def test_passes_that_run_out_of_steps_place_what_one_pass_places(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for steps in (10**9, 60):
        monkeypatch.setattr(schedule, "STEPS_PER_PASS", steps)
        core, found, passes = cluster(6, 4, 4), list[tuple[str, str]](), 0
        for number in range(20):
            submit(core, f"app-{number:02}", 2 + number % 4, 1 + number % 4)
        while not passes or core.index.unfinished:
            found += placed(core, 1_000)
            passes += 1
        check(core.state, core.index)
        results.append((found, passes))
    (at_once, one), (bit_by_bit, many) = results
    assert bit_by_bit == at_once
    assert one == 1
    assert many > 5
