"""A resource manager: a process that uses the SDK, does its work, and lies now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random

from remuda_bus.bus import Bus, BusError
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from remuda_sdk.resource_manager.registration import Resync, Superseded

from .cluster import Cluster
from .lies import Liar
from .story import Story

QUEUES = ("root.a", "root.a", "root.b", "root.c.d")

CONFIGURATIONS = (
    """
partitions:
- name: default
  queues:
  - {name: a, submitacl: "*", adminacl: ops, resources: {guaranteed: {vcore: 4}, max: {vcore: 12}}}
  - {name: b, submitacl: "*", adminacl: ops}
  - {name: c, parent: true, queues: [{name: d, submitacl: "*", adminacl: ops, resources: {max: {vcore: 6}}}]}
""",
    """
partitions:
- name: default
  queues:
  - {name: a, submitacl: "*", adminacl: ops, resources: {guaranteed: {vcore: 2}, max: {vcore: 8}}}
  - {name: b, submitacl: "*", adminacl: ops}
  - {name: c, parent: true, queues: [{name: d, submitacl: "*", adminacl: ops}]}
""",
)


# Around the first minute of a simulation, which begins on Tuesday, 2023-11-14, at 22:30. The last one stays open.
CALENDAR = """- name: default
  calendar:
  - {name: disks, start: 2023-11-14 22:30:11, duration: 6s, ids: ["*"], unbounded: allow, release: true}
  - {name: books, start: 2023-11-14 22:30:22, duration: 9s, ids: ["*"], queue: root.b, lead: 3s}
  - name: night
    days: [tue]
    time: "22:29"
    duration: 40m
    settings: {root.a: {resources: {max: {vcore: 10}}}}
