"""Racks on a simulated API server: what becomes of a gang by Kueue's annotations, a late member, and a drained node."""

from __future__ import annotations

from integrations.kubernetes.tests import manifests
from integrations.kubernetes.tests.plane import Plane
from remuda_core.settings import TopologyLevel
from remuda_kubernetes.shim.cache import ShimPolicy

RACK = "nvidia.com/gpu.clique"
RACKS = {"r1": 6, "r2": 9}  # nodes
MEMBERS = [f"member-{number}" for number in range(8)]


def plane() -> Plane:
    policy = ShimPolicy(frozenset({"remuda"}), gangs=False, topology_labels=(RACK,))
    it = Plane({}, policy, (TopologyLevel("rack", RACK),))
    for rack, count in RACKS.items():
        for number in range(count):
            it.server.add("nodes", manifests.node(f"{rack}-{number}", **{RACK: rack}))
    return it


def add(it: Plane, name: str) -> None:
    annotations = {"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/pod-group-total-count": "8"}
    labels = {"kueue.x-k8s.io/pod-group-name": "train"}
    it.server.add("pods", manifests.pod(name, app="train", cpu="3", labels=labels, annotations=annotations), "default")


def end(it: Plane, name: str) -> None:
    pod = it.server.find("pods", name)
    assert pod is not None
    it.server.remove("pods", pod)


def cordon(it: Plane, name: str, unschedulable: bool) -> None:
    node = it.server.find("nodes", name, "")
    assert node is not None
    it.server.put("nodes", node, spec={"unschedulable": unschedulable})


async def test_a_gang_is_in_one_rack() -> None:
    it = plane()
    for name in MEMBERS[:7]:
        add(it, name)
    await it.settle()
    assert not any(map(it.node_of, MEMBERS[:7]))  # it starts as a whole
    add(it, MEMBERS[7])
    await it.settle()
    assert {it.node_of(name).partition("-")[0] for name in MEMBERS} == {"r2"}


async def test_a_late_member_joins_its_rack_or_waits_there() -> None:
    it = plane()
    for name in (*MEMBERS, "late"):
        add(it, name)
    await it.settle()
    assert it.node_of("late").startswith("r2-")
    add(it, "later")
    await it.settle()
    assert it.node_of("later") == ""  # there is room in the other rack
    it.now_ms += 60_000
    await it.settle()
    assert "its group runs in r2, where no node has room for one more" in "".join(it.said)
    freed = it.node_of(MEMBERS[3])
    end(it, MEMBERS[3])
    await it.settle()
    assert it.node_of("later") == freed


async def test_a_member_of_a_drained_node_comes_back_into_its_rack() -> None:
    it = plane()
    for name in (*MEMBERS, "late"):
        add(it, name)
    await it.settle()
    drained = it.node_of(MEMBERS[0])
    cordon(it, drained, True)
    end(it, MEMBERS[0])
    add(it, MEMBERS[0])
    await it.settle()
    assert it.node_of(MEMBERS[0]) == ""  # the other nodes of the rack are full, and other racks are not its own
    it.now_ms += 60_000
    await it.settle()
    assert "its group runs in r2, where no node has room for one more" in "".join(it.said)
    cordon(it, drained, False)
    await it.settle()
    assert it.node_of(MEMBERS[0]) == drained


async def test_a_member_of_a_node_that_is_gone_gets_another_one_of_its_rack() -> None:
    it = plane()
    for name in MEMBERS:
        add(it, name)
    await it.settle()
    gone = it.node_of(MEMBERS[0])
    it.server.remove("nodes", it.server.find("nodes", gone, "") or {})
    end(it, MEMBERS[0])
    add(it, MEMBERS[0])
    await it.settle()
    assert it.node_of(MEMBERS[0]).startswith("r2-") and it.node_of(MEMBERS[0]) != gone
