"""A deployment that an RM of si.v1 and a job manager of Peloton share, both of them, and the books of both logs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integrations.peloton.tests.system.test_chaos import Client, task
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.nats import connect
from remuda_proto.guests import is_guest
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2
from remuda_proto.remuda.resmgr.v1 import log_pb2 as peloton_log
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.running import serves, until

RM, MAX, NODE = "rm-1", 5_000, 4_000
QUEUES = f"""
partitions:
  - name: default
    preemption: {{enabled: true}}
    placementrules: [{{name: provided, create: true}}]
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {{name: batch, resources: {{guaranteed: {{vcore: 3}}}}, properties: {{preemption.delay: 1s}}}}
          - name: peloton
            parent: true
            submitacl: 'peloton.default'
            resources: {{max: {{vcore: {MAX}m}}}}
"""
GUESTS = f"rms.guests=default={RM}/root.peloton"
RESMGR = (
    "resmgr.port=0", "resmgr.timeouts.placing=8s", "resmgr.timeouts.launching=8s", "resmgr.timeouts.placed=8s",
    "resmgr.backoff.step=0s", "resmgr.entitlement.period=1s", "resmgr.reconciliation.age=0s",
)  # fmt: skip
ENGINE = (f"placement.rm={RM}", "placement.hold=3s", "placement.ports=31000-31010")
TASKS, WITHIN_S = 24, 100.0
PELOTON = f"remuda.log.{subjects.peloton_log('default')}"


@dataclass
class Deployment:
    """All processes of one deployment. `restart`: kill -9, and start another one."""

    bus: Bus
    restart: Callable[[str], None]


async def query(bus: Bus, kind: str) -> Any:
    answer = await bus.request(subjects.core_query(RM, kind), b"{}", timeout_s=5)
    return json.loads(answer.payload)


@contextmanager
def process(url: str, service: str, log: Path, *settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Until it is killed. `log`: what it writes, to look at when a test fails."""
    sets = [argument for one in settings for argument in ("--set", one)]
    command = [sys.executable, "-m", "remuda", "run", service, "--nats", url, *sets]
    with log.open("wb") as output:
        started = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield started
        finally:
            started.kill()
            started.wait()


@asynccontextmanager
async def deployment(url: str, directory: Path) -> AsyncIterator[Deployment]:
    settings = {"rmproxy": (GUESTS,), "resmgr": RESMGR, "placement": ENGINE, "core": (), "config": ()}
    bus = await connect(url, "client", timeout_s=5)
    await bus.declare()
    with ExitStack() as stack:
        lives: dict[str, int] = defaultdict(int)
        running: dict[str, subprocess.Popen[bytes]] = {}

        def start(service: str) -> None:
            lives[service] += 1
            name = f"instance={service}-{lives[service]}"
            log = directory / f"{service}-{lives[service]}.log"
            running[service] = stack.enter_context(process(url, service, log, name, *settings[service]))

        def restart(service: str) -> None:
            running[service].kill()
            start(service)

        for service in settings:
            start(service)
        await until(lambda: serves(url), 30)
        try:
            yield Deployment(bus, restart)
        finally:
            await bus.close()


class JobManager(Client):
    """Knows no hosts: the engine describes them."""

    async def begin(self, nodes: int = 2) -> None:
        async def has_hosts() -> bool:
            return len((await self.call("ListHosts", hosts_pb2.ListHostsRequest())).hosts) == nodes

        await until(has_hosts, 20)
        create = respool_pb2.CreateRequest()
        create.config.name, create.config.parent.value = "Team", "root"
        create.config.resources.add(kind="cpu", limit=min(MAX, nodes * NODE) / 1_000, reservation=1, share=1)
        await self.call("CreateResourcePool", create)
        lookup = respool_pb2.LookupRequest()
        lookup.path.value = "/Team"
        self.pool = (await self.call("LookupResourcePoolID", lookup)).id.value

    async def enqueue(self, numbers: range, **fields: Any) -> None:
        request = pb.EnqueueGangsRequest()
        request.resPool.value = self.pool
        for first in numbers[::2]:
            gang = [task(number) for number in (first, first + 1)]
            for one in gang:
                one.numPorts = 1
                for name, value in fields.items():
                    setattr(one, name, value)
            request.gangs.add().tasks.extend(gang)
        await self.call("EnqueueGangs", request)

    async def placed(self, count: int) -> list[tuple[str, str]]:
        """Runs, each with its host."""
        found: list[tuple[str, str]] = []
        while len(found) < count:
            answer = await self.call("GetPlacements", pb.GetPlacementsRequest(limit=10, timeout=300))
            found += [(one.mesosTaskID.value, where.hostname) for where in answer.placements for one in where.taskIDs]
        return found

    async def preempt(self) -> list[str]:
        """End what is to be preempted, as a job manager does. Returns the runs."""
        answer = await self.call("GetPreemptibleTasks", pb.GetPreemptibleTasksRequest(limit=10, timeout=300))
        for one in answer.preemptionCandidates:
            await self._tell(one.task_id.value, "TASK_KILLED")
        return [one.task_id.value for one in answer.preemptionCandidates]

    async def is_empty(self) -> bool:
        return not (await self.call("GetActiveTasks", pb.GetActiveTasksRequest())).tasksByState


