"""The cost of the transports of an RM: the same RM, through `remuda_sdk.api`, over NATS and over gRPC, on one system of
processes, in turn.

    python bench/transports.py [--json] [--nodes N] [--asks N] [--singles N] [--rounds N]

Of each transport: the latency of a single ask on an idle system, from before its call to its callback, and throughput,
from the first ask of `--asks` to the last allocation callback. `ratio`: gRPC to NATS, the median of the rounds.
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

import uvloop

from remuda.local.system import Layout, System
from remuda_bus.nats import connect as connect_bus
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk.api import ResourceManagerCallback, SchedulerAPI, connect
from remuda_sdk.resource_manager.build import application, ask, node

sys.path.append(str(Path(__file__).parents[1]))
from tests.system.grpc_client import port_of

QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"
SLOT = {"memory": 10, "vcore": 1}
ASKS_PER_CALL = 1_000


class Counting(ResourceManagerCallback):
    """Counts what it receives."""

    def __init__(self) -> None:
        self.allocated = 0
        self.nodes = 0
        self._wanted = 0
        self._there = asyncio.Event()

    def update_allocation(self, response: si.AllocationResponse) -> None:
        if response.rejected:
            raise RuntimeError(f"rejected: {response.rejected[0]}")
        self.allocated += len(response.new)
        self._check()

    def update_node(self, response: si.NodeResponse) -> None:
        self.nodes += len(response.accepted)
        self._check()

    def expect(self, more: int) -> None:
        self._wanted = self.allocated + self.nodes + more
        self._there.clear()

    async def there(self) -> None:
        async with asyncio.timeout(300):
            await self._there.wait()

    def _check(self) -> None:
        if self.allocated + self.nodes >= self._wanted:
            self._there.set()


async def measure(url: str, rm_id: str, nodes: int, asks: int, singles: int) -> dict[str, Any]:
    """One RM on one transport."""
    callback = Counting()
    async with connect(url) as scheduler:
        await scheduler.register_resource_manager(
            si.RegisterResourceManagerRequest(rmID=rm_id, config=QUEUES), callback
        )
        slots = -(-(asks + 2 * singles) // nodes)
        capacity = {name: amount * slots for name, amount in SLOT.items()}
        callback.expect(nodes)
        reported = [node(f"node-{number:05}", resources=capacity) for number in range(nodes)]
        for one in reported:
            one.action = si.NodeInfo.CREATE
        await scheduler.update_node(si.NodeRequest(rmID=rm_id, nodes=reported))
        await callback.there()
        new = application("app-1", queue="root.a", user="bench")
        await scheduler.update_application(si.ApplicationRequest(rmID=rm_id, new=[new]))
        await _singles(scheduler, rm_id, callback, singles, "warm")
        latencies = await _singles(scheduler, rm_id, callback, singles, "single")
        seconds = await _all_at_once(scheduler, rm_id, callback, asks)
    cuts = statistics.quantiles(latencies, n=100)
    return {"allocations_per_s": round(asks / seconds), "p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2)}


async def _singles(scheduler: SchedulerAPI, rm_id: str, callback: Counting, count: int, name: str) -> list[float]:
    """Milliseconds from call to callback, of one ask at a time."""
    latencies = []
    for number in range(count):
        callback.expect(1)
        started = time.perf_counter()
        one = ask("app-1", f"{name}-{number}", resources=SLOT)
        await scheduler.update_allocation(si.AllocationRequest(rmID=rm_id, asks=[one]))
        await callback.there()
        latencies.append((time.perf_counter() - started) * 1_000)
        await asyncio.sleep(0.005)  # idle again
    return latencies


async def _all_at_once(scheduler: SchedulerAPI, rm_id: str, callback: Counting, count: int) -> float:
    """Seconds from the first call to the callback of the last allocation."""
    requests = [
        si.AllocationRequest(
            rmID=rm_id,
            asks=[
                ask("app-1", f"ask-{number}", resources=SLOT)
                for number in range(first, min(first + ASKS_PER_CALL, count))
            ],
        )
        for first in range(0, count, ASKS_PER_CALL)
    ]
    callback.expect(count)
    started = time.perf_counter()
    for request in requests:
        await scheduler.update_allocation(request)
    await callback.there()
    return time.perf_counter() - started


async def run(nodes: int, asks: int, singles: int, rounds: int) -> dict[str, Any]:
    gc.set_threshold(*GC_THRESHOLDS)
    found: dict[str, list[dict[str, Any]]] = {"nats": [], "grpc": []}
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), grpc_port=0, log_level="warning")) as system:
            await system.ready()
            bus = await connect_bus(system.url, "bench-observer")
            urls = {"nats": system.url, "grpc": f"grpc://127.0.0.1:{await port_of(bus)}"}
            await bus.close()
            for number in range(rounds):
                for transport, url in urls.items():
                    found[transport].append(await measure(url, f"{transport}-{number}", nodes, asks, singles))
    medians = {
        transport: {key: statistics.median(one[key] for one in results) for key in results[0]}
        for transport, results in found.items()
    }
    ratios = [
        grpc["allocations_per_s"] / nats["allocations_per_s"]
        for nats, grpc in zip(found["nats"], found["grpc"], strict=True)
    ]
    return {**medians, "ratio": round(statistics.median(ratios), 2), "nodes": nodes, "asks": asks, "rounds": rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the transports of an RM")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--asks", type=int, default=20_000)
    parser.add_argument("--singles", type=int, default=200, help="asks for the idle latency")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    result = uvloop.run(run(arguments.nodes, arguments.asks, arguments.singles, arguments.rounds))
    if arguments.json:
        print(json.dumps(result))
        return
    for transport in ("nats", "grpc"):
        of = result[transport]
        figures = f"{of['allocations_per_s']:,} allocations/s, single ask p50 {of['p50_ms']} ms, p99 {of['p99_ms']} ms"
        print(f"{transport}: {figures}")
    print(f"gRPC to NATS: {result['ratio']}")


if __name__ == "__main__":
    main()
