"""A resource manager with racks: groups of asks in one rack, slices, nodes that move to another rack."""

from __future__ import annotations

from random import Random

from remuda_bus.bus import Bus
from remuda_core.core import Core
from remuda_proto.constants import TOPOLOGY_GROUP, TOPOLOGY_PREFERRED, TOPOLOGY_REQUIRED, TOPOLOGY_SLICE
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, ask, node

from .cluster import Cluster
from .resource_manager import CONFIGURATIONS, Rm
from .story import Story, Violation

LEVELS = "[{level: block, attribute: block}, {level: rack, attribute: rack}]"
RACK_CONFIGURATIONS = (
    CONFIGURATIONS[0].replace("- name: default\n", f"- name: default\n  topology: {LEVELS}\n"),
    CONFIGURATIONS[1].replace(
        "- name: default\n",
        f"- name: default\n  topology: {LEVELS}\n  nodesortpolicy: {{type: binpacking, pack: topology}}\n",
    ),
)


class RackCluster(Cluster):
    """`racks`: the block and the rack of each node. `moved`: whether a node has changed its rack."""

    def __init__(self, rm_id: str) -> None:
        super().__init__(rm_id)
        self.racks: dict[str, tuple[str, str]] = {}
        self.moved = False

    def node(self, node_id: str, vcore: int, existing: list[si.Allocation], draining: bool = False) -> si.NodeInfo:
        block, rack = self.racks.get(node_id, ("", ""))
        attributes = {"block": block, "rack": rack}
        return node(node_id, attributes=attributes, existing=existing, draining=draining, resources={"vcore": vcore})

    def compare(self, core: Core, allocated: list[str]) -> None:
        """And all members of a group with a required rack are in one rack, unless a node was moved."""
        super().compare(core, allocated)
        racks: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for partition in core.state.partitions.values():
            for one in partition.allocations.values():
                if TOPOLOGY_REQUIRED in one.fact.tags:
                    group = one.fact.tags.get(TOPOLOGY_GROUP, one.fact.allocation_key)
                    racks.setdefault((one.application.id, group), set()).add(self.racks[one.node.id])
        for group_key, found in racks.items():
            if len(found) > 1 and not self.moved:
                raise Violation(f"{self.rm_id}: group {group_key} is in racks {sorted(found)}")


class RackRm(Rm):
    CONFIGURATION = RACK_CONFIGURATIONS[0]
    CONFIGURATIONS = RACK_CONFIGURATIONS
    EXTRA_CONFIG = {"timing.domain_delay": "1s"}  # so that racks are avoided

    def __init__(self, rm_id: str, random: Random, story: Story, neighbours: list[Cluster]) -> None:
        super().__init__(rm_id, random, story, neighbours)
        self.cluster: RackCluster = RackCluster(rm_id)

    async def _add_node(self, rm: ResourceManager, bus: Bus) -> None:
        node_id, vcore = self._new("n"), self.VCORE * self._random.choice(self.SIZES)
        self.cluster.racks[node_id] = self._random.choice((("x", "1"), ("x", "2"), ("y", "1"), ("y", "")))
        await rm.report_nodes([self.cluster.node(node_id, vcore, [])])
        self.cluster.nodes[node_id] = vcore

    async def _update_node(self, rm: ResourceManager, bus: Bus) -> None:
        """Seldom the node moves to another rack."""
        cluster, node_id = self.cluster, self._random.choice(list(self.cluster.nodes))
        cluster.nodes[node_id] = vcore = self.VCORE * self._random.choice((4, 8))
        if self._random.random() < 0.1:
            cluster.racks[node_id], cluster.moved = self._random.choice((("x", "1"), ("y", "1"))), True
        await rm.update_nodes([cluster.node(node_id, vcore, [])])

    async def _ask(self, rm: ResourceManager, bus: Bus) -> None:
        app_id = self._random.choice(list(self.cluster.applications))
        if self._is_gang(app_id) or self._random.random() < 0.3:
            await super()._ask(rm, bus)
            return
        key, group = self._new("k"), self._random.choice(("g", "h"))
        tags = self._random.choice(
            (
                {TOPOLOGY_REQUIRED: "rack", TOPOLOGY_GROUP: group},
                {TOPOLOGY_REQUIRED: "rack"},
                {TOPOLOGY_PREFERRED: "rack"},
                {TOPOLOGY_SLICE: "rack/2", TOPOLOGY_PREFERRED: "block"},
            )
        )
        asked = ask(app_id, key, count=self._random.choice((2, 2, 4)), tags=tags, resources={"vcore": self.VCORE})
        await rm.ask([asked])
        if app_id in self.cluster.applications:
            self.cluster.asked[app_id, key] = asked