@dataclass
class SiRm:
    """The RM of the nodes. Each of its allocations ends after a moment, unless `lasts`."""

    rm: ResourceManager
    lasts: bool = False
    held: dict[str, si.Allocation] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    callbacks: list[Any] = field(default_factory=list)

    async def begin(self, nodes: int = 2) -> None:
        await self.rm.report_nodes([node(f"n{one}", vcore=NODE, memory=2**34, disk=2**34) for one in range(nodes)])
        await self.rm.submit(application("app", queue="root.batch", user="alice"))

    async def ask(self, *keys: str, vcore: int = 1_000) -> None:
        may = si.PreemptionPolicy(allowPreemptSelf=True, allowPreemptOther=True)
        await self.rm.ask([ask("app", key, vcore=vcore, preemption=may) for key in keys])

    async def run(self) -> None:
        async for callback in self.rm.callbacks():
            self.callbacks.append(callback)
            if isinstance(callback, si.AllocationResponse):
                for one in callback.new:
                    self.held[one.allocationKey] = one
                    self.done.add(one.allocationKey)
                for gone in callback.released:
                    self.held.pop(gone.allocationKey, None)
                if callback.new and not self.lasts:
                    await asyncio.sleep(0.1)
                    await self.rm.release(callback.new)

    async def allocated(self, *keys: str) -> None:
        async def are() -> bool:
            return self.done >= set(keys)

        await until(are, 60)

    def sees_guests(self) -> bool:
        return any("@peloton" in str(callback) for callback in self.callbacks)


@asynccontextmanager
async def rm_of(url: str, **fields: Any) -> AsyncIterator[SiRm]:
    async with ResourceManager.connect(url, RM, config=QUEUES, **fields) as rm:
        found = SiRm(rm)
        following = asyncio.create_task(found.run())
        try:
            yield found
        finally:
            following.cancel()


async def commits(bus: Bus, stream: str, subject: str, kind: type[Any]) -> list[Any]:
    """All of them."""
    last = await bus.last_message(stream, subject)
    assert last is not None
    reader = await bus.read(stream, subject)
    found: list[Any] = []
    seq = 0
    while seq < last.seq:
        for message in await reader.batch():
            found.append(kind.FromString(message.payload))
            seq = message.seq
    await reader.close()
    return found


@dataclass
class Use:
    """An allocation of a guest in the RM's log."""

    key: str
    node: str
    from_ms: int
    until_ms: float = float("inf")


async def audit(bus: Bus) -> tuple[list[Use], int]:
    """Checks room and quota at each fact of the RM's log. Returns the guests' allocations, and the most that they ever
    had together."""
    uses: list[Use] = []
    held: dict[str, tuple[str, str, int]] = {}  # by UUID: application, node, vcore
    most = 0
    for commit in await commits(bus, subjects.LOG.name, subjects.log(RM), log_pb2.Commit):
        for fact in (one for decision in commit.decisions for one in decision.facts):
            if fact.HasField("allocated"):
                one = fact.allocated.allocation
                held[one.UUID] = (one.applicationID, one.nodeID, one.resourcePerAlloc.resources["vcore"].value)
                if is_guest(one.applicationID):
                    uses.append(Use(one.allocationKey, one.nodeID, commit.now_ms))
            elif fact.HasField("allocation_released"):
                application_id, _, _ = held.pop(fact.allocation_released.uuid)
                if is_guest(application_id):
                    key = fact.allocation_released.allocation_key
                    next(
                        one for one in uses if one.key == key and one.until_ms == float("inf")
                    ).until_ms = commit.now_ms
            elif fact.HasField("rm_registered"):
                held.clear()
            by_node: dict[str, int] = defaultdict(int)
            for _, where, vcore in held.values():
                by_node[where] += vcore
            assert all(used <= NODE for used in by_node.values()), by_node
            guests = sum(vcore for application_id, _, vcore in held.values() if is_guest(application_id))
            most = max(most, guests)
            assert guests <= MAX
    return uses, most


async def runs_on_hosts(bus: Bus) -> list[tuple[str, str, int, int]]:
    """Of Peloton's log: each stay of a run on a host, from and until when in ms."""
    stays: list[tuple[str, str, int, int]] = []
    there: dict[str, tuple[str, int]] = {}
    for commit in await commits(bus, subjects.PELOTON_LOG.name, PELOTON, peloton_log.Commit):
        for fact in (one for decision in commit.decisions for one in decision.facts):
            if fact.HasField("placement_queued"):
                for one in fact.placement_queued.placement.tasks:
                    there[one.run_id] = (fact.placement_queued.placement.hostname, commit.now_ms)
            off = [fact.run_ended.run_id] if fact.HasField("run_ended") else []
            off += [fact.task_requeued.run_id] if fact.HasField("task_requeued") else []
            off += [one.run_id for one in fact.gang_requeued.tasks]
            stays += [(run_id, *there.pop(run_id), commit.now_ms) for run_id in off if run_id in there]
    assert not there
    return stays


async def nothing_is_held(deployed: Deployment, manager: JobManager) -> None:
    """On either side."""

    async def is_free() -> bool:
        return not (await query(deployed.bus, "stats"))["allocations"]

    await until(is_free, 30)
    assert await manager.is_empty()
    asks = await query(deployed.bus, "asks")
    assert asks["asks"] == []
    for use in (await manager.call("ListHosts", hosts_pb2.ListHostsRequest())).hosts:
        assert use.room[0] == NODE / 1_000 and not use.used_ports
