"""A change of a queue leaves the scheduling index in place: what the change cannot affect is not looked at."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from remuda_core import commands
from remuda_core.check import check
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.index.partition import PartitionIndex
from remuda_core.settings import Configuration, Limit, PartitionSettings, PlacementRule, QueueSettings

PARTITION = "[rm-1]default"
NOW_MS = 1_000
QUOTA = "namespace.resourcequota"


def configuration(*queues: QueueSettings, checksum: str = "1") -> Configuration:
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    rules = (PlacementRule("provided"), PlacementRule("tag", create=True, value="namespace"))
    return Configuration(checksum, (PartitionSettings("default", root, placement_rules=rules),))


def core_with(*queues: QueueSettings) -> Core:
    core = Core("rm-1")
    core.handle(commands.Register("rm-1", configuration(*queues)), NOW_MS)
    core.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 10}), NOW_MS)
    return core


def submit(core: Core, app_id: str, queue: str = "", **tags: str) -> None:
    core.handle(commands.SubmitApplication(PARTITION, app_id, queue, "alice", tags=tags), NOW_MS)


def ask(core: Core, app_id: str, key: str, vcore: int, count: int = 1) -> None:
    core.handle(commands.SubmitAsk(Ask(PARTITION, app_id, key, {"vcore": vcore}, count)), NOW_MS)


def index_of(core: Core) -> PartitionIndex:
    index = core.index.find(core.state.partitions[PARTITION])
    assert index is not None
    return index


def quota(**amounts: int) -> str:
    return json.dumps({"resources": {name: {"value": amount} for name, amount in amounts.items()}})


def placed(core: Core, app_id: str) -> int:
    core.handle(commands.Schedule(100), NOW_MS)
    check(core.state, core.index)
    return len(core.state.partitions[PARTITION].applications[app_id].allocations)


def test_a_quota_that_changes_with_each_submission_leaves_the_index() -> None:
    core = core_with()
    submit(core, "first", **{"namespace": "team", QUOTA: quota(vcore=2)})
    ask(core, "first", "k", 1, count=20)
    assert placed(core, "first") == 2
    index = index_of(core)
    submit(core, "second", **{"namespace": "team", QUOTA: quota(vcore=5, never_seen=7)})
    assert placed(core, "first") == 5, "what gave up under the maximum looks again"
    submit(core, "third", **{"namespace": "team", QUOTA: quota(vcore=3)})
    assert placed(core, "first") == 5, "what runs stays, and nothing is added"
    assert index_of(core) is index


LEAF = QueueSettings("a")
CHANGES: dict[str, Callable[[QueueSettings], QueueSettings]] = {
    "max": lambda queue: replace(queue, max={"vcore": 9}),
    "guaranteed": lambda queue: replace(queue, guaranteed={"vcore": 2}),
    "limits": lambda queue: replace(queue, limits=(Limit(("*",), (), {"vcore": 9}, 3),)),
    "applications": lambda queue: replace(queue, max_applications=3),
    "order": lambda queue: replace(queue, properties={"application.sort.policy": "fair"}),
    "turns": lambda queue: replace(queue, properties={"application.sort.policy": "stateaware"}),
    "priority": lambda queue: replace(queue, properties={"priority.offset": "3"}),
    "access": lambda queue: replace(queue, submit_acl="alice"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_configuration_update_leaves_the_index(change: str) -> None:
    core = core_with(LEAF, QueueSettings("b"))
    for app_id in ("first", "second"):
        submit(core, app_id, "root.a")
        ask(core, app_id, "k", 1, count=20)
    core.handle(commands.Schedule(1), NOW_MS)
    index = index_of(core)
    core.handle(commands.Configure(configuration(CHANGES[change](LEAF), QueueSettings("b"), checksum="2")), NOW_MS)
    check(core.state, core.index)
    assert placed(core, "first") + placed(core, "second") >= 9
    core.handle(commands.Configure(configuration(LEAF, QueueSettings("c"), checksum="3")), NOW_MS)
    assert placed(core, "first") + placed(core, "second") == 10
    assert index_of(core) is index


def test_an_empty_leaf_becomes_a_parent_and_a_leaf_again() -> None:
    core = core_with(LEAF, QueueSettings("b"))
    submit(core, "other", "root.b")
    ask(core, "other", "k", 1)
    assert placed(core, "other") == 1
    index = index_of(core)
    below = replace(LEAF, queues=(QueueSettings("x"),))
    core.handle(commands.Configure(configuration(below, QueueSettings("b"), checksum="2")), NOW_MS)
    submit(core, "below", "root.a.x")
    ask(core, "below", "k", 1)
    assert placed(core, "below") == 1
    core.handle(commands.RemoveApplication(PARTITION, "below"), NOW_MS)
    core.handle(commands.Configure(configuration(LEAF, QueueSettings("b"), checksum="3")), NOW_MS)
    core.handle(commands.CleanQueues(), NOW_MS)
    submit(core, "again", "root.a")
    ask(core, "again", "k", 1)
    assert placed(core, "again") == 1
    assert index_of(core) is index
