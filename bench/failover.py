"""Measures how long nothing is allocated after a death: a real nats-server, every service a process, two cores, one RM
through the SDK with many allocations running, and asks that keep coming.

    python bench/failover.py [--json] [--nodes N] [--running N] [--kills N] [--rate N] [--cold N]

Failover: from `kill -9` of the core that leads to the first allocation of an ask made after it. Cold restart: the same
from `kill -9` of everything, nats-server included; the supervisor of `remuda up` starts all of it again.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from remuda.local.system import Layout, System
from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_bus.nats import connect
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.lease import leader_of
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk import ResourceManager, application, ask, node

RM = "bench"
APPLICATIONS = 100
SLOT = {"memory": 10, "vcore": 1}
STANDBY_WITHIN_S = 120.0
ALLOCATED_WITHIN_S = 60.0


class Run:
    """One RM that asks all the time."""

    def __init__(self, system: System, rm: ResourceManager, bus: Bus, rate: float) -> None:
        self.allocated = 0
        self._system = system
        self._rm = rm
        self._bus = bus
        self._rate = rate
        self._asked: dict[str, float] = {}
        self._since = float("inf")  # allocations of asks made later are waited for
        self._first: asyncio.Event = asyncio.Event()
        self._first_at = 0.0
        rm.on_allocation(self._told)

    async def _told(self, response: si.AllocationResponse) -> None:
        now = time.monotonic()
        self.allocated += len(response.new)
        for allocation in response.new:
            if self._asked.pop(allocation.allocationKey, 0.0) > self._since and not self._first.is_set():
                self._first_at = now
                self._first.set()

    async def fill(self, nodes: int, running: int, spare: int) -> None:
        slots = -(-(running + spare) // nodes)
        await self._rm.report_nodes(node(f"node-{i:05}", memory=10 * slots, vcore=slots) for i in range(nodes))
        await self._rm.submit(
            *(application(f"app-{i}", user="bench", tags={"namespace": "bench"}) for i in range(APPLICATIONS))
        )
        await self._rm.ask(ask(f"app-{i % APPLICATIONS}", f"running-{i}", resources=SLOT) for i in range(running))
        while self.allocated < running:  # noqa: ASYNC110 - it takes many seconds
            await asyncio.sleep(0.1)

    async def keep_asking(self) -> None:
        for number in itertools.count():
            key = f"ask-{number}"
            self._asked[key] = time.monotonic()
            await self._rm.ask([ask(f"app-{number % APPLICATIONS}", key, resources=SLOT)])
            await asyncio.sleep(1 / self._rate)

    async def after(self, pids: list[int]) -> float:
        """Seconds from killing these to the first new allocation."""
        self._first.clear()
        self._since = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(ALLOCATED_WITHIN_S):
            await self._first.wait()
        seconds, self._since = self._first_at - self._since, float("inf")
        return seconds

    async def leader(self) -> list[int]:
        name = await leader_of(self._bus, RM)
        return [process.pid for process in self._system.processes if process.name == name and process.pid]

    def everyone(self) -> list[int]:
        return [process.pid for process in self._system.processes if process.pid]

    async def everybody_follows(self) -> None:
        """Until every core is where the log ended when this was called."""
        head = await self._bus.last_message(subjects.LOG.name, subjects.log(RM))
        assert head is not None
        async with asyncio.timeout(STANDBY_WITHIN_S):
            for name in ("core-1", "core-2"):
                while await self._stands_at(name) < head.seq:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    async def _stands_at(self, core: str) -> int:
        try:
            answer = await self._bus.request(subjects.core_process(core))
        except BusError:
            return -1
        return next((one["log_seq"] for one in json.loads(answer.payload)["rms"] if one["rm"] == RM), -1)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    gc.set_threshold(*GC_THRESHOLDS)
    failovers, colds = [], []
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), cores=2, log_level="warning")) as system:
            await system.ready()
            bus = await connect(system.url, "bench")
            async with ResourceManager.connect(system.url, RM, retry_for_s=60) as rm:
                run = Run(system, rm, bus, options.rate)
                await run.fill(options.nodes, options.running, options.nodes)
                asking = asyncio.create_task(run.keep_asking())
                for _ in range(options.kills):
                    await run.everybody_follows()
                    await asyncio.sleep(1)
                    failovers.append(await run.after(await run.leader()))
                for _ in range(options.cold):
                    await run.everybody_follows()
                    await asyncio.sleep(1)
                    colds.append(await run.after(run.everyone()))
                asking.cancel()
            await bus.close()
    return {
        "failover_ms": spread([1_000 * seconds for seconds in failovers]),
        "cold_restart_ms": spread([1_000 * seconds for seconds in colds]),
        "nodes": options.nodes,
        "running": options.running,
    }


def spread(values: list[float]) -> dict[str, Any]:
    """Of n values the 99th percentile is the largest, unless there are more than a hundred."""
    ordered = sorted(values)
    if not ordered:
        return {}
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return {"p50": round(statistics.median(ordered)), "p99": round(p99), "n": len(ordered)}


def main() -> None:
    parser = argparse.ArgumentParser(description="measure failover and cold restart")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=100_000, help="allocations that run all the time")
    parser.add_argument("--kills", type=int, default=20, help="of the core that leads")
    parser.add_argument("--rate", type=float, default=20.0, help="asks per second meanwhile")
    parser.add_argument("--cold", type=int, default=1, help="times that everything is killed")
    options = parser.parse_args()
    result = uvloop.run(measure(options))
    if options.json:
        print(json.dumps(result))
        return
    print(f"{options.running:,} allocations running on {options.nodes:,} nodes")
    for what, key in (("the leader killed", "failover_ms"), ("everything killed", "cold_restart_ms")):
        if result[key]:
            print(f"{what}: first new allocation after p50 {result[key]['p50']} ms, p99 {result[key]['p99']} ms, "
                  f"{result[key]['n']} times")  # fmt: skip


if __name__ == "__main__":
    main()
