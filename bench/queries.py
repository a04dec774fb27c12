"""Measures what queries cost RMs that wait for decisions: a real nats-server, every service a process, two cores, one
RM with many allocations and many asks that wait.

    python bench/queries.py [--json] [--running N] [--waiting N] [--rate N] [--rounds N] [--seconds N] [--cores N]
                            [--limits N,N,...]

Single asks come at a steady rate all the time; measured is each one's time from before its publish to its callback. In
rounds that take turns there are `--rate` queries a second besides, or none: queues, nodes, applications, allocations,
usage, explanations and counts, first pages and later ones. The figures of both kinds of rounds are of the same minutes
on the same machine, so their ratio says what queries cost. So does the processor time of the cores, which is that of
the rounds with queries less that of as many rounds without. Queries that are refused or not answered are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import psutil
import uvloop

from remuda.local.system import Layout, System
from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_bus.nats import connect
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk import ResourceManager, application, ask, node

RM = "bench"
QUEUES = """
partitions:
  - name: default
    queues:
      - {name: root, submitacl: '*', queues: [{name: a}, {name: b}, {name: full, resources: {max: {vcore: 1}}}]}
"""
APPLICATIONS = 100
NODES = 1_000
SLOT = {"memory": 10, "vcore": 1000}
ASKS_PER_S = 100
KINDS = ("queues", "nodes", "applications", "allocations", "usage", "explain", "stats")
LIMITS = "10,50,100"  # rows of a page, as people and dashboards ask for them
PREPARED_WITHIN_S = 600.0


class Run:
    """Knows when each single ask was made, and how long it took."""

    def __init__(self, rm: ResourceManager) -> None:
        self.rm = rm
        self.allocated = 0
        self.waits_s: list[float] = []
        self._asked: dict[str, float] = {}
        rm.on_allocation(self._told)

    async def _told(self, response: si.AllocationResponse) -> None:
        now = time.monotonic()
        if response.rejected:
            raise RuntimeError(f"rejected: {response.rejected[0]}")
        self.allocated += len(response.new)
        done = []
        for allocation in response.new:
            if (at := self._asked.pop(allocation.allocationKey, None)) is not None:
                self.waits_s.append(now - at)
                done.append(allocation)
        if done:
            await self.rm.release(done)

    async def prepare(self, running: int, waiting: int) -> None:
        slots = -(-(running + 1_000) // NODES)
        await self.rm.report_nodes(node(f"n{i:05}", memory=10 * slots, vcore=1000 * slots) for i in range(NODES))
        await self.rm.submit(*(application(f"app-{i}", queue="root.a", user=f"user-{i}") for i in range(APPLICATIONS)))
        await self.rm.submit(application("waits", queue="root.full", user="ann"))
        for name in range(APPLICATIONS):
            asks = (ask(f"app-{name}", f"r{i}", resources=SLOT) for i in range(running // APPLICATIONS))
            await self.rm.ask(asks)
        await self.rm.ask(ask("waits", f"w{i}", resources=SLOT) for i in range(waiting))
        async with asyncio.timeout(PREPARED_WITHIN_S):
            while self.allocated < running // APPLICATIONS * APPLICATIONS:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def singles(self, seconds: float, names: Iterator[str]) -> list[float]:
        """Seconds that each ask made in this time has waited."""
        self.waits_s = []
        began = time.monotonic()
        for number in range(round(seconds * ASKS_PER_S)):
            await asyncio.sleep(max(0.0, began + number / ASKS_PER_S - time.monotonic()))
            key = next(names)
            self._asked[key] = time.monotonic()
            await self.rm.ask([ask("app-0", key, resources=SLOT)])
        async with asyncio.timeout(60):
            while self._asked:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return self.waits_s


def questions(url: str, rate: float, limits: list[int], on: Event, results: Any) -> None:
    """A process that asks at that rate while `on` is set. It counts what was answered, refused, and neither."""
    uvloop.run(_questions(url, rate, limits, on, results))


async def _questions(url: str, rate: float, limits: list[int], on: Event, results: Any) -> None:
    bus = await connect(url, "questions")
    random, pages = Random(7), dict[str, Any]()
    under_way: set[asyncio.Task[None]] = set()
    while True:
        if not on.is_set():
            await asyncio.sleep(0.02)
            continue
        began, number = time.monotonic(), 0
        while on.is_set():
            task = asyncio.create_task(_question(bus, random.choice(KINDS), random.choice(limits), pages, results))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            number += 1
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))


class Page(msgspec.Struct):
    """The part of an answer that the benchmark parses. It skips the rows, which cost more to parse than to make."""

    next: list[Any] | None = None


async def _question(bus: Bus, kind: str, limit: int, pages: dict[str, Any], results: Any) -> None:
    """Goes on with the page after the last one of that kind, or begins again."""
    request: dict[str, Any] = {"limit": limit}
    if (after := pages.get(kind)) is not None:
        request["after"] = after
    try:
        reply = await bus.request(subjects.core_query(RM, kind), json.dumps(request).encode(), timeout_s=10.0)
    except BusError as error:
        results[1 if isinstance(error, Refused) else 2] += 1
        return
    results[0] += 1
    pages[kind] = msgspec.json.decode(reply.payload, type=Page).next


def p99_ms(waits_s: list[float]) -> float:
    return statistics.quantiles(waits_s, n=100, method="inclusive")[98] * 1_000


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    gc.set_threshold(*GC_THRESHOLDS)
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), cores=options.cores, log_level="warning")) as system:
            await system.ready()
            processes = multiprocessing.get_context("spawn")
            on, results = processes.Event(), processes.Array("q", 3)
            limits = [int(limit) for limit in options.limits.split(",")]
            asks = (system.url, options.rate, limits, on, results)
            asking = processes.Process(target=questions, args=asks, daemon=True)
            async with ResourceManager.connect(system.url, RM, config=QUEUES) as rm:
                run = Run(rm)
                await run.prepare(options.running, options.waiting)
                asking.start()
                try:
                    return await _rounds(options, system, run, on, results)
                finally:
                    asking.kill()


def cores_cpu_s(system: System) -> float:
    cores = [psutil.Process(one.pid) for one in system.processes if one.pid and one.name.startswith("core")]
    return sum(times.user + times.system for times in (core.cpu_times() for core in cores))


async def _rounds(options: argparse.Namespace, system: System, run: Run, on: Event, results: Any) -> dict[str, Any]:
    names = (f"s{number}" for number in range(10**9))
    await run.singles(3.0, names)  # warm
    without: list[float] = []
    beside: list[float] = []
    asked_s = cpu_s = 0.0
    for number in range(options.rounds):
        for queries in (False, True) if number % 2 else (True, False):
            began, began_cpu_s = time.monotonic(), cores_cpu_s(system)
            if queries:
                on.set()
                beside += await run.singles(options.seconds, names)
                asked_s += time.monotonic() - began
                on.clear()
            else:
                without += await run.singles(options.seconds, names)
            await asyncio.sleep(0.5)  # also for what was asked last
            cpu_s += (1 if queries else -1) * (cores_cpu_s(system) - began_cpu_s)
    return {
        "without_ms": {"p50": round(statistics.median(without) * 1_000, 2), "p99": round(p99_ms(without), 2)},
        "beside_ms": {"p50": round(statistics.median(beside) * 1_000, 2), "p99": round(p99_ms(beside), 2)},
        "p99_ratio": round(p99_ms(beside) / p99_ms(without), 3),
        "queries_per_s": round(results[0] / asked_s, 1),
        "cores_cpu_ms_per_query": round(cpu_s * 1_000 / max(1, results[0]), 2),
        "queries_refused": results[1],
        "queries_failed": results[2],
        "running": options.running,
        "waiting": options.waiting,
        "asks": len(without) + len(beside),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="measure what queries cost RMs that wait for decisions")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--running", type=int, default=100_000, help="allocations")
    parser.add_argument("--waiting", type=int, default=50_000, help="asks that wait")
    parser.add_argument("--rate", type=float, default=200.0, help="queries a second")
    parser.add_argument("--rounds", type=int, default=6, help="of each kind")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a round")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--limits", default=LIMITS, help="rows of a page, one of these at random")
    result = uvloop.run(measure(parser.parse_args()))
    if parser.parse_args().json:
        print(json.dumps(result))
        return
    without, beside = result["without_ms"], result["beside_ms"]
    print(f"{result['running']:,} allocations, {result['waiting']:,} asks wait; {result['asks']:,} single asks")
    print(f"without queries: p50 {without['p50']} ms, p99 {without['p99']} ms")
    print(f"beside {result['queries_per_s']} queries/s: p50 {beside['p50']} ms, p99 {beside['p99']} ms")
    print(
        f"p99 {result['p99_ratio']} times as long; {result['cores_cpu_ms_per_query']} ms CPU of the cores for a query"
    )
    print(f"{result['queries_refused']} queries refused, {result['queries_failed']} not answered")


if __name__ == "__main__":
    main()
