"""The clients of a Peloton resource manager: job manager, host manager and engines.

Each RPC may be lost before or after it had an effect. Each client may be killed between any two steps; then it goes on
from the world."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from remuda_bus.bus import Bus, BusError, Message, NoResponders, Refused
from remuda_peloton.rules.resources import KINDS
from remuda_peloton.shell.engine import Caller, Engine
from remuda_peloton.shell.front import SERVICES, Front
from remuda_peloton.shell.request_handler import Unavailable
from remuda_peloton.wire.rpcs import RpcError
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2

from .peloton_world import ENDED, ENQUEUED, HOST_CPU, HOST_MB, HOSTS, Wanted, World
from .story import CURRENT, Story

RPC = "rpc"
RPCS = {name: rpc for _, table in SERVICES.values() for name, rpc in table.items()}
ANSWERS = {
    name: GetMessageClass(described.methods_by_name[name].output_type)
    for described, table in SERVICES.values()
    for name in table
}
WITHIN_S = 8.0
STALE_S = 12.0  # a placement that the job manager asked for so long ago may have been given back
MANAGERS = ("resmgr-1", "resmgr-2", "resmgr-3")
# Name, parent, and parts of the cluster: reservation, limit.
POOLS = (("a", "root", 0.5, 1.0), ("b", "root", 0.4, 0.8), ("b1", "b", 0.2, 0.6), ("b2", "b", 0.1, 0.8))
LEAVES = ("/a", "/b/b1", "/b/b2")


def subject(manager: str) -> str:
    return f"sim.peloton.{manager}"


class SimulatedServer:
    """In place of the gRPC server: RPCs are requests over the simulated network."""

    def __init__(self, front: Front, address: str, credentials: object = None) -> None:
        self._front = front
        self.port = 1

    async def start(self) -> None:
        process = CURRENT.get()
        assert process is not None and process.connection is not None
        await process.connection.serve(subject(process.name), self._answer, "resmgr")

    async def stop(self) -> None:
        pass

    async def _answer(self, message: Message) -> bytes:
        name = message.headers[RPC]
        try:
            return await self._front.answer(name, RPCS[name], message.payload)
        except RpcError as error:
            raise Refused(str(error), 400) from None
        except Unavailable as error:
            raise Refused(str(error), 503) from None


def caller(bus: Bus, random: Random, managers: Sequence[str] = MANAGERS) -> Caller:
    """Calls an RPC of any resource manager, and of the next one if that does not follow the log. Raises BusError."""

    async def call(name: str, request: Any) -> Any:
        within_s = WITHIN_S + getattr(request, "timeout", 0) / 1_000
        problem: BusError | None = None
        for manager in random.sample(managers, len(managers)):
            try:
                answer = await bus.request(
                    subject(manager), request.SerializeToString(), {RPC: name}, timeout_s=within_s
                )
                return ANSWERS[name].FromString(answer.payload)
            except (Refused, NoResponders) as error:
                problem = error
        assert problem is not None
        raise problem

    return call


async def again_and_again(random: Random, work: Callable[[], Awaitable[None]], every_s: float) -> None:
    while True:
        try:
            await work()
        except BusError:
            pass
        await asyncio.sleep(random.uniform(0.2, 1.0) * every_s)


class JobManager:
    def __init__(self, world: World, random: Random, story: Story) -> None:
        self._world, self._random, self._story = world, random, story
        self._clock = asyncio.get_running_loop().time
        self._pools: dict[str, str] = {}
        self._as_of_ms = 0

    async def main(self, bus: Bus) -> None:
        self._call = caller(bus, self._random)
        async with asyncio.TaskGroup() as group:
            for work, every_s in (
                (self._enqueue, 0.5), (self._launch, 0.2), (self._preempt, 1.0), (self._kill, 3.0),
                (self._report, 3.0),
            ):  # fmt: skip
                group.create_task(again_and_again(self._random, work, every_s))

    async def _enqueue(self) -> None:
        for gang in self._world.new_gangs():
            path = LEAVES[gang[0].pool]
            if not self._pools.get(path):
                self._pools[path] = await self._pool(path)
            if self._pools[path]:
                await self._enqueue_gang(gang, self._pools[path])

    async def _enqueue_gang(self, gang: list[Wanted], pool_id: str) -> None:
        runs = {task.run_id: task for task in gang}
        request = pb.EnqueueGangsRequest()
        request.resPool.value = pool_id
        request.gangs.add().tasks.extend(task.message() for task in gang)
        answer = await self._call("EnqueueGangs", request)
        already = pb.EnqueueGangsFailure.ENQUEUE_GANGS_FAILURE_ERROR_CODE_ALREADY_EXIST
        refused = {
            one.task.taskId.value for one in answer.error.failure.failed if one.errorcode != already
        }  # fmt: skip
        for run_id, task in runs.items():
            if task.run_id == run_id and task.state != ENDED and run_id not in refused:
                task.state = ENQUEUED

    async def _pool(self, path: str) -> str:
        request = respool_pb2.LookupRequest()
        request.path.value = path
        answer = await self._call("LookupResourcePoolID", request)
        return "" if answer.HasField("error") else str(answer.id.value)

    async def _launch(self) -> None:
        asked = self._clock()
        answer = await self._call("GetPlacements", pb.GetPlacementsRequest(limit=5, timeout=1_000))
        if self._clock() - asked > STALE_S:
            return  # they time out, and come again
        stale = pb.UpdateTasksStateRequest()
        for placement in answer.placements:
            for one in placement.taskIDs:
                self._launch_one(one.mesosTaskID.value, placement.hostname, stale)
        if stale.taskStates:
            await self._call("UpdateTasksState", stale)

    def _launch_one(self, run_id: str, host: str, stale: pb.UpdateTasksStateRequest) -> None:
        world, task = self._world, self._world.wants(run_id)
        if task is None:
            _killed(stale, run_id)
        elif (container := world.containers.get(run_id)) is not None:
            if container.host != host:
                world.end(run_id, "TASK_KILLED")  # it was given to another host meanwhile
        elif host in world.host_names():
            world.launch(run_id, task, host)
        else:
            world.tell(run_id, "TASK_LOST")
            world.again(task)

    async def _preempt(self) -> None:
        answer = await self._call("GetPreemptibleTasks", pb.GetPreemptibleTasksRequest(limit=10, timeout=500))
        for one in answer.preemptionCandidates:
            if one.task_id.value in self._world.containers:
                self._world.end(one.task_id.value, "TASK_KILLED")

    async def _kill(self) -> None:
        """A person stops a task."""
        if self._world.resting or not self._world.tasks:
            return
        task = self._random.choice(list(self._world.tasks.values()))
        request = pb.KillTasksRequest()
        request.tasks.add(value=task.id)
        task.state = ENDED
        self._story.tell(f"task {task.id[-6:]} is stopped")
        if task.run_id in self._world.containers:
            self._world.end(task.run_id, "TASK_KILLED")
        await self._call("KillTasks", request)

    async def _report(self) -> None:
        """What the resource manager tracks and nobody wants ends: a request may come late, and a task be forgotten."""
        request = hosts_pb2.ReconcilePoolsRequest(as_of_ms=self._as_of_ms)
        for number, path in enumerate(LEAVES):
            if self._pools.get(path):
                tasks = [task for task in self._world.tasks.values() if task.pool == number]
                run_ids = [task.run_id for task in tasks if task.state != ENDED]
                request.pools.add(pool_id=self._pools[path], run_ids=run_ids)
        self._as_of_ms = (await self._call("ReconcilePools", request)).now_ms


def _killed(request: pb.UpdateTasksStateRequest, run_id: str) -> None:
    entry = request.taskStates.add(state="KILLED")
    entry.task.value, entry.mesosTaskId.value = run_id.rpartition("-")[0], run_id


class HostManager:
    CAPACITY = tuple(HOSTS * most for most in (HOST_CPU, 0.0, HOST_MB, HOST_MB))  # of which pools have parts

    def __init__(self, world: World, random: Random) -> None:
        self._world, self._random = world, random
        self._pools = {"root": "root"}  # IDs by name
        self._as_of_ms = 0

    async def main(self, bus: Bus) -> None:
        self._call = caller(bus, self._random)
        async with asyncio.TaskGroup() as group:
            for work, every_s in (
                (self._notify, 0.3),
                (self._describe, 1.5),
                (self._drain, 4.0),
                (self._report, 3.0),
                (self._create_pools, 3.0),
            ):
                group.create_task(again_and_again(self._random, work, every_s))

    async def _notify(self) -> None:
        events = self._world.events
        if not events:
            return
        answer = await self._call("NotifyTaskUpdates", pb.NotifyTaskUpdatesRequest(events=list(events)[:20]))
        while events and events[0].offset <= answer.purgeOffset:
            events.popleft()

    async def _describe(self) -> None:
        """All hosts, each time: an older request may come late."""
        await self._call("PutHosts", self._world.described())
        known = await self._call("ListHosts", hosts_pb2.ListHostsRequest())
        gone = [use.host.hostname for use in known.hosts if use.host.hostname not in self._world.hosts]
        if gone:
            await self._call("RemoveHosts", hosts_pb2.RemoveHostsRequest(hostnames=gone))

    async def _drain(self) -> None:
        draining = [name for name, host in self._world.hosts.items() if host.draining]
        if draining:
            await self._call("DrainHosts", hosts_pb2.DrainHostsRequest(hostnames=draining))

    async def _report(self) -> None:
        """All containers, by host. What was given back meanwhile is stopped."""
        request = hosts_pb2.ReconcileHostsRequest(as_of_ms=self._as_of_ms)
        for name in self._world.reported_names():
            run_ids = [run_id for run_id, one in self._world.containers.items() if one.host == name]
            request.hosts.add(hostname=name, run_ids=run_ids)
        answer = await self._call("ReconcileHosts", request)
        self._as_of_ms = answer.now_ms
        for run_id in answer.unknown_run_ids:
            if run_id in self._world.containers:
                self._world.end(run_id, "TASK_KILLED")

    async def _create_pools(self) -> None:
        """Until all pools are there."""
        for name, parent, reservation, limit in POOLS:
            if name in self._pools:
                continue
            lookup = respool_pb2.LookupRequest()
            lookup.path.value = f"/{name}" if parent == "root" else f"/{parent}/{name}"
            found = await self._call("LookupResourcePoolID", lookup)
            if not found.HasField("error"):
                self._pools[name] = found.id.value
                continue
            request = respool_pb2.CreateRequest()
            request.config.name, request.config.parent.value = name, self._pools[parent]
            for kind, most in zip(KINDS, self.CAPACITY, strict=True):
                request.config.resources.add(kind=kind, reservation=most * reservation, limit=most * limit, share=1.0)
            request.config.slackLimit.maxPercent = 50.0
            await self._call("CreateResourcePool", request)
            return


async def engine(random: Random, bus: Bus) -> None:
    process = CURRENT.get()
    assert process is not None
    engine = Engine(process.name, refresh_s=0.2, hold_s=0.5, clock_s=asyncio.get_running_loop().time)
    while True:
        try:
            await engine.run(caller(bus, random))
        except BusError:
            await asyncio.sleep(0.5)
