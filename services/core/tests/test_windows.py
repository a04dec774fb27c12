"""A pass looks only at reserved nodes on which something has changed, or whose time has come."""

from __future__ import annotations

from typing import Any

import pytest

from remuda_core import commands
from remuda_core.core import Core
from remuda_core.cycle import backfill, promises
from remuda_core.facts import STOPPED_BY_RM, Allocated, Ask, NodeReserved
from remuda_core.settings import EASY, Configuration, PartitionSettings, QueueSettings

PARTITION = "[rm-1]default"
NODES = 20
MINUTE_MS = 60_000


class Cluster:
    """On each of the nodes something runs for ten minutes, and an ask has reserved it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.core, self.now_ms, self.looked = Core("rm-1"), 1_000, list[str]()
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
        settings = PartitionSettings(
            "default", root, preemption_enabled=False, backfill=EASY, reservation_share=100,
            queue_reservation_share=100,
        )  # fmt: skip
        self.handle(commands.Register("rm-1", Configuration("", (settings,))))
        for number in range(NODES):
            self.handle(commands.UpdateNode(PARTITION, f"n{number:02}", "CREATE", {}, {"vcore": 8}))
        self.handle(commands.SubmitApplication(PARTITION, "app", "root.a", "ann"))
        self.ask("runs", 5, 10, NODES)
        self.handle(commands.Schedule(1_000))
        self.ask("wide", 6, 10, NODES)
        self.now_ms += 5_000
        reserved: list[NodeReserved] = []
        for _ in range(3):
            reserved = [fact for fact in self.handle(commands.Schedule(1_000)) if isinstance(fact, NodeReserved)]
            self.now_ms += 1_000
        assert not reserved and len(self.core.index.partitions[PARTITION].reserved_nodes.of) == NODES
        starts = promises.starts

        def counted(partition: Any, node: Any, now_ms: int) -> Any:
            self.looked.append(node.id)
            return starts(partition, node, now_ms)

        monkeypatch.setattr(backfill, "starts", counted)

    def handle(self, command: Any) -> list[Any]:
        return self.core.handle(command, self.now_ms)

    def ask(self, key: str, vcore: int, minutes: int, count: int = 1) -> None:
        self.handle(commands.SubmitAsk(Ask(PARTITION, "app", key, {"vcore": vcore}, count, 0, minutes * MINUTE_MS)))

    def cycle(self) -> list[tuple[str, str]]:
        self.looked.clear()
        facts = self.handle(commands.Schedule(1_000))
        return [(fact.allocation_key, fact.node_id) for fact in facts if isinstance(fact, Allocated)]


def test_only_changed_nodes_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.ask("short", 3, 5)
    assert cluster.cycle() == [("short", "n00")]
    assert cluster.looked == ["n00"], "after it was placed"
    cluster.ask("too-long", 3, 30)
    assert cluster.cycle() == [] and cluster.looked == []
    (short,) = [
        one
        for one in cluster.core.state.partitions[PARTITION].allocations.values()
        if one.fact.allocation_key == "short"
    ]
    cluster.handle(commands.ReleaseAllocation(PARTITION, "app", short.fact.uuid, STOPPED_BY_RM, ""))
    assert cluster.cycle() == [] and cluster.looked == ["n00"]
    cluster.handle(commands.UpdateNode(PARTITION, "n07", "UPDATE", {}, {"vcore": 9}))
    assert cluster.cycle() == [("too-long", "n07")], "beside the reserved ask"
    assert set(cluster.looked) == {"n07"}


def test_all_are_looked_at_when_their_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.now_ms += 9 * MINUTE_MS
    assert cluster.cycle() == [] and cluster.looked == []
    cluster.now_ms += MINUTE_MS
    cluster.cycle()
    assert cluster.looked == [f"n{number:02}" for number in range(NODES)]
