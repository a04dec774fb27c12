"""The nodes of an RM of si.v1, on which it and a job manager of Peloton have their containers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from remuda_bus.bus import Bus, BusError
from remuda_core.core import Core
from remuda_core.facts import Allocated
from remuda_core.state import Allocation
from remuda_proto.guests import is_guest
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node

from .cluster import Cluster
from .peloton_clients import HostManager, again_and_again, caller
from .peloton_world import Wanted, World
from .resource_manager import Rm
from .story import Story

RM, CLUSTER, QUEUE = "rm-1", "default", "root.shared.peloton"
SHARED_QUEUE = "root.shared.own"  # of the RM, beside that of guests
SPARE, SPARE_VCORE = "spare", 64_000
TIDY_S = 0.5

_QUEUES = """
partitions:
- name: default
  preemption: {{enabled: {preemption}, quotapreemptionenabled: {preemption}}}
  placementrules: [{{name: provided, create: true}}]
  queues:
  - name: a
    submitacl: "*"
    adminacl: ops
    properties: {{preemption.delay: 1s}}
    resources: {{guaranteed: {{vcore: 20}}, max: {{vcore: 20}}}}
  - {{name: b, submitacl: "*", adminacl: ops}}
  - name: shared
    parent: true
    resources: {{max: {{vcore: {both}}}}}
    queues:
    - {{name: own, submitacl: "*", adminacl: ops}}
    - name: peloton
      parent: true
      submitacl: peloton.default
      properties: {{quota.preemption.delay: 2s}}
      resources: {{max: {{vcore: {guests}}}}}
