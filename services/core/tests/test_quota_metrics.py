"""Metrics of quota preemption: what a queue has to give back, and how many allocations that has cost it."""

from __future__ import annotations

from collections import Counter, deque

import pytest

from remuda_bus.metrics import OTHERS
from remuda_core import commands, facts, limits
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import Configuration, PartitionSettings, PlacementRule, QueueSettings
from remuda_core.shell import metrics
from remuda_core.shell.deciding import Deciding
from remuda_core.shell.state_metrics import measure
from remuda_proto.remuda.v1 import log_pb2

PARTITION, DELAY_S = "[rm-1]default", 60


def configuration(most: int) -> Configuration:
    delay = {"quota.preemption.delay": f"{DELAY_S}s"}
    leaf = QueueSettings("a", max={"vcore": most, "memory": 9}, properties=delay)
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(leaf,))
    of = PartitionSettings("default", root, placement_rules=(PlacementRule("provided"),), quota_preemption_enabled=True)
    return Configuration(f"max {most}", (of,))


def above_its_maximum() -> Core:
    """Four allocations of one core each, where two are allowed."""
    core = Core("rm-1")
    for command in (
        commands.Register("rm-1", configuration(4)),
        commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 10, "memory": 10}),
        commands.SubmitApplication(PARTITION, "app-1", "root.a", "ann"),
        commands.SubmitAsk(Ask(PARTITION, "app-1", "k", {"vcore": 1, "memory": 1}, 4)),
        commands.Schedule(100),
        commands.Configure(configuration(2)),
    ):
        core.handle(command, 1_000)
    return core


def excess() -> dict[str, float]:
    samples = [sample for metric in metrics.QUEUE_RESOURCE.collect() for sample in metric.samples]
    return {one.labels["resource"]: one.value for one in samples if one.labels["state"] == "excess"}


def victims() -> Counter[tuple[str, str]]:
    samples = [sample for metric in metrics.REPLICATION.quota_victims.collect() for sample in metric.samples]
    of_rm = [one for one in samples if one.name.endswith("_total") and one.labels["rm"] == "rm-1"]
    return Counter({(one.labels["partition"], one.labels["queue"]): int(one.value) for one in of_rm})


def test_what_a_queue_has_to_give_back() -> None:
    core = above_its_maximum()
    measure([core.state])
    assert excess() == {"vcore": 2}
    core.handle(commands.Configure(configuration(4)), 2_000)
    measure([core.state])
    assert excess() == {}


async def test_victims_are_counted_when_their_commit_is_durable() -> None:
    before = victims()
    deciding = Deciding(above_its_maximum(), lambda: 1_000 + 1_000 * DELAY_S)
    commit, _ = await deciding.commit(deque(), 1)
    assert victims() == before
    metrics.REPLICATION.count_commit("rm-1", commit, deciding.facts_by_kind, 0.0)
    assert victims() - before == {("default", "root.a"): 2}


def test_the_number_of_queues_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics.REPLICATION, "_queues", {})
    monkeypatch.setattr(limits, "METRIC_QUOTA_QUEUES", 2)
    before, commit = victims(), log_pb2.Commit()
    for number in (1, 2, 3, 4, 1):
        fact = commit.decisions.add().facts.add().quota_preempted
        fact.partition, fact.queue, fact.uuids[:] = PARTITION, f"root.bounded-{number}", ["u"]
    metrics.REPLICATION.count_commit("rm-1", commit, {facts.QuotaPreempted: 5}, 0.0)
    bounded = {("default", "root.bounded-1"): 2, ("default", "root.bounded-2"): 1, (OTHERS, OTHERS): 2}
    assert victims() - before == bounded
