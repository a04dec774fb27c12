"""Metrics of promises, backfill and forecasts."""

from __future__ import annotations

from remuda_core import facts
from remuda_core.commands import Register, ReleaseAllocation, Schedule, SubmitApplication, SubmitAsk, UpdateNode
from remuda_core.core import Core
from remuda_core.facts import Ask, Fact
from remuda_core.settings import EASY, Configuration, PartitionSettings, QueueSettings
from remuda_core.shell import metrics
from remuda_core.shell.backfilled import backfilled
from remuda_proto.remuda.v1 import log_pb2

PARTITION = "[rm-1]default"
MINUTE_MS = 60_000


class Cluster:
    """One node of 4, in a partition with backfill."""

    def __init__(self) -> None:
        self.core, self.now_ms = Core("rm-1"), MINUTE_MS
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
        self.handle(Register("rm-1", Configuration("", (PartitionSettings("default", root, backfill=EASY),))))
        self.handle(UpdateNode(PARTITION, "n1", "CREATE", {}, {"vcore": 4}))
        self.handle(SubmitApplication(PARTITION, "app", "root.a", "alice"))

    def handle(self, *commands: object) -> list[Fact]:
        return self.core.handle_all(commands, self.now_ms)  # type: ignore[arg-type]

    def ask(self, key: str, vcore: int, minutes: int) -> None:
        self.handle(SubmitAsk(Ask(PARTITION, "app", key, {"vcore": vcore}, 1, 0, minutes * MINUTE_MS)))


def test_allocations_on_nodes_reserved_for_others_are_backfilled() -> None:
    cluster = Cluster()
    cluster.ask("long", 3, 60)
    assert backfilled(cluster.core.state, cluster.handle(Schedule(10))) == 0
    cluster.ask("large", 4, 60)
    cluster.ask("short", 1, 10)
    cluster.now_ms += 5_000
    made = cluster.handle(Schedule(10))
    assert facts.NodeReserved in map(type, made)
    assert [fact.allocation_key for fact in made if isinstance(fact, facts.Allocated)] == ["short"]
    assert backfilled(cluster.core.state, made) == 1


def test_the_reserved_ask_itself_is_not_backfilled() -> None:
    cluster = Cluster()
    cluster.ask("long", 3, 60)
    cluster.ask("large", 4, 60)
    cluster.handle(Schedule(10))
    cluster.now_ms += 5_000
    cluster.handle(Schedule(10))
    uuid = next(iter(cluster.core.state.partitions[PARTITION].allocations))
    made = cluster.handle(ReleaseAllocation(PARTITION, "app", uuid, 1, ""), Schedule(10))
    assert facts.Allocated in map(type, made)
    assert backfilled(cluster.core.state, made) == 0


def test_promises_that_are_moved_to_a_later_time_are_broken() -> None:
    commit = log_pb2.Commit()
    for before_ms, promised_ms in ((1_000, 2_000), (2_000, 1_000), (0, 5_000), (1_000, 0)):
        changed = commit.decisions.add().facts.add().promise_changed
        changed.before_ms, changed.promised_ms = before_ms, promised_ms
    count = metrics.REPLICATION.promises_broken.labels("rm-1")
    before = count._value.get()
    metrics.REPLICATION.count_commit("rm-1", commit, {facts.PromiseChanged: 4}, 0.0)
    assert count._value.get() - before == 2
