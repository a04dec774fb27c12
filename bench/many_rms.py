"""Measures what RMs cost that are registered and do nothing: a real nats-server, every service a process, two cores.

    python bench/many_rms.py [--json] [--rms N] [--working N] [--asks N] [--idle-s S]

First a system with the working RMs alone, then one with all. Measured is how long registering takes, how long a restart
of all services takes until a decision is made again, the memory of each process, its CPU while no RM works, and the
throughput of the working RMs, in ratio to that of the system that has only those.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import tempfile
import time
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

QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"
SLOT = {"memory": 10, "vcore": 1}
NODES = 20
REGISTERED_AT_ONCE = 16
SETTLED_S = 10.0  # after the last registration: snapshots, handovers
ALLOCATED_WITHIN_S = 300.0
MB = 1024 * 1024


class Working:
    """An RM that works; counts its allocations."""

    def __init__(self, rm: ResourceManager) -> None:
        self.rm = rm
        self.allocated = 0
        self._wanted = 0
        self._enough = asyncio.Event()
        rm.on_allocation(self._told)

    async def _told(self, response: si.AllocationResponse) -> None:
        self.allocated += len(response.new)
        if self.allocated >= self._wanted:
            self._enough.set()

    async def prepare(self, asks: int) -> None:
        slots = -(-asks // NODES)
        await self.rm.report_nodes(node(f"n{i}", memory=10 * slots, vcore=slots) for i in range(NODES))
        await self.rm.submit(application("app", queue="root.a", user="ann"))

    async def all_at_once(self, asks: int, prefix: str) -> None:
        self._wanted = self.allocated + asks
        self._enough.clear()
        await self.rm.ask(ask("app", f"{prefix}{i}", resources=SLOT) for i in range(asks))
        async with asyncio.timeout(ALLOCATED_WITHIN_S):
            await self._enough.wait()


async def register_idle(bus: Bus, count: int) -> tuple[float, int]:
    """Seconds, and how many were refused."""
    names, refused = iter(range(count)), 0
    began = time.perf_counter()

    async def some() -> None:
        nonlocal refused
        for number in names:
            rm_id = f"idle-{number}"
            request = si.RegisterResourceManagerRequest(rmID=rm_id, config=QUEUES)
            try:
                await bus.request(subjects.register(rm_id), request.SerializeToString(), timeout_s=30.0)
            except BusError as error:
                refused += 1
                print(f"{rm_id}: {error}")

    await asyncio.gather(*(some() for _ in range(REGISTERED_AT_ONCE)))
    return time.perf_counter() - began, refused


def memory_mb(system: System) -> dict[str, int]:
    return {
        process.name: psutil.Process(process.pid).memory_info().rss // MB
        for process in system.processes
        if process.pid is not None
    }


def cpu_s(system: System) -> dict[str, float]:
    found = {}
    for process in system.processes:
        if process.pid is not None:
            times = psutil.Process(process.pid).cpu_times()
            found[process.name] = times.user + times.system
    return found


async def idle_cpu(system: System, seconds: float) -> dict[str, float]:
    """Of each process, in percent of a processor."""
    before = cpu_s(system)
    await asyncio.sleep(seconds)
    after = cpu_s(system)
    return {name: round((after[name] - before.get(name, 0.0)) / seconds * 100, 2) for name in after}


async def restart_s(system: System, first: Working) -> float:
    """From `kill -9` of every service to the first allocation of an ask made then."""
    for process in system.processes:
        if process.pid is not None and process.name != "nats-server":
            os.kill(process.pid, signal.SIGKILL)
    began = time.perf_counter()
    await first.all_at_once(1, "restart-")
    return time.perf_counter() - began


async def measure(options: argparse.Namespace, idle: int) -> dict[str, Any]:
    result: dict[str, Any] = {"rms": idle + options.working}
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), cores=2, log_level="warning")) as system, AsyncExitStack() as stack:
            await system.ready()
            bus = await connect(system.url, "bench")
            stack.push_async_callback(bus.close)
            seconds, refused = await register_idle(bus, idle)
            result["registrations_per_s"] = round(idle / seconds) if idle else None
            result["refused"] = refused
            working = []
            for number in range(options.working):
                rm = ResourceManager.connect(system.url, f"working-{number}", config=QUEUES, retry_for_s=300.0)
                working.append(Working(await stack.enter_async_context(rm)))
                await working[-1].prepare(options.asks + 1_000)
            await asyncio.gather(*(one.all_at_once(100, "warm-") for one in working))
            await asyncio.sleep(SETTLED_S)
            result["idle_cpu_percent"] = await idle_cpu(system, options.idle_s)
            result["memory_mb"] = memory_mb(system)
            began = time.perf_counter()
            await asyncio.gather(*(one.all_at_once(options.asks, "k") for one in working))
            result["allocations_per_s"] = round(options.asks * options.working / (time.perf_counter() - began))
            result["restarts_before"] = sum(process.restarts for process in system.processes)
            result["restart_s"] = round(await restart_s(system, working[0]), 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="measure what idle RMs cost")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rms", type=int, default=5_000)
    parser.add_argument("--working", type=int, default=20)
    parser.add_argument("--asks", type=int, default=2_000, help="of each that works")
    parser.add_argument("--idle-s", type=float, default=30.0, help="how long CPU is measured while no RM works")
    options = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    alone = uvloop.run(measure(options, 0))
    among = uvloop.run(measure(options, options.rms - options.working))
    ratio = round(among["allocations_per_s"] / alone["allocations_per_s"], 3)
    if options.json:
        print(json.dumps({"alone": alone, "among": among, "throughput_ratio": ratio}))
        return
    for one in (alone, among):
        print(f"{one['rms']:,} RMs, {options.working} of which work: {one['allocations_per_s']:,} allocations/s")
        if one["registrations_per_s"]:
            print(f"  {one['registrations_per_s']:,} registrations/s, {one['refused']} refused")
        print(f"  restart of all services: {one['restart_s']} s; ended by themselves before: {one['restarts_before']}")
        print("  MB: " + ", ".join(f"{name} {mb}" for name, mb in one["memory_mb"].items()))
        print("  idle CPU, %: " + ", ".join(f"{name} {cpu}" for name, cpu in one["idle_cpu_percent"].items()))
    print(f"throughput among idle RMs: {ratio} times that of the working ones alone")


if __name__ == "__main__":
    main()
