"""Measures what more core processes bring: several RMs that work at once, on 1, 2, 4 cores of one system; a real
nats-server, every service a process, the RMs in processes of their own.

    python bench/scale.py [--json] [--rms N] [--cores N,N,...] [--asks N] [--nodes N] [--standbys N] [--rounds N]

Each RM submits all its asks at the same moment. Throughput is from that moment to the last allocation callback of the
last RM. The CPU seconds of each process are those of that time; events may still be on their way afterwards. The
layouts take turns, and the median of the rounds is shown: other programs disturb all of them alike. With `--standbys N`
as large as the number of cores every core follows every RM.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil
import uvloop

from remuda.local.system import Layout, System
from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_bus.nats import connect
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk import ResourceManager, application, ask, node

QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}, {name: b}]}]}]"
SLOT = {"memory": 10, "vcore": 1}
SETTLES_WITHIN_S = 60.0
READY, GO = b"ready\n", b"go\n"


# One RM, in a process of its own: reports that it is ready, waits for the signal to begin, and reports its duration.


async def work(url: str, rm_id: str, nodes: int, asks: int) -> None:
    allocated, done = 0, asyncio.Event()

    async def count(response: si.AllocationResponse) -> None:
        nonlocal allocated
        allocated += len(response.new)
        if allocated >= asks:
            done.set()

    async with ResourceManager.connect(url, rm_id, config=QUEUES, retry_for_s=60.0) as rm:
        rm.on_allocation(count)
        slots = -(-asks // nodes)
        await rm.report_nodes(node(f"node-{i:05}", memory=10 * slots, vcore=slots) for i in range(nodes))
        await rm.submit(*(application(f"app-{name}", queue=f"root.{name}", user="ann") for name in "ab"))
        sys.stdout.buffer.write(READY)
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.readline)
        await rm.ask(ask(f"app-{'ab'[i % 2]}", f"ask-{i:06}", resources=SLOT) for i in range(asks))
        await asyncio.wait_for(done.wait(), 600)
        print(time.monotonic(), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.readline)


async def started(url: str, rm_id: str, options: argparse.Namespace) -> asyncio.subprocess.Process:
    argv = (sys.executable, __file__, "--work", url, rm_id, "--nodes", str(options.nodes), "--asks", str(options.asks))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    if await process.stdout.readline() != READY:
        raise RuntimeError(f"{rm_id} ended")
    return process


# The system around them.


async def is_settled(bus: Bus, cores: int, rms: int, standbys: int) -> bool:
    """Every core leads its share, and each RM has its standbys."""
    led: list[int] = []
    follow: Counter[str] = Counter()
    for number in range(cores):
        name = f"core-{number + 1}" if cores > 1 else "core"
        try:
            answer = json.loads((await bus.request(subjects.core_process(name))).payload)
        except BusError:
            return False
        led.append(sum(one["leads"] for one in answer["rms"]))
        follow.update(one["rm"] for one in answer["rms"] if not one["leads"])
    copies = min(standbys, cores - 1)
    return sum(led) == rms and max(led) - min(led) <= 1 and set(follow.values()) in ({copies}, set())


def cpu_s(pids: dict[str, int]) -> dict[str, float]:
    """By name up to a "/"."""
    found: dict[str, float] = {}
    for name, pid in pids.items():
        times, name = psutil.Process(pid).cpu_times(), name.split("/")[0]
        found[name] = found.get(name, 0.0) + times.user + times.system
    return found


async def measure(options: argparse.Namespace, cores: int) -> dict[str, Any]:
    os.environ["REMUDA_STANDBYS"] = str(options.standbys)
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), cores=cores, log_level="warning")) as system, AsyncExitStack() as stack:
            await system.ready()
            bus = await connect(system.url, "bench")
            stack.push_async_callback(bus.close)
            rms = [f"rm-{number}" for number in range(options.rms)]
            processes = [await started(system.url, rm, options) for rm in rms]
            async with asyncio.timeout(SETTLES_WITHIN_S):
                while not await is_settled(bus, cores, options.rms, options.standbys):  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
            pids = {process.name: process.pid for process in system.processes if process.pid is not None}
            pids |= {f"load/{number}": process.pid for number, process in enumerate(processes)}
            before, began = cpu_s(pids), time.monotonic()
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(GO)
            ends = [float(await process.stdout.readline()) for process in processes if process.stdout is not None]
            after = cpu_s(pids)
            for process in processes:
                await process.communicate(GO)
    seconds, allocations = max(ends) - began, options.rms * options.asks
    return {
        "cores": cores,
        "allocations_per_s": round(allocations / seconds),
        "cpu_s": {name: round(after[name] - before[name], 2) for name in after},
        "cpu_us_per_allocation": round(sum(after[name] - before[name] for name in after) / allocations * 1e6, 1),
    }


def median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "cores": runs[0]["cores"],
        "allocations_per_s": round(statistics.median(one["allocations_per_s"] for one in runs)),
        "of_rounds": [one["allocations_per_s"] for one in runs],
        "cpu_s": {
            name: round(statistics.median(one["cpu_s"].get(name, 0.0) for one in runs), 2) for name in runs[0]["cpu_s"]
        },
        "cpu_us_per_allocation": round(statistics.median(one["cpu_us_per_allocation"] for one in runs), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="measure several RMs on one, two and more core processes")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rms", type=int, default=4)
    parser.add_argument("--cores", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--asks", type=int, default=50_000, help="of each RM")
    parser.add_argument("--nodes", type=int, default=1_000, help="of each RM")
    parser.add_argument("--standbys", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", nargs=2, metavar=("URL", "RM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    if options.work is not None:
        url, rm_id = options.work
        uvloop.run(work(url, rm_id, options.nodes, options.asks))
        return
    runs: dict[int, list[dict[str, Any]]] = {cores: [] for cores in options.cores}
    for _ in range(options.rounds):
        for cores in options.cores:
            runs[cores].append(uvloop.run(measure(options, cores)))
    results = [median(some) for some in runs.values()]
    if options.json:
        print(json.dumps({"rms": options.rms, "standbys": options.standbys, "results": results}))
        return
    for one in results:
        ratio = one["allocations_per_s"] / results[0]["allocations_per_s"]
        print(f"{options.rms} RMs, {one['cores']} core processes: {one['allocations_per_s']:,} allocations/s "
              f"({ratio:.2f} times the first; rounds {one['of_rounds']})")  # fmt: skip
        print(f"  CPU: {one['cpu_us_per_allocation']} us per allocation; seconds: "
              + ", ".join(f"{name} {seconds}" for name, seconds in one["cpu_s"].items()))  # fmt: skip


if __name__ == "__main__":
    main()