"""


def with_calendar(configuration: str) -> str:
    return configuration.replace("- name: default\n", CALENDAR)


Act = Callable[..., Awaitable[None]]


class Rm(Liar):
    CONFIGURATION = CONFIGURATIONS[0]
    CONFIGURATIONS: tuple[str, ...] = CONFIGURATIONS  # it changes between them
    EXTRA_CONFIG: Mapping[str, str] = {}  # of its registrations
    QUEUES: tuple[str, ...] = QUEUES
    SIZES: tuple[int, ...] = (4, 8)  # of new nodes
    PREEMPTION: si.PreemptionPolicy | None = None  # of its asks
    HEARS_ONCE = True  # each callback, in one life of the process

    def __init__(self, rm_id: str, random: Random, story: Story, neighbours: list[Cluster]) -> None:
        super().__init__(Cluster(rm_id), random, neighbours)
        self.resting = False  # no new work
        self._story = story
        self._pace_s = random.choice((0.2, 0.5, 1.0))
        self._honest = random.choice((0.7, 0.9, 1.0))
        self._asks_predicates = random.random() < 0.2
        self._heartbeat_s = random.choice((None, None, 1.0))
        self._slow = 0.05  # how often it takes its time over a callback
        if self._pace_s == 0.2 and self._honest < 1.0 and "{name: b," in self.CONFIGURATION:  # not drawn, as below
            self.CONFIGURATION = with_calendar(self.CONFIGURATION)
            self.CONFIGURATIONS = tuple(map(with_calendar, self.CONFIGURATIONS))

    async def main(self, bus: Bus) -> None:
        rm = ResourceManager.connect(
            bus,
            self.cluster.rm_id,
            config=self.CONFIGURATION,
            extra_config=self.EXTRA_CONFIG,
            resync=(resync := self._resync()),
            heartbeat_s=self._heartbeat_s,
            retry_for_s=20.0,
        )
        if self._asks_predicates and self._pace_s != 0.5:  # not drawn: seeds mean what they meant
            rm.on_batch_predicates(self.verdicts)
        elif self._asks_predicates:
            rm.on_predicates(self._may)
        try:
            async with rm:
                await self._registered(rm, resync)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._hear(rm))
                    group.create_task(self._work(rm, bus))
        except BaseExceptionGroup as errors:
            if errors.subgroup(Superseded) is not None:
                self.cluster.in_doubt = True
            raise

    def _resync(self) -> Resync:
        """Once it has begun to report, it goes on until the scheduler knows everything."""
        self.cluster.registered = False
        if self.cluster.in_doubt or self._random.random() < 0.5:
            self.cluster.in_doubt = True
            return "report"
        return "replay"

    async def _registered(self, rm: ResourceManager, resync: Resync) -> None:
        """A failed registration may have been handled late: then the numbers have a gap."""
        cluster, number = self.cluster, rm._connected_publisher().registration
        self._story.tell(f"has registration {number} by {resync}")
        expected, cluster.registration = cluster.registration + 1, number
        if resync == "replay" and number != expected:
            cluster.in_doubt = True
            await self._register(rm, "report")
        elif resync == "report":
            cluster.begin_anew()
            applications, nodes, asks = cluster.report()
            await rm.submit(*applications)
            await rm.report_nodes(nodes)
            await rm.ask(asks)
            cluster.in_doubt = False
            self._story.tell(f"has reported {len(cluster.running)} allocations, {len(asks)} asks")
        cluster.registered = True

    async def _register(self, rm: ResourceManager, resync: Resync) -> None:
        await rm.register(resync)
        await self._registered(rm, resync)

    async def _may(self, args: si.PredicatesArgs) -> str | None:
        await asyncio.sleep(self._random.uniform(0, 0.5))
        return "not today" if self._random.random() < 0.2 else None

    async def verdicts(self, request: predicates_pb2.BatchPredicatesRequest) -> list[predicates_pb2.NodeVerdict]:
        """Some until the node changes, some for a time, and none about some nodes."""
        await asyncio.sleep(self._random.uniform(0, 0.5))
        return [
            predicates_pb2.NodeVerdict(
                node_id=node_id,
                accepted=self._random.random() < 0.8,
                reason="not today",
                holds_ms=self._random.choice((0, 0, 2_000)),
            )
            for node_id in request.node_ids
            if self._random.random() < 0.95
        ]

    async def _hear(self, rm: ResourceManager) -> None:
        this_life: set[str] = set()
        async for callback in rm.callbacks():
            for line in self.cluster.hear(callback, this_life if self.HEARS_ONCE else set()):
                self._story.tell(line)
            if self._random.random() < self._slow:
                await asyncio.sleep(self._random.uniform(0, 1.0))

    async def _work(self, rm: ResourceManager, bus: Bus) -> None:
        while True:
            if self.resting:
                await asyncio.get_running_loop().create_future()
            try:
                await self._choose()(rm, bus)
            except BusError as error:
                self._story.tell(f"could not: {error}")
            await asyncio.sleep(self._random.expovariate(1 / self._pace_s))

    def _choose(self) -> Callable[[ResourceManager, Bus], Awaitable[None]]:
        if len(self.cluster.nodes) < 2:
            return self._add_node
        if not self.cluster.applications:
            return self._submit
        if self._random.random() > self._honest:
            return self._random.choice(self.LIES).__get__(self)
        acts, weights = zip(*self.ACTS, strict=True)
        return self._random.choices(acts, weights)[0].__get__(self)

    # Honest work

    async def _add_node(self, rm: ResourceManager, _: Bus) -> None:
        node_id, vcore = self._new("n"), self.VCORE * self._random.choice(self.SIZES)
        await rm.report_nodes([node(node_id, vcore=vcore, draining=self._random.random() < 0.1)])
        self.cluster.nodes[node_id] = vcore

    async def _update_node(self, rm: ResourceManager, _: Bus) -> None:
        node_id = self._random.choice(list(self.cluster.nodes))
        self.cluster.nodes[node_id] = vcore = self.VCORE * self._random.choice((2, 4, 8))
        await rm.update_nodes([node(node_id, vcore=vcore)])

    async def _drain(self, rm: ResourceManager, _: Bus) -> None:
        node_id = self._random.choice(list(self.cluster.nodes))
        await (rm.drain if self._random.random() < 0.4 else rm.undrain)(node_id)

    async def _decommission(self, rm: ResourceManager, _: Bus) -> None:
        node_id = self._random.choice(list(self.cluster.nodes))
        await rm.decommission(node_id)
        del self.cluster.nodes[node_id]

    async def _submit(self, rm: ResourceManager, bus: Bus) -> None:
        app_id, gang = self._new("app-"), self._random.random() < 0.3
        queue = self._random.choice(self.QUEUES)
        new = application(app_id, queue=queue, user="ann")
        if gang:
            new = application(
                app_id,
                queue=queue,
                user="bob",
                placeholders={"vcore": 3 * self.VCORE},
                gang_style=self._random.choice(("Hard", "Soft")),
                execution_timeout_ms=self._random.choice((3_000, 8_000)),
            )
        await rm.submit(new)
        self.cluster.applications[app_id] = new
        if gang:
            await rm.ask([ask(app_id, self._new("ph"), count=3, task_group="tg", placeholder=True, vcore=self.VCORE)])

    async def _ask(self, rm: ResourceManager, _: Bus) -> None:
        app_id = self._random.choice(list(self.cluster.applications))
        key, count, gang = self._new("k"), self._random.choice((1, 1, 2, 3)), self._is_gang(app_id)
        asked = ask(
            app_id,
            key,
            count=count,
            priority=self._random.choice((0, 0, 1)),
            timeout_ms=self._random.choice((0, 0, 2_000, 6_000)),
            task_group="tg" if gang else "",
            vcore=self.VCORE * (1 if gang else self._random.choice((1, 2))),
            preemption=self.PREEMPTION,
        )
        await rm.ask([asked])
        if not gang and app_id in self.cluster.applications:
            self.cluster.asked[app_id, key] = asked

    def _is_gang(self, app_id: str) -> bool:
        return self.cluster.applications[app_id].HasField("placeholderAsk")

    async def _release(self, rm: ResourceManager, _: Bus) -> None:
        running = list(self.cluster.running.values())
        await rm.release(self._random.sample(running, min(len(running), self._random.choice((1, 1, 3)))))

    async def _release_ask(self, rm: ResourceManager, _: Bus) -> None:
        if self.cluster.asked:
            app_id, key = taken = self._random.choice(list(self.cluster.asked))
            del self.cluster.asked[taken]
            await rm.release([si.AllocationAskRelease(applicationID=app_id, allocationKey=key)])

    async def _remove(self, rm: ResourceManager, _: Bus) -> None:
        app_id = self._random.choice(list(self.cluster.applications))
        self.cluster.forget(app_id)
        await rm.remove(app_id)

    async def _configure(self, rm: ResourceManager, _: Bus) -> None:
        await rm.update_configuration(self._random.choice(self.CONFIGURATIONS))

    async def _register_again(self, rm: ResourceManager, _: Bus) -> None:
        await self._register(rm, self._resync())

    async def _deregister(self, rm: ResourceManager, _: Bus) -> None:
        self.cluster.in_doubt, self.cluster.registered = True, False
        await rm.deregister()
        self.cluster.clear()
        await self._register(rm, "report")

    ACTS: tuple[tuple[Act, float], ...] = (
        (_ask, 40), (_release, 16), (_submit, 10), (_release_ask, 3), (_remove, 3), (_update_node, 3), (_drain, 4),
        (_add_node, 3), (_decommission, 2), (_configure, 2), (_register_again, 1.5), (_deregister, 0.3),
    )  # fmt: skip
