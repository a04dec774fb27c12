"""Engines between a job manager and a resource manager, while engines are killed and RPCs are lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda_peloton import commands
from remuda_peloton.check import check
from remuda_peloton.core import Core
from remuda_peloton.queries import hosts_changed
from remuda_peloton.rules.pools import KindConfig, PoolConfig
from remuda_peloton.rules.resources import KINDS
from remuda_peloton.settings import Settings
from remuda_peloton.shell.engine import Engine
from remuda_peloton.shell.hosts_file import HostsFileError, read_hosts
from remuda_peloton.wire import host_rpcs, rpcs, snapshots
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2, log_pb2
from remuda_replication.log import Position

RPCS = {**rpcs.RPCS, **host_rpcs.RPCS}
HOSTS, TASKS, TINY = 4, 12, 50


class Lost(Exception):
    """The connection broke, or the engine was killed."""


class Cluster:
    """A resource manager, its hosts and pool, and a clock."""

    def __init__(self, hosts: int = HOSTS, cpu: float = 2.0, **rules: Any) -> None:
        self.core, self.now_ms = Core(Settings(**rules)), 1
        self.calls: Counter[str] = Counter()
        described = [
            log_pb2.Host(hostname=f"h{n}", capacity=(cpu, 0, 1_000, 1_000), first_port=1, last_port=3)
            for n in range(hosts)
        ]
        # What is free on them is enough for admission, and too little for a task.
        tiny = [log_pb2.Host(hostname=f"tiny-{n}", capacity=(0.4, 0, 100, 100)) for n in range(TINY)]
        self.rpc("PutHosts", hosts_pb2.PutHostsRequest(hosts=[*described, *tiny]))
        most = dict(zip(KINDS, self.core.state.capacity or (), strict=True))
        kinds = tuple(KindConfig(kind, 0.0, most[kind], 1.0) for kind in KINDS)
        self.pool: str = self.do(commands.CreatePool(PoolConfig("p", "p", resources=kinds)))
        assert isinstance(self.pool, str), self.pool

    def do(self, command: commands.Command) -> Any:
        _, answer = self.core.handle(command, self.now_ms)
        check(self.core.state)
        return answer

    def rpc(self, name: str, request: Any) -> Any:
        self.calls[name] += 1
        rpc = RPCS[name]
        if rpc.question is not None:
            return rpc.question(self.core.state, request)
        assert rpc.command is not None and rpc.answer is not None
        return rpc.answer(request, self.do(rpc.command(request)))

    def enqueue(self, *gangs: list[resmgr_pb2.Task]) -> None:
        request = pb.EnqueueGangsRequest(gangs=[pb.Gang(tasks=gang) for gang in gangs])
        request.resPool.value = self.pool
        assert not self.rpc("EnqueueGangs", request).HasField("error")
        self.do(commands.CalculateEntitlements())
        self.do(commands.Admit())

    async def call(self, name: str, request: Any) -> Any:
        return self.rpc(name, request)

    def engine(self, name: str = "engine", **more: Any) -> Engine:
        more = {"refresh_s": 0.0, "clock_s": lambda: self.now_ms / 1_000, **more}
        return Engine(name, **more)

    def turn(self, engine: Engine) -> None:
        asyncio.run(engine.turn(self.call))

    def placed(self) -> dict[str, str]:
        """Hosts by task, as a job manager gets them."""
        answer = self.rpc("GetPlacements", pb.GetPlacementsRequest(limit=1_000))
        return {one.pelotonTaskID.value: each.hostname for each in answer.placements for one in each.taskIDs}

    def no_host_is_above_its_capacity(self) -> None:
        for host, room, runs in hosts_changed(self.core.state, 0):
            assert all(amount > -0.01 for amount in room), (host, room)
            ports = [port for run in runs for port in run.ports]
            assert len(ports) == len(set(ports))


def task(number: int, cpu: float = 1.0, ports: int = 0, run: int = 1) -> resmgr_pb2.Task:
    message = resmgr_pb2.Task(numPorts=ports, preemptible=True, type=resmgr_pb2.BATCH)
    message.id.value, message.taskId.value, message.jobId.value = f"t{number}", f"t{number}-{run}", "job"
    message.resource.cpuLimit = cpu
    return message


@settings(deadline=None)  # a busy machine takes some 100 ms
@given(st.integers(0, 2**32), st.floats(0, 0.4))
def test_a_job_ends_though_engines_are_killed_and_answers_are_lost(seed: int, lost: float) -> None:
    """Three engines take turns. Any RPC may be lost, before or after it is decided; then an engine starts anew, or goes
    on. Tasks are launched, run for a while, and end."""
    cluster, chance = Cluster(placing_timeout_s=5.0, retry_backoff_s=0.0, placed_timeout_s=60.0), random.Random(seed)
    engines = [cluster.engine(str(n)) for n in range(3)]
    cluster.enqueue(*([task(2 * n, chance.choice((0.5, 1.0)), 1), task(2 * n + 1)] for n in range(TASKS // 2)))
    ended: set[str] = set()

    async def call(name: str, request: Any) -> Any:
        if chance.random() < lost / 2:
            raise Lost
        answer = cluster.rpc(name, request)
        if chance.random() < lost / 2:
            raise Lost
        return answer

    for _ in range(400):
        number = chance.randrange(3)
        try:
            asyncio.run(engines[number].turn(call))
        except Lost:
            if chance.random() < 0.5:
                engines[number] = cluster.engine(str(number))
            else:
                engines[number].connect_anew()
        cluster.no_host_is_above_its_capacity()
        for task_id in cluster.placed():
            cluster.do(commands.NotifyTaskUpdates((commands.TaskEvent(1, f"{task_id}-1", "TASK_RUNNING"),)))
        for run in list(cluster.core.state.runs.values()):
            if run.state == "RUNNING" and chance.random() < 0.3:
                cluster.do(commands.NotifyTaskUpdates((commands.TaskEvent(1, run.task.mesos_id, "TASK_FINISHED"),)))
                ended.add(run.task.id)
        if len(ended) == TASKS:
            break
        cluster.now_ms += 1_000
        cluster.do(commands.Tick())
        cluster.do(commands.CalculateEntitlements())
        cluster.do(commands.Admit())
    assert len(ended) == TASKS, cluster.core.state.runs
    assert not cluster.core.state.hosts


def test_what_another_engine_has_taken_is_refused_and_placed_elsewhere() -> None:
    cluster = Cluster(hosts=2)
    first, second = cluster.engine("a", refresh_s=1e9), cluster.engine("b", refresh_s=1e9)
    for engine in (first, second):  # both know empty hosts
        cluster.enqueue([task(100 + cluster.calls["EnqueueGangs"], 0.0)])
        cluster.turn(engine)
    second._hosts._start = first._hosts._start = 0.0
    second._hosts._groups = first._hosts._groups = None
    cluster.enqueue([task(0, 2.0)])
    cluster.turn(first)
    cluster.enqueue([task(1, 2.0)])
    cluster.turn(second)  # refused; it looks again, and begins elsewhere
    waited, call = [], cluster.rpc

    def rpc(name: str, request: Any) -> Any:
        waited.extend([request.timeout] if name == "DequeueGangs" else [])
        return call(name, request)

    cluster.rpc = rpc  # type: ignore[method-assign]
    cluster.turn(second)
    assert waited == [0] and second._hosts._start != 0.0
    placed = cluster.placed()
    assert {placed["t0"], placed["t1"]} == {"h0", "h1"}
    cluster.no_host_is_above_its_capacity()


def test_a_gang_without_room_is_held_whole_and_then_reported_with_the_reason() -> None:
    cluster = Cluster(hosts=1)
    engine = cluster.engine(hold_s=10.0)
    cluster.enqueue([task(0, 1.5), task(1, 1.5)])
    cluster.turn(engine)
    assert not cluster.placed()
    assert {run.state for run in cluster.core.state.runs.values()} == {"PLACING"}
    cluster.now_ms += 11_000
    cluster.turn(engine)
    (reason,) = {run.reason for run in cluster.core.state.runs.values()}
    assert reason == "none of 51 hosts has 1.5 cpu (most free: 0.5)"


def test_a_held_gang_is_placed_when_there_is_room() -> None:
    cluster = Cluster(hosts=1)
    engine = cluster.engine(hold_s=1e6)
    cluster.enqueue([task(0, 2.0)])
    cluster.turn(engine)
    cluster.now_ms += 1
    host = log_pb2.Host(hostname="h9", capacity=(8, 0, 1_000, 1_000))
    cluster.rpc("PutHosts", hosts_pb2.PutHostsRequest(hosts=[host]))
    cluster.enqueue([task(1, 5.0)])
    cluster.turn(engine)
    assert cluster.placed() == {"t0": "h0", "t1": "h9"}
    cluster.enqueue([task(2, 6.0)])  # h9 has 3 left
    cluster.turn(engine)
    assert not cluster.placed()
    cluster.now_ms += 1
    cluster.do(commands.KillTasks(("t1",)))
    cluster.turn(engine)
    assert cluster.placed() == {"t2": "h9"}


def test_a_host_that_drains_or_goes_takes_nothing() -> None:
    cluster = Cluster(hosts=2)
    cluster.enqueue([task(0)])
    cluster.turn(cluster.engine())
    (where,) = cluster.placed().values()
    cluster.do(commands.NotifyTaskUpdates((commands.TaskEvent(1, "t0-1", "TASK_RUNNING"),)))
    other = "h1" if where == "h0" else "h0"
    drains = log_pb2.Host(hostname=where, capacity=(2, 0, 1_000, 1_000), draining=True)
    cluster.rpc("PutHosts", hosts_pb2.PutHostsRequest(hosts=[drains]))
    assert cluster.core.state.capacity is not None and round(cluster.core.state.capacity[0], 6) == 2 + 0.4 * TINY
    (candidate,) = cluster.do(commands.GetPreemptibleTasks(10))
    assert candidate.task_id == "t0" and candidate.reason == commands.HOST_MAINTENANCE
    cluster.enqueue([task(1)])
    cluster.turn(cluster.engine())
    assert cluster.placed() == {"t1": other}
    placement = resmgr_pb2.Placement(hostname=where)
    cluster.enqueue([task(2)])
    (gang,) = cluster.rpc("DequeueGangs", pb.DequeueGangsRequest(limit=1)).gangs
    one = placement.taskIDs.add()
    one.pelotonTaskID.value, one.mesosTaskID.value = "t2", gang.tasks[0].taskId.value
    refused = cluster.rpc("SetPlacements", pb.SetPlacementsRequest(placements=[placement]))
    assert refused.error.failure.failed[0].message == f"{where} drains"
    cluster.rpc("RemoveHosts", hosts_pb2.RemoveHostsRequest(hostnames=[where]))
    refused = cluster.rpc("SetPlacements", pb.SetPlacementsRequest(placements=[placement]))
    assert refused.error.failure.failed[0].message == f"there is no host '{where}'"


def test_hosts_and_ports_survive_a_snapshot() -> None:
    cluster = Cluster()
    cluster.enqueue([task(0, ports=2)])
    cluster.turn(cluster.engine())
    state = cluster.core.state
    payload = b"".join(snapshots.write("peloton.x", Position(1, b"h"), 1, state))
    restored = snapshots.read("peloton.x", payload)[2]
    check(restored)
    assert restored.known_hosts == state.known_hosts and restored.runs["t0"].ports == (1, 2)
    assert snapshots.digest(restored) == snapshots.digest(state)


def test_a_hosts_file_is_read(tmp_path: Path) -> None:
    (host,) = read_hosts("hosts: [{hostname: a, cpu: 2, memory: 10, ports: 5-9, pool: s, labels: {rack: 1}}]").values()
    assert (host.capacity, host.first_port, host.last_port, host.pool) == ([2, 0, 10, 0], 5, 9, "s")
    assert [(one.key, one.value) for one in host.labels] == [("rack", "1")]


@pytest.mark.parametrize(("text", "said"), [
    ("[", "no YAML"), ("hosts: 3", "expected a list"), ("a: 1", "expected a list"), ("hosts: [{cpu: 1}]", "hosts[0]"),
    ("hosts: [{hostname: a, cpus: 1}]", "unknown cpus"), ("hosts: [{hostname: a}, {hostname: a}]", "twice"),
    ("hosts: [{hostname: a, cpu: -1}]", "an amount is -1"), ("hosts: [{hostname: a, cpu: .nan}]", "an amount is nan"),
    ("hosts: [{hostname: a, ports: 9-5}]", "ports are"), ("hosts: [{hostname: a, ports: x}]", "FIRST-LAST"),
    ("hosts: [{hostname: a, cpu: yes}]", "cpu is True"), ("hosts: [{hostname: ''}]", "hostname is ''"),
])  # fmt: skip
def test_a_wrong_hosts_file_says_where(text: str, said: str) -> None:
    with pytest.raises(HostsFileError) as wrong:
        read_hosts(text)
    assert said in str(wrong.value)
