"""Measures predicates in batches through the whole system, beside the same asks without predicates.

    python bench/predicates.py [--json] [--nodes N] [--asks N] [--classes N] [--rounds N]

An RM with asks of many predicate classes refuses 30 % of the nodes and takes 2 ms for an answer, one answer at a time.
Then another RM with as many asks never answers, and a third one without predicates places its asks beside it. Figures
are medians of the rounds, in allocations per second from the first publish to the last callback.
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
from zlib import crc32

import uvloop

from remuda.local.system import Layout, System
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk import ResourceManager, application, ask, node

sys.path.append(str(Path(__file__).parents[1]))
from bench.e2e import QUEUES

SLOT = {"memory": 10, "vcore": 1}
REFUSED_PERCENT = 30
ANSWER_S = 0.002


class Bench:
    def __init__(self, url: str, nodes: int, asks: int, classes: int) -> None:
        self.url = url
        self.nodes = nodes
        self.asks = asks
        self.classes = classes
        self.questions = 0
        self._one_at_a_time = asyncio.Lock()

    async def verdicts(self, request: predicates_pb2.BatchPredicatesRequest) -> list[predicates_pb2.NodeVerdict]:
        self.questions += 1
        async with self._one_at_a_time:
            await asyncio.sleep(ANSWER_S)
        return [
            predicates_pb2.NodeVerdict(node_id=node_id, accepted=crc32(node_id.encode()) % 100 >= REFUSED_PERCENT)
            for node_id in request.node_ids
        ]

    async def never(self, request: predicates_pb2.BatchPredicatesRequest) -> list[predicates_pb2.NodeVerdict]:
        await asyncio.sleep(3_600)
        return []

    def connect(self, rm_id: str) -> ResourceManager:
        return ResourceManager.connect(self.url, rm_id, config=QUEUES)

    async def cluster(self, rm: ResourceManager) -> None:
        """Nodes with room for twice as many asks as there are."""
        slots = -(-2 * self.asks // self.nodes)
        there, missing = asyncio.Event(), self.nodes

        @rm.on_node
        async def accepted(response: si.NodeResponse) -> None:
            nonlocal missing
            missing -= len(response.accepted)
            if missing <= 0:
                there.set()

        capacity = {"memory": 10 * slots, "vcore": slots}
        await rm.report_nodes(node(f"node-{i:05}", resources=capacity) for i in range(self.nodes))
        await asyncio.wait_for(there.wait(), 60)
        await rm.submit(*(application(f"app-{name}", queue=f"root.{name}", user="bench") for name in "ab"))

    async def publish(self, rm: ResourceManager) -> None:
        await rm.ask(
            ask(
                f"app-{'ab'[i % 2]}",
                f"ask-{i:06}",
                resources=SLOT,
                tags={"remuda/predicateClass": f"class-{i % self.classes}"},
            )
            for i in range(self.asks)
        )

    async def place_all(self, rm_id: str, predicates: bool) -> float:
        """Allocations per second."""
        rm, there, left = self.connect(rm_id), asyncio.Event(), self.asks
        if predicates:
            rm.on_batch_predicates(self.verdicts)

        @rm.on_allocation
        async def allocated(response: si.AllocationResponse) -> None:
            nonlocal left
            left -= len(response.new)
            if left <= 0:
                there.set()

        async with rm:
            await self.cluster(rm)
            started = time.perf_counter()
            await self.publish(rm)
            await asyncio.wait_for(there.wait(), 300)
            seconds = time.perf_counter() - started
        return self.asks / seconds

    async def beside_silent(self, number: int) -> float:
        """Allocations per second of an RM beside one that never answers."""
        silent = self.connect(f"silent-{number}")
        silent.on_batch_predicates(self.never)
        async with silent:
            await self.cluster(silent)
            await self.publish(silent)
            return await self.place_all(f"beside-{number}", predicates=False)


async def measure(nodes: int, asks: int, classes: int, rounds: int) -> dict[str, float]:
    gc.set_threshold(*GC_THRESHOLDS)
    rates: dict[str, list[float]] = {"without": [], "batch": [], "beside_silent": []}
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), log_level="warning")) as system:
            await system.ready()
            bench = Bench(system.url, nodes, asks, classes)
            await bench.place_all("warm", predicates=False)
            for number in range(rounds):
                rates["without"].append(await bench.place_all(f"without-{number}", predicates=False))
                rates["batch"].append(await bench.place_all(f"batch-{number}", predicates=True))
                rates["beside_silent"].append(await bench.beside_silent(number))
    found = {name: round(statistics.median(values), 1) for name, values in rates.items()}
    return {**found, "questions": bench.questions / rounds, "nodes": nodes, "asks": asks, "classes": classes}


def main() -> None:
    parser = argparse.ArgumentParser(description="measure predicates in batches")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--asks", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    result = uvloop.run(measure(arguments.nodes, arguments.asks, arguments.classes, arguments.rounds))
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{arguments.asks:,} asks of {arguments.classes} classes on {arguments.nodes:,} nodes, allocations/s:")
    print(f"without predicates        {result['without']:,.0f}")
    print(f"in batches                {result['batch']:,.0f} ({result['questions']:.0f} questions)")
    print(f"without, beside a silent RM {result['beside_silent']:,.0f}")


if __name__ == "__main__":
    main()
