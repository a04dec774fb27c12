"""Messages that a resource manager should not send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, ask, node

from .cluster import Cluster

INVALID = "partitions: [{name: default, queues: [{name: a, resources: {max: {vcore: many}}}]}]"


Lie = Callable[..., Awaitable[None]]


class Liar:
    """`neighbours`: the clusters of all, to tell lies about."""

    VCORE = 1  # the unit of nodes and asks

    def __init__(self, cluster: Cluster, random: Random, neighbours: list[Cluster]) -> None:
        self.cluster = cluster
        self._random = random
        self._neighbours = neighbours
        self._numbers = 0

    def _new(self, prefix: str) -> str:
        self._numbers += 1
        return f"{prefix}{self._numbers}"

    async def _release_unknown(self, rm: ResourceManager, _: Bus) -> None:
        kind = self._random.choice((si.STOPPED_BY_RM, si.TIMEOUT, si.PLACEHOLDER_REPLACED))
        await rm.release([si.AllocationRelease(applicationID="app-1", UUID="nonsense", terminationType=kind)])

    async def _release_twice(self, rm: ResourceManager, _: Bus) -> None:
        await rm.release(list(self.cluster.ended.values())[-3:])

    async def _release_foreign(self, rm: ResourceManager, _: Bus) -> None:
        others = [one for other in self._neighbours if other is not self.cluster for one in other.running.values()]
        await rm.release(others[-3:])

    async def _ask_for_nothing(self, rm: ResourceManager, _: Bus) -> None:
        nothing = ask("app-0", "x", vcore=1)
        nothing.applicationID = nothing.allocationKey = ""
        nothing.resourceAsk.resources["vcore"].value = -1  # the SDK builds none of this
        await rm.ask([ask("app-0", self._new("x"), vcore=1), nothing])

    async def _unknown_node(self, rm: ResourceManager, _: Bus) -> None:
        acts = (rm.drain, rm.undrain, rm.decommission)
        await self._random.choice(acts)("n0")

    async def _node_again(self, rm: ResourceManager, _: Bus) -> None:
        """One that exists, or one that has gone."""
        await rm.report_nodes([node(f"n{self._random.randint(1, self._numbers)}", vcore=4 * self.VCORE)])

    async def _run_on_its_own(self, rm: ResourceManager, _: Bus) -> None:
        """Reports what was never allocated, for an application that was never submitted."""
        await rm.report_allocations([si.Allocation(
            allocationKey="own", UUID=self._new("own-"), applicationID="app-0", nodeID="n1")])  # fmt: skip

    async def _babble(self, rm: ResourceManager, bus: Bus) -> None:
        kind = self._random.choice(subjects.REQUEST_KINDS)
        payload = self._random.choice((b"\xff\xff\xff", si.NodeRequest(rmID="rm-9").SerializeToString()))
        await bus.append(subjects.request(rm.rm_id, kind), payload)

    async def _misconfigure(self, rm: ResourceManager, _: Bus) -> None:
        await rm.update_configuration(INVALID)

    LIES: tuple[Lie, ...] = (
        _release_unknown, _release_twice, _release_foreign, _ask_for_nothing, _unknown_node, _node_again,
        _run_on_its_own, _babble, _misconfigure,
    )  # fmt: skip
