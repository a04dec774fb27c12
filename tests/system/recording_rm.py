"""An RM on `remuda_sdk.api` that records its callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import application, ask, node, release_of
from remuda_sdk.api import DeadLetter, ResourceManagerCallback, SchedulerAPI


class Recording(ResourceManagerCallback):
    """`allocations`: by UUID; those that are released are in `released` as well."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.refused_nodes: list[str] = []
        self.applications: list[str] = []
        self.refused_applications: dict[str, str] = {}
        self.allocations: dict[str, si.Allocation] = {}
        self.released: dict[str, si.AllocationRelease] = {}
        self.refused_asks: dict[str, str] = {}
        self.refused: list[DeadLetter] = []
        self._changed = asyncio.Event()

    def update_node(self, response: si.NodeResponse) -> None:
        self.nodes += [one.nodeID for one in response.accepted]
        self.refused_nodes += [one.nodeID for one in response.rejected]
        self._changed.set()

    def update_application(self, response: si.ApplicationResponse) -> None:
        self.applications += [one.applicationID for one in response.accepted]
        self.refused_applications |= {one.applicationID: one.reason for one in response.rejected}
        self._changed.set()

    def update_allocation(self, response: si.AllocationResponse) -> None:
        self.allocations |= {one.UUID: one for one in response.new}
        self.released |= {one.UUID: one for one in response.released}
        self.refused_asks |= {one.allocationKey: one.reason for one in response.rejected}
        self._changed.set()

    def update_refused(self, letter: DeadLetter) -> None:
        self.refused.append(letter)
        self._changed.set()

    def running(self) -> dict[str, si.Allocation]:
        """By allocation key."""
        return {one.allocationKey: one for uuid, one in self.allocations.items() if uuid not in self.released}

    async def until(self, holds: Callable[[], object], within_s: float = 20.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


def registration(config: str = "", rm_id: str = "rm-1", **extra: str) -> si.RegisterResourceManagerRequest:
    return si.RegisterResourceManagerRequest(rmID=rm_id, config=config, extraConfig=extra)


def nodes(
    *node_ids: str, vcore: int = 1_000, action: si.NodeInfo.ActionFromRM.ValueType = si.NodeInfo.CREATE
) -> si.NodeRequest:
    made = [node(one, vcore=vcore) for one in node_ids]
    for one in made:
        one.action = action
    return si.NodeRequest(nodes=made)


def submission(queue: str = "root.a", app_id: str = "app-1") -> si.ApplicationRequest:
    return si.ApplicationRequest(new=[application(app_id, queue=queue, user="alice")])


def asks(*keys: str, vcore: int = 100, app_id: str = "app-1") -> si.AllocationRequest:
    return si.AllocationRequest(asks=[ask(app_id, key, vcore=vcore) for key in keys])


def releases(given: Sequence[si.Allocation | si.AllocationRelease]) -> si.AllocationRequest:
    """As the RM ends allocations, and as it confirms what the scheduler has requested."""
    made = [release_of(one) if isinstance(one, si.Allocation) else one for one in given]
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocationsToRelease=made))


async def in_service(scheduler: SchedulerAPI, rm: Recording, config: str, *node_ids: str, **extra: str) -> None:
    """Register, with nodes and an application."""
    await scheduler.register_resource_manager(registration(config, **extra), rm)
    await scheduler.update_node(nodes(*node_ids))
    await scheduler.update_application(submission())
    await rm.until(lambda: len(rm.nodes) >= len(node_ids) and rm.applications)
