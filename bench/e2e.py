"""Measures the whole system: a real nats-server that syncs every append to disk, every service a process, one RM
through the SDK.

    python bench/e2e.py [--json] [--nodes N] [--asks N] [--singles N] [--predicates] [--mix TIMES]

First the latency of a single ask on an idle system, from before its publish to its callback, one ask after the other.
Then throughput: from the first publish to the last allocation callback of all asks, published as fast as the SDK does
it. CPU seconds are those of the throughput part, by process; the RM is this process. Events are narrated at a lower
priority and may still be on their way when the last allocation has come; `events_behind_s` says how much longer they
took. --mix takes nodes and asks of the production trace, so many times (`bench/mix.py`), instead of equal ones;
then only the first 95 % of the callbacks are waited for, because some asks have no room in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import uvloop

from remuda.local.system import Layout, System
from remuda_bus import subjects
from remuda_bus.nats import connect
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk import ResourceManager, application, ask, node

sys.path.append(str(Path(__file__).parents[1]))
from bench.mix import Mix, production

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: a, resources: {guaranteed: {memory: 1000000, vcore: 100000}}}
          - {name: b, resources: {guaranteed: {memory: 1000000, vcore: 100000}}}
"""
SLOT = {"memory": 10, "vcore": 1}
RM = "bench"


class Run:
    """One RM; counts its callbacks."""

    def __init__(self, rm: ResourceManager) -> None:
        self.rm = rm
        self.allocated = 0
        self._wanted = 0
        self._there = asyncio.Event()
        self._nodes = 0
        self._all_nodes = asyncio.Event()
        rm.on_allocation(self._told)
        rm.on_node(self._told_of_nodes)

    async def _told(self, response: si.AllocationResponse) -> None:
        if response.rejected:
            raise RuntimeError(f"rejected: {response.rejected[0]}")
        self.allocated += len(response.new)
        if self.allocated >= self._wanted:
            self._there.set()

    async def _told_of_nodes(self, response: si.NodeResponse) -> None:
        self._nodes -= len(response.accepted)
        if self._nodes <= 0:
            self._all_nodes.set()

    async def cluster(self, capacities: list[dict[str, int]]) -> None:
        self._nodes = len(capacities)
        await self.rm.report_nodes(node(f"node-{i:05}", resources=capacity) for i, capacity in enumerate(capacities))
        await asyncio.wait_for(self._all_nodes.wait(), 60)
        await self.rm.submit(
            *(application(name, queue=f"root.{name[-1]}", user="bench") for name in ("app-a", "app-b"))
        )

    async def singles(self, count: int) -> list[float]:
        """Milliseconds from publish to callback, of one ask at a time."""
        latencies = []
        for i in range(count):
            self._expect(1)
            started = time.perf_counter()
            await self.rm.ask([ask("app-a", f"single-{i}", resources=SLOT)])
            await asyncio.wait_for(self._there.wait(), 30)
            latencies.append((time.perf_counter() - started) * 1_000)
            await asyncio.sleep(0.005)  # idle again
        return latencies

    async def all_at_once(self, needs: list[dict[str, int]], count: int) -> float:
        """Seconds from the first publish to the callback of the last of so many allocations."""
        self._expect(count)
        started = time.perf_counter()
        await self.rm.ask(ask(f"app-{'ab'[i % 2]}", f"ask-{i:06}", resources=need) for i, need in enumerate(needs))
        await asyncio.wait_for(self._there.wait(), 300)
        return time.perf_counter() - started

    def _expect(self, more: int) -> None:
        self._wanted = self.allocated + more
        self._there.clear()


def cpu_s(system: System) -> dict[str, float]:
    seconds = {"rm": time.process_time()}
    for process in system.processes:
        if process.pid is not None:
            times = psutil.Process(process.pid).cpu_times()
            seconds[process.name] = times.user + times.system
    return seconds


async def events_are_through(url: str) -> None:
    """Waits until the event history speaks of the last commit."""
    bus = await connect(url, "bench-observer")
    try:
        head = await bus.last_message(subjects.LOG.name, subjects.log(RM))
        assert head is not None
        while True:
            newest = await bus.last_message(subjects.EVENTS.name, subjects.event(RM))
            if newest is not None and int(newest.headers[subjects.LOG_SEQ]) >= head.seq:
                return
            await asyncio.sleep(0.05)
    finally:
        await bus.close()


async def measure(mix: Mix, wait_for: int, singles: int, declared: dict[str, str]) -> dict[str, Any]:
    gc.set_threshold(*GC_THRESHOLDS)
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), log_level="warning")) as system:
            await system.ready()
            async with ResourceManager.connect(system.url, RM, config=QUEUES, extra_config=declared) as rm:
                run = Run(rm)
                await run.cluster(mix.nodes)
                await run.singles(20)  # warm
                latencies = await run.singles(singles)
                before = cpu_s(system)
                seconds = await run.all_at_once(mix.asks, wait_for)
                after = cpu_s(system)
                started = time.perf_counter()
                await events_are_through(system.url)
                behind = time.perf_counter() - started
    cuts = statistics.quantiles(latencies, n=100)
    return {
        "allocations_per_s": round(wait_for / seconds),
        "idle_latency_ms": {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2)},
        "cpu_s": {name: round(after[name] - before[name], 2) for name in after},
        "events_behind_s": round(behind, 2),
        "nodes": len(mix.nodes),
        "asks": len(mix.asks),
        "mix": mix.source,
    }


def equal(nodes: int, asks: int, singles: int) -> Mix:
    """Nodes that are just large enough for all asks together."""
    slots = -(-(asks + singles) // nodes)
    return Mix("equal", [{"memory": 10 * slots, "vcore": slots}] * nodes, [SLOT] * asks)


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the whole system")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--asks", type=int, default=50_000)
    parser.add_argument("--singles", type=int, default=500, help="asks for the idle latency")
    parser.add_argument("--predicates", action="store_true", help="the RM is asked about every node, and agrees")
    parser.add_argument("--mix", type=int, metavar="TIMES", help="the production trace so many times")
    arguments = parser.parse_args()
    mix = production(arguments.mix) if arguments.mix else equal(arguments.nodes, arguments.asks, arguments.singles)
    wait_for = len(mix.asks) * 95 // 100 if arguments.mix else len(mix.asks)
    declared = {"predicates": "true"} if arguments.predicates else {}
    result = uvloop.run(measure(mix, wait_for, arguments.singles, declared))
    if arguments.json:
        print(json.dumps(result))
        return
    latency = result["idle_latency_ms"]
    cluster = f"{result['asks']:,} asks on {result['nodes']:,} nodes ({result['mix']})"
    print(f"{cluster}: {result['allocations_per_s']:,} allocations/s")
    print(f"events {result['events_behind_s']} s behind")
    print(f"a single ask on an idle system: p50 {latency['p50']} ms, p99 {latency['p99']} ms")
    print("cpu seconds: " + ", ".join(f"{name} {seconds}" for name, seconds in result["cpu_s"].items()))


if __name__ == "__main__":
    main()
