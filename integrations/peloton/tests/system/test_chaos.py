"""kill -9 of resource managers and engines, one after the other, while a job runs. A client counts its tasks.

The client speaks over the bus, so whichever process is there answers.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass

from integrations.peloton.tests.system.test_engine_killed import process
from integrations.peloton.tests.test_server import url
from remuda_bus.bus import Bus, BusError
from remuda_bus.nats import connect
from remuda_bus.subjects import peloton_rpc
from remuda_peloton.shell.bus_server import roles_of
from remuda_peloton.shell.front import SERVICES
from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.eventstream import eventstream_pb2 as eventstream
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2, log_pb2

__all__ = ["url"]
ANSWERS = {
    name: GetMessageClass(described.methods_by_name[name].output_type)
    for described, table in SERVICES.values()
    for name in table
}
JOB = "11111111-1111-4111-8111-111111111111"
TASKS, KILLS, APART_S, WITHIN_S = 40, 4, 1.0, 100.0
RUNS_S = 0.2  # so that there is work during all kills
RESMGR = (
    "resmgr.port=0", "resmgr.timeouts.placing=2s", "resmgr.timeouts.launching=2s", "resmgr.timeouts.placed=2s",
    "resmgr.backoff.step=0s", "resmgr.entitlement.period=1s", "resmgr.reconciliation.age=0s",
)  # fmt: skip


class Client:
    """Job manager and host manager. `finished`: how often each task has."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._offset = bus, 0
        self.finished: Counter[str] = Counter()

    async def call(self, name: str, request: Any) -> Any:
        """Until it is answered."""
        while True:
            try:
                subject = peloton_rpc("default", roles_of(name)[-1 if name == "NotifyTaskUpdates" else 0], name)
                answer = await self._bus.request(subject, request.SerializeToString(), timeout_s=3.0)
                return ANSWERS[name].FromString(answer.payload)
            except BusError:
                await asyncio.sleep(0.1)

    async def begin(self) -> None:
        hosts = [log_pb2.Host(hostname=f"h{n}", capacity=(4, 0, 4_000, 4_000)) for n in range(3)]
        await self.call("PutHosts", hosts_pb2.PutHostsRequest(hosts=hosts))
        create = respool_pb2.CreateRequest()
        create.config.name, create.config.parent.value = "pool", "root"
        create.config.resources.add(kind="cpu", limit=12, share=1)
        await self.call("CreateResourcePool", create)
        lookup = respool_pb2.LookupRequest()
        lookup.path.value = "/pool"
        self.pool = (await self.call("LookupResourcePoolID", lookup)).id.value
        for first in range(0, TASKS, 2):
            request = pb.EnqueueGangsRequest()
            request.resPool.value = self.pool
            request.gangs.add().tasks.extend(task(number) for number in (first, first + 1))
            await self.call("EnqueueGangs", request)

    async def run(self) -> None:
        """Launch what is placed, and end it."""
        while len(self.finished) < TASKS:
            answer = await self.call("GetPlacements", pb.GetPlacementsRequest(limit=10, timeout=300))
            for run_id in (one.mesosTaskID.value for placement in answer.placements for one in placement.taskIDs):
                if run_id in self.finished:
                    continue  # it was given again, because an answer was lost
                await self._tell(run_id, "TASK_RUNNING")
                await asyncio.sleep(RUNS_S)
                await self._tell(run_id, "TASK_FINISHED")
                self.finished[run_id] += 1

    async def _tell(self, run_id: str, state: str) -> None:
        self._offset += 1
        status = mesos.TaskStatus(task_id=mesos.TaskID(value=run_id), state=state)  # type: ignore[arg-type]
        event = eventstream.Event(
            offset=self._offset, type=eventstream.Event.MESOS_TASK_STATUS, mesosTaskStatus=status
        )  # fmt: skip
        await self.call("NotifyTaskUpdates", pb.NotifyTaskUpdatesRequest(events=[event]))

    async def nothing_is_left(self) -> None:
        now_ms = (await self.call("ReconcilePools", hosts_pb2.ReconcilePoolsRequest())).now_ms
        request = hosts_pb2.ReconcilePoolsRequest(as_of_ms=now_ms)
        request.pools.add(pool_id=self.pool)
        assert not (await self.call("ReconcilePools", request)).killed_run_ids
        assert not (await self.call("GetActiveTasks", pb.GetActiveTasksRequest())).tasksByState
        hosts = (await self.call("ListHosts", hosts_pb2.ListHostsRequest())).hosts
        assert [list(use.room) for use in hosts] == [[4, 0, 4_000, 4_000]] * 3


def task(number: int) -> resmgr_pb2.Task:
    message = resmgr_pb2.Task(preemptible=True, type=resmgr_pb2.BATCH)
    message.id.value, message.jobId.value = f"{JOB}-{number}", JOB
    message.taskId.value, message.resource.cpuLimit = f"{JOB}-{number}-1", 1.0
    return message


@pytest.mark.timeout(150)
async def test_each_task_ends_once_while_processes_are_killed(url: str, tmp_path: Path) -> None:
    chance = random.Random(5)
    bus = await connect(url, "client", timeout_s=5)
    client = Client(bus)
    with ExitStack() as stack:
        lives: Counter[str] = Counter()

        def start(service: str, name: str) -> subprocess.Popen[bytes]:
            lives[name] += 1
            settings = RESMGR if service == "resmgr" else ("placement.hold=0.5s",)
            return stack.enter_context(process(url, service, f"instance={name}-{lives[name]}", *settings))

        names = [("resmgr", "resmgr-a"), ("resmgr", "resmgr-b"), ("placement", "engine-a"), ("placement", "engine-b")]
        running = {name: start(service, name) for service, name in names}
        try:
            async with asyncio.timeout(WITHIN_S):
                await client.begin()
                work = asyncio.create_task(client.run())
                for service, name in chance.sample(names, KILLS):
                    running[name].kill()
                    await asyncio.sleep(APART_S)
                    running[name] = start(service, name)
                    await asyncio.sleep(APART_S)
                await work
                await client.nothing_is_left()
        finally:
            await bus.close()
    assert client.finished == {f"{JOB}-{number}-1": 1 for number in range(TASKS)}
