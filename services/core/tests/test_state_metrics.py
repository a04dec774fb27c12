"""Metrics of a state: queues, reasons, nodes; bounded, and without what has gone."""

from __future__ import annotations

import pytest
from prometheus_client import Gauge

from remuda_core import commands, limits
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import Configuration, PartitionSettings, PlacementRule, QueueSettings, TopologyLevel
from remuda_core.shell import metrics
from remuda_core.shell.state_metrics import measure

PARTITION = "[rm-1]default"


def core() -> Core:
    leaves = (QueueSettings("a", max={"vcore": 4}, guaranteed={"vcore": 2}), QueueSettings("b"))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("p", parent=True, queues=leaves),))
    settings = PartitionSettings("default", root, placement_rules=(PlacementRule("provided"),))
    made = Core("rm-1")
    for command in (
        commands.Register("rm-1", Configuration("x", (settings,))),
        commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 10}),
        commands.UpdateNode(PARTITION, "n2", "CREATE_DRAIN", capacity={"vcore": 10}),
        commands.SubmitApplication(PARTITION, "app-1", "root.p.a", "ann"),
        commands.SubmitApplication(PARTITION, "app-2", "root.p.b", "ann"),
        commands.SubmitAsk(Ask(PARTITION, "app-1", "k", {"vcore": 1}, 7)),
        commands.SubmitAsk(Ask(PARTITION, "app-2", "k", {"vcore": 20}, 2)),
        commands.Schedule(100),
    ):
        made.handle(command, 1_000)
    made.handle(commands.Tick(), 3_000)
    return made


def values(gauge: Gauge) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values())[1:]: sample.value for metric in gauge.collect() for sample in metric.samples}


def test_of_a_state() -> None:
    measure([core().state])
    found = values(metrics.QUEUE_RESOURCE)
    of_a = {labels[-1]: value for labels, value in found.items() if labels[1] == "root.p.a"}
    assert of_a == {"allocated": 4, "pending": 3, "guaranteed": 2, "max": 4}
    assert found["default", "root", "vcore", "pending"] == found["default", "root.p", "vcore", "pending"] == 43
    assert found["default", "root", "vcore", "max"] == 20
    assert values(metrics.QUEUE_SHARE)["default", "root.p.a"] == 2.0
    assert values(metrics.PENDING) == {("queue",): 3, ("too_large",): 2}
    assert values(metrics.NODES) == {("ready",): 1, ("draining",): 1}
    assert values(metrics.ALLOCATIONS) == {(): 4}
    assert sum(values(metrics.APPLICATIONS).values()) == 2
    measure([])
    assert not values(metrics.QUEUE_RESOURCE) and not values(metrics.PENDING)


def test_the_number_of_queues_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "METRIC_QUEUES", 3)
    monkeypatch.setattr(limits, "METRIC_ASKS", 1)
    measure([core().state, core().state])
    assert {labels[1] for labels in values(metrics.QUEUE_SHARE)} == {"root", "root.p", "root.p.a"}
    assert values(metrics.PENDING) == {("queue",): 3}


def test_of_devices_and_racks() -> None:
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
    levels = (TopologyLevel("block", "block"), TopologyLevel("rack", "rack"))
    settings = PartitionSettings("default", root, topology=levels, devices={"gpu": 100})
    made = Core("rm-1")
    made.handle(commands.Register("rm-1", Configuration("x", (settings,))), 1_000)
    for number in range(6):
        attributes = {"block": "b1", "rack": f"r{number // 2}"}
        made.handle(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", attributes, {"gpu": 200}), 1_000)
    made.handle(commands.SubmitApplication(PARTITION, "app", "root.a", "ann"), 1_000)
    made.handle(commands.SubmitAsk(Ask(PARTITION, "app", "share", {"gpu": 90})), 1_000)
    gang = {"remuda/topology.required": "rack"}
    made.handle(commands.SubmitAsk(Ask(PARTITION, "app", "gang", {"gpu": 200}, 3, tags=gang)), 1_000)
    made.handle(commands.Schedule(100), 1_000)
    measure([made.state])
    assert values(metrics.DEVICES) == {
        ("default", "gpu", "capacity"): 1_200, ("default", "gpu", "free"): 1_110, ("default", "gpu", "whole"): 1_100,
        ("default", "gpu", "fragments"): 10,
    }  # fmt: skip
    assert values(metrics.DOMAINS) == {
        ("default", "block", "all"): 1, ("default", "block", "used"): 1, ("default", "block", "whole"): 0,
        ("default", "rack", "all"): 3, ("default", "rack", "used"): 1, ("default", "rack", "whole"): 2,
    }  # fmt: skip
    assert values(metrics.EMPTY_NODES) == {("default", "block"): 5, ("default", "rack"): 2}
    assert values(metrics.GROUPS_WAITING) == {("default", "rack"): 1}
    measure([core().state])
    assert not values(metrics.DEVICES) and not values(metrics.DOMAINS) and not values(metrics.GROUPS_WAITING)