"""


def configurations(preemption: bool) -> tuple[str, ...]:
    """They differ in the quotas."""
    said = str(preemption).lower()
    return tuple(_QUEUES.format(preemption=said, both=both, guests=guests) for both, guests in ((10, 8), (5, 3)))


def allocations_of(core: Core) -> list[Allocation]:
    return [one for partition in core.state.partitions.values() for one in partition.allocations.values()]


def guests_of(core: Core) -> list[Allocation]:
    return [one for one in allocations_of(core) if is_guest(one.application.id)]


def left_by_guests(core: Core) -> list[Allocated]:
    """Of guests in partitions that are gone until the RM registers again."""
    return [
        one
        for guests in core.state.left_guests.values()
        for left in guests.values()
        for one in left.allocations.values()
    ]


class SharingRm(Rm):
    """The RM of the nodes. It also tries to do something to guests. `core`: what the log says, to lie about."""

    QUEUES = ("root.a", "root.a", "root.a", SHARED_QUEUE)
    VCORE, SIZES = 1_000, (4, 6)
    PREEMPTION = si.PreemptionPolicy(allowPreemptSelf=True, allowPreemptOther=True)

    def __init__(self, random: Random, story: Story, neighbours: list[Cluster], core: Callable[[], Core]) -> None:
        super().__init__(RM, random, story, neighbours)
        self.CONFIGURATIONS = configurations(random.random() < 0.8)
        self.CONFIGURATION = self.CONFIGURATIONS[0]
        self._pace_s = random.choice((0.1, 0.3))
        self._log_core = core

    @property
    def is_tidy(self) -> bool:
        """There is room for all that may be admitted."""
        cluster = self.cluster
        return SPARE in cluster.nodes and not any(
            one.queueName == SHARED_QUEUE for one in cluster.applications.values()
        )

    async def _work(self, rm: ResourceManager, bus: Bus) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super()._work(rm, bus))
            group.create_task(self._tidy(rm))

    async def _tidy(self, rm: ResourceManager) -> None:
        """In the end there is a node on which all has room, no node drains, and nothing is in the queue beside that of
        guests."""
        undrained = False
        while True:
            await asyncio.sleep(TIDY_S)
            if not self.resting or not self.cluster.registered:
                continue
            try:
                if SPARE not in self.cluster.nodes:
                    await rm.report_nodes([node(SPARE, vcore=SPARE_VCORE)])
                    self.cluster.nodes[SPARE] = SPARE_VCORE
                for one in [one for one in self.cluster.applications.values() if one.queueName == SHARED_QUEUE]:
                    await rm.remove(one.applicationID)
                    self.cluster.forget(one.applicationID)
                if not undrained:
                    for node_id in list(self.cluster.nodes):
                        await rm.undrain(node_id)
                    undrained = True
            except BusError as error:
                self._story.tell(f"could not tidy up: {error}")

    # Lies about guests

    def _a_guest(self) -> Allocation | None:
        return self._random.choice(guests_of(self._log_core()) or [None])

    async def _submit_a_guest(self, rm: ResourceManager, _: Bus) -> None:
        await rm.submit(application(self._new("@peloton.default."), queue=QUEUE, user="peloton.default"))

    async def _ask_as_a_guest(self, rm: ResourceManager, _: Bus) -> None:
        """With a key of a guest, for an application of its own, or for that of the guest."""
        found = self._a_guest()
        if found is not None:
            own = self._random.choice([*self.cluster.applications, found.application.id])
            await rm.ask([ask(own, found.fact.allocation_key, vcore=self.VCORE)])

    async def _release_a_guest(self, rm: ResourceManager, _: Bus) -> None:
        found = self._a_guest()
        if found is not None:
            names = self._random.choice(("", "", "app-1", found.application.id))
            key = self._random.choice(("", "", found.fact.allocation_key))
            gone = si.AllocationRelease(
                applicationID=names, UUID=found.fact.uuid, allocationKey=key, terminationType=si.STOPPED_BY_RM
            )
            await rm.release([gone])

    async def _withdraw_a_guest(self, rm: ResourceManager, _: Bus) -> None:
        asks = [
            (application_id, key)
            for partition in self._log_core().state.partitions.values()
            for application_id, one in partition.applications.items()
            for key in one.asks
            if is_guest(application_id)
        ]
        if asks:
            application_id, key = self._random.choice(asks)
            names = self._random.choice(("", application_id))
            await rm.release([si.AllocationAskRelease(applicationID=names, allocationKey=key)])

    async def _remove_a_guest(self, rm: ResourceManager, _: Bus) -> None:
        if (found := self._a_guest()) is not None:
            await rm.remove(found.application.id)

    ACTS = (
        *(one for one in Rm.ACTS if one[0] is not Rm._add_node),  # nodes are full: the core preempts
        (Rm._register_again, 1.0), (Rm._configure, 2), (Rm._ask, 20), (_submit_a_guest, 1), (_ask_as_a_guest, 2),
        (_release_a_guest, 6), (_withdraw_a_guest, 2), (_remove_a_guest, 1),
    )  # fmt: skip


class SharedWorld(World):
    """Its hosts are nodes of the RM, as the log says, and those that have been and still have containers."""

    REVOCABLE, TASK_MB, TASK_CPU = 0.0, 0.0, (0.25, 0.5, 1.0)
    PRIORITIES = 1  # none above that of the RM: the core preempts guests

    def __init__(self, random: Random, story: Story, pools: int, core: Callable[[], Core]) -> None:
        super().__init__(random, story, pools, hosts=0)
        self._log_core = core
        self._used: set[str] = set()  # hosts that have had containers

    def host_names(self) -> set[str]:
        nodes = {name for partition in self._log_core().state.partitions.values() for name in partition.nodes}
        return nodes | {one.host for one in self.containers.values()}

    def reported_names(self) -> list[str]:
        """Nodes may be gone, with what ran there."""
        return sorted(self.host_names() | self._used)

    def launch(self, run_id: str, task: Wanted, host: str) -> None:
        self._used.add(host)
        super().launch(run_id, task, host)

    def _befall_a_host(self) -> None:
        """All containers of Peloton there end."""
        hosts = sorted({one.host for one in self.containers.values()})
        if hosts:
            host = self.random.choice(hosts)
            self.story.tell(f"the agent of {host} is restarted")
            for run_id in [run_id for run_id, one in self.containers.items() if one.host == host]:
                self.end(run_id, "TASK_LOST")

    def restore(self) -> None:
        """The RM does."""


class ContainerManager(HostManager):
    """Tells what containers do, and what runs where. The engine describes the hosts."""

    CAPACITY = (3.3, 0.0, 0.0, 0.0)

    async def main(self, bus: Bus) -> None:
        self._call = caller(bus, self._random)
        async with asyncio.TaskGroup() as group:
            for work, every_s in ((self._notify, 0.3), (self._report, 3.0), (self._create_pools, 2.0)):
                group.create_task(again_and_again(self._random, work, every_s))
