"""What the query `topology` tells of domains, devices and groups that wait, against the same counted plainly."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.limits import FRAGMENT_KINDS, WAITING_GROUPS
from remuda_core.rules.devices import DeviceNeed
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, TopologyLevel
from remuda_core.shell import queries as queries_module
from remuda_core.shell.queries import Queries
from remuda_core.shell.topology import Kind, kinds_of, standing_of, usable

PARTITION = "[rm-1]default"
NOW_MS = 1_700_000_000_000
LEVELS = (TopologyLevel("block", "remuda/block"), TopologyLevel("rack", "si/rackname"))


@pytest.fixture(autouse=True)
def _computed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries_module, "SUMS_KEPT_S", 0.0)
    monkeypatch.setattr(queries_module, "SUMS_REST", 0)


def core(nodes: int = 6, levels: tuple[TopologyLevel, ...] = LEVELS, **settings: Any) -> Core:
    """Nodes of two GPUs, two in each rack of two racks in each block; the last one is in no rack."""
    made = Core("rm-1")
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"), QueueSettings("b")))
    partition = PartitionSettings("default", root, topology=levels, devices={"gpu": 100}, **settings)
    made.handle(commands.Register("rm-1", Configuration("sum", (partition,))), NOW_MS)
    for number in range(nodes):
        attributes = {"remuda/block": f"b{number // 4}"}
        if number < nodes - 1:
            attributes["si/rackname"] = f"r{number // 2 % 2}"
        capacity = {"vcore": 10, "gpu": 200}
        made.handle(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", attributes, capacity), NOW_MS)
    made.handle(commands.SubmitApplication(PARTITION, "app", "root.a", "ann"), NOW_MS)
    return made


def ask(core: Core, key: str, count: int = 1, tags: dict[str, str] | None = None, **resource: int) -> None:
    core.handle(commands.SubmitAsk(Ask(PARTITION, "app", key, resource, count, tags=tags or {})), NOW_MS)


def run(core: Core) -> None:
    core.handle(commands.Schedule(100), NOW_MS)
    core.handle(commands.Tick(), NOW_MS + 5_000)


def topology(core: Core, **request: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(Queries(core).topology(request)))
    return found


def test_domains_are_a_tree_with_sums() -> None:
    small = core()
    ask(small, "one", vcore=1, gpu=30)
    run(small)
    found = topology(small)
    rows = {"/".join(row["path"]): row for row in found["domains"]}
    assert list(rows) == ["", "b0", "b0/r0", "b0/r1", "b1", "b1/r0"]  # as a tree, whatever order the nodes came in
    assert [row["level"] for row in found["domains"]] == ["", "block", "rack", "rack", "block", "rack"]
    assert [(row["nodes"], row["ready"], row["empty"]) for row in rows.values()] == [
        (6, 6, 5), (4, 4, 3), (2, 2, 1), (2, 2, 2), (2, 2, 2), (1, 1, 1),
    ]  # fmt: skip
    assert rows["b0/r0"]["capacity"] == {"vcore": 20, "gpu": 400}
    assert rows["b0/r0"]["allocated"] == {"vcore": 1, "gpu": 30}
    (devices,) = rows["b0/r0"]["devices"]
    assert devices == {
        "resource": "gpu", "devices": 4, "used": 1, "whole": 3, "unfit": 0, "capacity": 400, "free": 370,
        "fragments": 0,
    }  # fmt: skip
    (partition,) = found["partitions"]
    assert [one["level"] for one in partition["levels"]] == ["block", "rack"]
    assert partition["devices"] == {"gpu": 100} and partition["waiting"] == []


def test_domains_come_in_pages() -> None:
    small = core()
    whole, found = topology(small)["domains"], []
    after: dict[str, Any] = {}
    while True:
        page = topology(small, limit=4, **after)
        found += page["domains"]
        if "next" not in page:
            break
        after = {"after": page["next"]}
    assert found == whole


def test_nodes_and_allocations_have_their_devices_and_domain() -> None:
    small = core()
    ask(small, "one", vcore=1, gpu=30)
    run(small)
    small.handle(commands.UpdateNode(PARTITION, "n1", "UPDATE", {"remuda/devices.gpu.unfit": "1"}), NOW_MS)
    queries = Queries(small)
    nodes: Any = msgspec.json.decode(msgspec.json.encode(queries.nodes({})))["nodes"]
    assert nodes[0]["domain"] == ["b0", "r0"] and nodes[5]["domain"] == ["b1"]
    (devices,) = nodes[0]["devices"]
    assert devices == {"resource": "gpu", "unit": 100, "names": ["0", "1"], "free": [70, 100], "unfit": []}
    assert nodes[1]["devices"][0]["unfit"] == ["1"]
    (allocation,) = msgspec.json.decode(msgspec.json.encode(queries.allocations({})))["allocations"]
    assert allocation["devices"] == {"gpu": "0"}


def test_nodes_without_topology_and_devices() -> None:
    plain = Core("rm-1")
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
    plain.handle(commands.Register("rm-1", Configuration("sum", (PartitionSettings("default", root),))), NOW_MS)
    plain.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", {"si/rackname": "r1"}, {"vcore": 4}), NOW_MS)
    (node,) = msgspec.json.decode(msgspec.json.encode(Queries(plain).nodes({})))["nodes"]
    assert node["devices"] == node["domain"] == []
    (row,) = topology(plain)["domains"]
    assert (row["path"], row["nodes"], row["devices"]) == ([], 1, [])


def test_what_nobody_can_use() -> None:
    """A rest of 10 beside each share of 90, as long as only 90 and whole devices are asked for."""
    small = core(levels=())
    ask(small, "shares", 4, vcore=1, gpu=90)
    run(small)
    (row,) = topology(small)["domains"]
    devices = row["devices"][0]
    assert (devices["free"], devices["fragments"]) == (12 * 100 - 4 * 90, 40)
    ask(small, "small", gpu=10, vcore=100)  # fits devices, and no node
    run(small)
    assert topology(small)["domains"][0]["devices"][0]["fragments"] == 40
    ask(small, "sparing", 100, gpu=10, vcore=0)
    assert topology(small)["domains"][0]["devices"][0]["fragments"] == 0


def test_what_stands_on_nodes_that_take_nothing_is_not_free() -> None:
    small = core(levels=())
    small.handle(commands.UpdateNode(PARTITION, "n0", "DRAIN_NODE"), NOW_MS)
    small.handle(commands.UpdateNode(PARTITION, "n1", "UPDATE", {"remuda/devices.gpu.unfit": "0"}), NOW_MS)
    (row,) = topology(small)["domains"]
    devices = row["devices"][0]
    assert (row["nodes"], row["ready"], row["empty"]) == (6, 5, 5)
    assert (devices["devices"], devices["whole"], devices["unfit"], devices["free"]) == (12, 9, 1, 900)


@pytest.mark.parametrize("seed", range(20))
def test_usable_amounts_against_trying_each_kind_on_each_device(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        offered = [random.choice((0, 10, 40, 100)) for _ in range(random.randint(0, 4))]
        available = {"vcore": random.randint(0, 4)}
        needs = {(random.choice((10, 40, 100)), random.randint(1, 2)): random.randint(0, 4) for _ in range(3)}
        kinds = [Kind(DeviceNeed("gpu", *need), {"vcore": cpu}) for need, cpu in sorted(needs.items())]
        useful = 0
        for amount in offered:
            useful += amount * any(
                amount >= share and sum(other >= share for other in offered) >= count and cpu <= available["vcore"]
                for (share, count), cpu in needs.items()
            )
        assert usable(offered, available, kinds) == useful


def test_kinds_are_of_waiting_asks_and_of_common_work_and_are_bounded() -> None:
    small = core(levels=())
    ask(small, "work", 2, vcore=2, gpu=50)
    run(small)
    ask(small, "waits", vcore=100, gpu=70)
    assert [(one.need, one.others) for one in kinds_of(small.state.partitions[PARTITION])["gpu"]] == [
        (DeviceNeed("gpu", 50, 1), {"vcore": 2}), (DeviceNeed("gpu", 70, 1), {"vcore": 100}),
    ]  # fmt: skip
    for number in range(FRAGMENT_KINDS + 5):
        ask(small, f"k{number}", vcore=100, gpu=number + 1)
    assert len(kinds_of(small.state.partitions[PARTITION])["gpu"]) == FRAGMENT_KINDS


def test_groups_that_wait() -> None:
    small = core()
    tags = {"remuda/topology.required": "rack", "remuda/topology.group": "workers"}
    ask(small, "first", 2, tags=tags, vcore=1, gpu=200)
    run(small)
    ask(small, "second", 3, tags=tags, vcore=1, gpu=200)
    ask(small, "third", 2, tags={"remuda/topology.slice": "rack/2"}, vcore=100)
    run(small)
    small.handle(commands.Tick(), NOW_MS + 60_000)
    (partition,) = topology(small)["partitions"]
    workers, slices = sorted(partition["waiting"], key=lambda row: -row["waiting"])
    assert partition["waiting_count"] == 2
    assert (workers["application"], workers["queue"], workers["group"]) == ("app", "root.a", "workers")
    assert (workers["required"], workers["waiting"], workers["placed"]) == ("rack", 3, 2)
    assert workers["domain"] == ["b0", "r0"] and workers["waits_for"][0] == "domain"
    assert (slices["slice"], slices["waiting"], slices["domain"]) == ("rack/2", 2, [])


def test_a_long_list_of_groups_is_cut() -> None:
    small = core()
    for number in range(WAITING_GROUPS + 3):
        ask(small, f"k{number}", 30, tags={"remuda/topology.required": "rack"}, vcore=100)
    (partition,) = topology(small)["partitions"]
    assert (len(partition["waiting"]), partition["waiting_count"]) == (WAITING_GROUPS, WAITING_GROUPS + 3)


def test_sums_of_domains_are_those_of_their_children() -> None:
    small, random = core(nodes=9), Random(1)
    for number in range(30):
        ask(small, f"k{number}", vcore=1, gpu=random.choice((10, 30, 100)))
    run(small)
    standing = standing_of(small.state.partitions[PARTITION])
    sums: Counter[tuple[str, ...]] = Counter()
    for node in small.state.partitions[PARTITION].nodes.values():
        path = [node.attributes.get(one.attribute, "") for one in LEVELS]
        for length in range(3):
            if all(path[:length]):
                sums[tuple(path[:length])] += sum(node.devices["gpu"].free())
    assert {one.path: one.devices["gpu"].free for one in standing.domains} == dict(sums)
