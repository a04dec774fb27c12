"""A resource manager with GPUs on devices: shares of them and whole ones, devices that fall ill and leave."""

from __future__ import annotations

from collections import Counter
from random import Random

from remuda_bus.bus import Bus
from remuda_core.core import Core
from remuda_proto.constants import DEVICES_TAG, DEVICES_UNFIT
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, ask, node

from .cluster import Cluster
from .resource_manager import CONFIGURATIONS, Rm
from .story import Story, Violation

UNIT = 1_000
TAG = DEVICES_TAG + "gpu"
GPU_CONFIGURATIONS = (
    CONFIGURATIONS[0].replace("- name: default\n", "- name: default\n  devices: {gpu: 1000}\n"),
    CONFIGURATIONS[1].replace(
        "- name: default\n",
        "- name: default\n  devices: {gpu: 1000}\n  nodesortpolicy: {type: fragmentation}\n",
    ),
)


class GpuCluster(Cluster):
    """`gpus`: the names of the devices of each node; `unfit`: nodes whose first device is ill."""

    def __init__(self, rm_id: str) -> None:
        super().__init__(rm_id)
        self.gpus: dict[str, list[str]] = {}
        self.unfit: set[str] = set()

    def node(self, node_id: str, vcore: int, existing: list[si.Allocation], draining: bool = False) -> si.NodeInfo:
        names = self.gpus.get(node_id, [])
        attributes = {TAG: ",".join(names), TAG + DEVICES_UNFIT: names[0] if names and node_id in self.unfit else ""}
        amounts = {"vcore": vcore, "gpu": UNIT * len(names)}
        return node(node_id, attributes=attributes, existing=existing, draining=draining, resources=amounts)

    def begin_anew(self) -> None:
        """An allocation whose devices have left ends, too: it cannot be reported."""
        super().begin_anew()
        for uuid, allocation in list(self.running.items()):
            if not devices_of(allocation) <= set(self.gpus.get(allocation.nodeID, ())):
                self.ended[uuid] = self.running.pop(uuid)

    def compare(self, core: Core, allocated: list[str]) -> None:
        """And each allocation is on the devices that the RM was told of, none of which is given twice."""
        super().compare(core, allocated)
        used: Counter[tuple[str, str]] = Counter()
        for partition in core.state.partitions.values():
            for uuid, one in partition.allocations.items():
                mine, theirs = (
                    devices_of(self.running[uuid]),
                    set(filter(None, one.fact.devices.get("gpu", "").split(","))),
                )
                if mine != theirs:
                    raise Violation(f"{self.rm_id}: {uuid} is on {mine}, for the scheduler on {theirs}")
                for name in mine:
                    used[one.node.id, name] += one.fact.resource["gpu"] // len(mine)
        for (node_id, name), amount in used.items():
            if amount > UNIT:
                raise Violation(f"{self.rm_id}: {amount} are on device {name} of {node_id}")


def devices_of(allocation: si.Allocation) -> set[str]:
    return set(filter(None, allocation.allocationTags[TAG].split(","))) if TAG in allocation.allocationTags else set()


class GpuRm(Rm):
    CONFIGURATION = GPU_CONFIGURATIONS[0]
    CONFIGURATIONS = GPU_CONFIGURATIONS

    def __init__(self, rm_id: str, random: Random, story: Story, neighbours: list[Cluster]) -> None:
        super().__init__(rm_id, random, story, neighbours)
        self.cluster: GpuCluster = GpuCluster(rm_id)

    async def _add_node(self, rm: ResourceManager, bus: Bus) -> None:
        node_id, vcore = self._new("n"), self.VCORE * self._random.choice(self.SIZES)
        self.cluster.gpus[node_id] = [f"g{number}" for number in range(self._random.choice((0, 1, 2, 4)))]
        await rm.report_nodes([self.cluster.node(node_id, vcore, [])])
        self.cluster.nodes[node_id] = vcore

    async def _update_node(self, rm: ResourceManager, bus: Bus) -> None:
        """Sometimes a device falls ill or leaves, or is there again."""
        cluster, node_id = self.cluster, self._random.choice(list(self.cluster.nodes))
        cluster.nodes[node_id] = vcore = self.VCORE * self._random.choice((4, 8))
        if self._random.random() < 0.3:
            cluster.unfit ^= {node_id}
        names = cluster.gpus.setdefault(node_id, [])
        if names and self._random.random() < 0.2:
            names.pop(self._random.randrange(len(names)))
        elif self._random.random() < 0.2:
            names.append(self._new("g"))
        await rm.update_nodes([cluster.node(node_id, vcore, [])])

    async def _ask(self, rm: ResourceManager, bus: Bus) -> None:
        app_id = self._random.choice(list(self.cluster.applications))
        if self._is_gang(app_id) or self._random.random() < 0.3:
            await super()._ask(rm, bus)
            return
        key, gpu = self._new("k"), self._random.choice((200, 250, 500, 500, 700, UNIT, UNIT, 2 * UNIT))
        tags = {TAG + ".count": "2"} if gpu == 700 and self._random.random() < 0.5 else {}
        asked = ask(
            app_id, key, count=self._random.choice((1, 2)), tags=tags, resources={"vcore": self.VCORE, "gpu": gpu}
        )
        await rm.ask([asked])
        if app_id in self.cluster.applications:
            self.cluster.asked[app_id, key] = asked
