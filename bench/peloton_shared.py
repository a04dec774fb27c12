"""Measures Peloton's tasks on nodes of an RM of si.v1: for `bench/peloton.py --shared`.

One core, one rmproxy, one configuration service, one resource manager of Peloton and one engine, each a process; nodes
of one RM, which has no asks. `tasks_per_s`: from the first EnqueueGangs until the last placement was taken. `turn_ms`:
of the engine meanwhile, mean. Then nothing changes for some seconds: `idle_turn_ms`, and the CPU time of all processes
for each turn (`idle_cpu_ms`). Then one task at a time: `single_median_ms`, `single_turn_ms`, `single_cpu_ms` of each
task. `…_cpu_ms` has the engine, the resource manager and the core.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from remuda.embedded import free_port
from remuda_peloton.shell.placement import Calls
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2
from remuda_sdk import ResourceManager, node

RM: Final = "rm-1"
CONFIGURATION: Final = """
partitions:
  - name: default
    placementrules: [{name: provided, create: true}]
    queues:
      - name: root
        queues: [{name: peloton, parent: true, submitacl: peloton.default, resources: {max: {vcore: %d, memory: %d}}}]
"""
CORES, MEMORY, DISK = 64, 2**38, 2**40
TURNS: Final = "remuda_resmgr_shared_turn_seconds"
IDLE_S: Final = 10
SINGLE_TASKS: Final = 50
PER_CALL: Final = 500


class Turns(NamedTuple):
    number: float
    total_s: float


class Deployment(NamedTuple):
    """`processes`: those whose CPU time counts, by service."""

    processes: Mapping[str, subprocess.Popen[bytes]]
    metrics_port: int

    async def turns(self) -> Turns:
        text = await asyncio.to_thread(self._page)
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(TURNS))
        return Turns(float(values[f"{TURNS}_count"]), float(values[f"{TURNS}_sum"]))

    def _page(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as page:
            return str(page.read().decode())

    def cpu_ms(self) -> dict[str, float]:
        return {name: cpu_ms(one.pid) for name, one in self.processes.items()}


def cpu_ms(pid: int) -> float:
    """Of all its threads and of its children that have ended."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * 1_000 / os.sysconf("SC_CLK_TCK")


def start_all(start: Callable[..., subprocess.Popen[bytes]]) -> Deployment:
    """Beside the resource manager of Peloton."""
    port = free_port("127.0.0.1")
    start("config", "instance=config")
    start("rmproxy", "instance=rmproxy", f"rms.guests=default={RM}/root.peloton")
    core = start("core", "instance=core")
    settings = (f"placement.rm={RM}", "health.host=127.0.0.1", f"health.port={port}", "placement.hold=60s")
    return Deployment({"core": core, "engine": start("placement", "instance=engine", *settings)}, port)


async def measure(
    url: str, call: Calls, deployed: Deployment, create: Callable[[Calls, int, int], Any],
    gang: Callable[[int], pb.Gang], pools: int, tasks: int, hosts: int,
) -> dict[str, float]:  # fmt: skip
    text = CONFIGURATION % (CORES * hosts, MEMORY * hosts)
    async with ResourceManager.connect(url, RM, config=text) as rm:
        for first in range(0, hosts, 500):
            names = range(first, min(hosts, first + 500))
            await rm.report_nodes([node(f"n{one:05}", vcore=CORES * 1_000, memory=MEMORY, disk=DISK) for one in names])
        async with asyncio.timeout(120):
            while not await _has(call, hosts):
                pass
        ids = await create(call, pools, hosts)
        return {
            **await _all(call, deployed, ids, gang, tasks), **await _idle(deployed),
            **await _single(call, deployed, ids, gang, tasks),
        }  # fmt: skip


async def _has(call: Calls, hosts: int) -> bool:
    """Whether the engine has described all hosts, and what the queue may hold."""
    about = hosts_pb2.ListSharedRequest(name=f"{RM}/default", since_ms=2**62)  # without the hosts themselves
    found = await call("ListShared", about)
    return bool(found.count == hosts and sum(found.shared.capacity[:1]) >= CORES * hosts)


async def _all(call: Calls, deployed: Deployment, ids: list[str], gang: Any, tasks: int) -> dict[str, float]:
    began, before = time.perf_counter(), await deployed.turns()
    each = tasks // len(ids)
    taking = asyncio.create_task(_taken(call, each * len(ids)))
    for number, pool in enumerate(ids):
        await _enqueue(call, pool, gang, number * each, each)
    await taking
    took_s = time.perf_counter() - began
    after = await deployed.turns()
    return {
        "tasks_per_s": each * len(ids) / took_s, "turns": after.number - before.number,
        "turn_ms": (after.total_s - before.total_s) / (after.number - before.number) * 1_000,
    }  # fmt: skip


async def _idle(deployed: Deployment) -> dict[str, float]:
    await asyncio.sleep(2)
    turns, cpu = await deployed.turns(), deployed.cpu_ms()
    await asyncio.sleep(IDLE_S)
    return _per_turn("idle", deployed, turns, cpu, await deployed.turns())


async def _single(call: Calls, deployed: Deployment, ids: list[str], gang: Any, first: int) -> dict[str, float]:
    turns, cpu, waits = await deployed.turns(), deployed.cpu_ms(), []
    for number in range(SINGLE_TASKS):
        began = time.perf_counter()
        taking = asyncio.create_task(_taken(call, 1))
        await _enqueue(call, ids[number % len(ids)], gang, first + number, 1)
        await taking
        waits.append((time.perf_counter() - began) * 1_000)
    found = _per_turn("single", deployed, turns, cpu, await deployed.turns())
    return {"single_median_ms": statistics.median(waits), **found}


def _per_turn(
    name: str, deployed: Deployment, turns: Turns, cpu: Mapping[str, float], after: Turns
) -> dict[str, float]:
    count = max(1.0, after.number - turns.number)
    used = {service: (now - cpu[service]) / count for service, now in deployed.cpu_ms().items()}
    return {
        f"{name}_turns": count, f"{name}_turn_ms": (after.total_s - turns.total_s) / count * 1_000,
        f"{name}_cpu_ms": sum(used.values()), **{f"{name}_cpu_ms_{service}": one for service, one in used.items()},
    }  # fmt: skip


async def _taken(call: Calls, count: int) -> None:
    left = count
    while left:
        answer = await call("GetPlacements", pb.GetPlacementsRequest(limit=1_000, timeout=5_000))
        left -= sum(len(one.taskIDs) for one in answer.placements)


async def _enqueue(call: Calls, pool: str, gang: Any, first: int, count: int) -> None:
    for start in range(first, first + count, PER_CALL):
        numbers = range(start, min(first + count, start + PER_CALL))
        request = pb.EnqueueGangsRequest(gangs=[gang(one) for one in numbers])
        request.resPool.value = pool
        answer = await call("EnqueueGangs", request)
        assert not answer.HasField("error"), str(answer)[:500]
