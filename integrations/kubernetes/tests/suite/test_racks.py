"""Gangs that want one rack, by the annotations of Kueue and labels of nodes."""

from __future__ import annotations

from pathlib import Path

from integrations.kubernetes.tests.suite.modes import Mode
from remuda.embedded import NatsServer
from remuda_kubernetes.api.client import MERGE_PATCH

RACK = "nvidia.com/gpu.clique"
QUEUES = f"""
partitions:
  - name: default
    topology: [{{level: rack, attribute: {RACK}}}]
    queues: [{{name: root, submitacl: '*', queues: [{{name: a}}]}}]
"""
RACKS = {"r1": 6, "r2": 8}  # nodes


async def test_a_gang_of_kueue_is_in_one_rack_and_a_late_member_joins_it(
    mode: Mode, server: NatsServer, tmp_path: Path
) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(QUEUES)
    annotations = {"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/pod-group-total-count": "8"}
    labels = {"kueue.x-k8s.io/pod-group-name": "train"}

    def member(name: str) -> dict[str, object]:
        return mode.pod(name, app="train", queue="root.a", cpu="3", labels=labels, annotations=annotations)

    members = [f"member-{number}" for number in range(8)]
    async with mode.cluster(server.url, queues) as it:
        for rack, count in RACKS.items():
            await it.add_nodes(*(f"{rack}-{number}" for number in range(count)), **{RACK: rack})
        for name in members:
            await it.create(member(name))
        found = await it.bound(*members)
        assert sorted(found.values()) == [f"r2-{number}" for number in range(8)]  # r1 is too small
        await it.create(member("late"))
        await mode.why(it, "late", "its group runs in r2, where no node has room for one more")
        await it.end(members[3])
        assert await it.bound("late") == {"late": found[members[3]]}


async def test_the_member_of_a_drained_node_comes_back_into_its_rack(
    mode: Mode, server: NatsServer, tmp_path: Path
) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(QUEUES)
    annotations = {"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/pod-group-total-count": "3"}
    labels = {"kueue.x-k8s.io/pod-group-name": "train"}

    def member(name: str) -> dict[str, object]:
        return mode.pod(name, app="train", queue="root.a", cpu="3", labels=labels, annotations=annotations)

    members = ["member-0", "member-1", "member-2"]
    async with mode.cluster(server.url, queues) as it:
        for rack, count in (("r1", 2), ("r2", 3)):
            await it.add_nodes(*(f"{rack}-{number}" for number in range(count)), **{RACK: rack})
        for name in members:
            await it.create(member(name))
        found = await it.bound(*members)
        node = f"/api/v1/nodes/{found['member-0']}"
        await it.client.patch(node, {"spec": {"unschedulable": True}}, MERGE_PATCH)
        await it.end("member-0")
        await it.create(member("member-0b"))
        await mode.why(it, "member-0b", "its group runs in r2, where no node has room for one more")
        await it.client.patch(node, {"spec": {"unschedulable": None}}, MERGE_PATCH)
        assert await it.bound("member-0b") == {"member-0b": found["member-0"]}
