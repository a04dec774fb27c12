"""Measures previews of a configuration, and what they cost RMs that wait for decisions: a real nats-server, every
service a process, two cores, one RM with many nodes, allocations and asks that wait.

    python bench/preview.py [--json] [--nodes N] [--running N] [--waiting N] [--rounds N] [--seconds N] [--passes N]

Single asks come at a steady rate all the time; measured is each one's time from before its publish to its callback. In
rounds that take turns previews are asked for one after the other, as quickly as the core takes them, or none. The
figures of both kinds of rounds are of the same minutes on the same machine, so their ratio says what previews cost.
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
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import uvloop

from remuda.local.system import Layout, System
from remuda_bus.nats import connect
from remuda_config import load
from remuda_operations.queries.preview import preview
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk import ResourceManager, application, ask, node

sys.path.append(str(Path(__file__).parents[1]))
from bench.queries import APPLICATIONS, PREPARED_WITHIN_S, RM, SLOT, Run, p99_ms

QUEUES = """
partitions:
  - name: default
    queues:
      - {name: root, submitacl: '*', queues: [{name: a}, {name: full, resources: {max: {vcore: MAXIMUM}}}]}
"""
NOW, PROPOSED = QUEUES.replace("MAXIMUM", "1"), QUEUES.replace("MAXIMUM", "1000")


async def prepare(run: Run, nodes: int, running: int, waiting: int) -> None:
    """Most asks of `a` run, and `full` has used up its maximum, which the proposal raises."""
    slots = -(-(running + 5_000) // nodes)
    await run.rm.report_nodes(node(f"n{i:05}", memory=10 * slots, vcore=1000 * slots) for i in range(nodes))
    await run.rm.submit(*(application(f"app-{i}", queue="root.a", user=f"user-{i}") for i in range(APPLICATIONS)))
    await run.rm.submit(application("waits", queue="root.full", user="ann"))
    for name in range(APPLICATIONS):
        await run.rm.ask(ask(f"app-{name}", f"r{i}", resources=SLOT) for i in range(running // APPLICATIONS))
    await run.rm.ask(ask("waits", f"w{i}", resources=SLOT) for i in range(waiting))
    async with asyncio.timeout(PREPARED_WITHIN_S):
        while run.allocated < running // APPLICATIONS * APPLICATIONS:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def previews(url: str, passes: int, on: asyncio.Event, took_s: list[float]) -> None:
    """Ask for previews while `on` is set, as often as the core takes them."""
    bus, proposal = await connect(url, "previews"), load(PROPOSED)
    while True:
        await on.wait()
        began = time.monotonic()
        await preview(bus, RM, proposal, passes, 50)
        took_s.append(time.monotonic() - began)
        await asyncio.sleep(took_s[-1] + 0.1)  # the core takes the next one after as long


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    gc.set_threshold(*GC_THRESHOLDS)
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), cores=2, log_level="warning")) as system:
            await system.ready()
            async with ResourceManager.connect(system.url, RM, config=NOW) as rm:
                run, on, took_s = Run(rm), asyncio.Event(), list[float]()
                await prepare(run, options.nodes, options.running, options.waiting)
                asking = asyncio.create_task(previews(system.url, options.passes, on, took_s))
                try:
                    return await _rounds(options, run, on, took_s)
                finally:
                    asking.cancel()


async def _rounds(options: argparse.Namespace, run: Run, on: asyncio.Event, took_s: list[float]) -> dict[str, Any]:
    names: Iterator[str] = (f"s{number}" for number in count())
    await run.singles(3.0, names)  # warm
    without: list[float] = []
    beside: list[float] = []
    for number in range(options.rounds):
        for asked in (False, True) if number % 2 else (True, False):
            if asked:
                on.set()
            (beside if asked else without).extend(await run.singles(options.seconds, names))
            on.clear()
            await asyncio.sleep(3.0)  # for the preview that was asked last
    return {
        "previews": len(took_s),
        "preview_s": {"median": round(statistics.median(took_s), 2), "longest": round(max(took_s), 2)},
        "without_ms": {"p50": round(statistics.median(without) * 1_000, 2), "p99": round(p99_ms(without), 2)},
        "beside_ms": {"p50": round(statistics.median(beside) * 1_000, 2), "p99": round(p99_ms(beside), 2)},
        "p99_ratio": round(p99_ms(beside) / p99_ms(without), 3),
        "nodes": options.nodes,
        "running": options.running,
        "waiting": options.waiting,
        "asks": len(without) + len(beside),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="measure previews, and what they cost RMs that wait for decisions")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=50_000, help="allocations")
    parser.add_argument("--waiting", type=int, default=5_000, help="asks that wait")
    parser.add_argument("--rounds", type=int, default=4, help="of each kind")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a round")
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    result = uvloop.run(measure(options))
    if options.json:
        print(json.dumps(result))
        return
    took, without, beside = result["preview_s"], result["without_ms"], result["beside_ms"]
    print(f"{result['nodes']:,} nodes, {result['running']:,} allocations, {result['waiting']:,} asks wait")
    print(f"{result['previews']} previews: median {took['median']} s, longest {took['longest']} s")
    print(f"without previews: p50 {without['p50']} ms, p99 {without['p99']} ms ({result['asks']:,} single asks in all)")
    print(f"beside previews: p50 {beside['p50']} ms, p99 {beside['p99']} ms: {result['p99_ratio']} times as long")


if __name__ == "__main__":
    main()
