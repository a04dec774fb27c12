"""Measures what REST costs the scheduler: a real nats-server, every service a process, two cores, one RM.

    python bench/rest.py [--json] [--asks N] [--nodes N] [--rounds N] [--rate N] [--followers N]

Rounds take turns. In each, the RM publishes all asks as fast as the SDK does, waits until all are allocated, and then
releases them. In every second round, one process sends `--rate` requests a second over HTTP and another keeps
`--followers` server-sent streams of the event history open. The requests are a mix of `/ws/v1` and `/api/v1`, first
pages as the web page and dashboards of the family ask for them, of ever other nodes. The figures of both kinds of
rounds are of the same minutes, so their ratio says what REST costs. The clients of REST would be on other machines.
Here those who follow have the lowest priority; the one that asks has the usual one, so that it comes to ask, and takes
that time from the scheduler. The processor time of the leading core for an allocation does not depend on who else uses
the processors.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psutil
import uvloop

from remuda.local.system import Layout, System
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk import ResourceManager, ask

sys.path.append(str(Path(__file__).parents[1]))
from bench.e2e import QUEUES, RM, SLOT, Run, equal

PATHS = (
    "/ws/v1/clusters", "/ws/v1/partitions", "/ws/v1/partition/default/queues", "/ws/v1/scheduler/healthcheck",
    "/ws/v1/history/apps", "/ws/v1/partition/default/usage/users", "/ws/v1/events/batch?count=50",
    "/ws/v1/partition/default/application/app-b", "/ws/v1/partition/default/node/NODE",
    f"/api/v1/rms/{RM}/stats", f"/api/v1/rms/{RM}/queues?limit=50", f"/api/v1/rms/{RM}/nodes?limit=50",
    f"/api/v1/rms/{RM}/applications?limit=50", f"/api/v1/rms/{RM}/allocations?limit=50",
    f"/api/v1/rms/{RM}/asks?limit=50", f"/api/v1/rms/{RM}/explain?limit=10",
)  # fmt: skip
CONNECTIONS = 16
LOWEST_PRIORITY = 19
ANSWERED, REFUSED, EVENTS, WAITED_US = range(4)


def asking(port: int, rate: float, nodes: int, on: Event, results: Any) -> None:
    """A process that asks while `on` is set, and counts."""
    uvloop.run(_asking(port, rate, nodes, on, results))


def following(port: int, followers: int, on: Event, results: Any) -> None:
    """A process that follows while `on` is set, and counts."""
    os.nice(LOWEST_PRIORITY)
    uvloop.run(_following(port, followers, on, results))


async def _asking(port: int, rate: float, nodes: int, on: Event, results: Any) -> None:
    while True:
        await _until(on)
        turns: asyncio.Queue[tuple[str, float]] = asyncio.Queue(CONNECTIONS)
        askers = [asyncio.create_task(_ask(port, turns, results)) for _ in range(CONNECTIONS)]
        began, number = time.monotonic(), 0
        while on.is_set():
            path = PATHS[number % len(PATHS)].replace("NODE", f"node-{number % nodes:05}")
            with suppress(asyncio.QueueFull):  # all connections wait for answers: the rate is not reached
                turns.put_nowait((path, time.monotonic()))
            number += 1
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        await _end(askers)


async def _following(port: int, followers: int, on: Event, results: Any) -> None:
    while True:
        await _until(on)
        streams = [asyncio.create_task(_follow(port, results)) for _ in range(followers)]
        while on.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await _end(streams)


async def _until(on: Event) -> None:
    while not on.is_set():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            print("a client has failed:", repr(ended), file=sys.stderr)


async def _ask(port: int, turns: asyncio.Queue[tuple[str, float]], results: Any) -> None:
    """One connection. It reads an answer by its length, and does not parse it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        path, wanted_at = await turns.get()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        await reader.readexactly(int(fields[b"content-length"]))
        results[ANSWERED if head.startswith(b"HTTP/1.1 200") else REFUSED] += 1
        results[WAITED_US] += int((time.monotonic() - wanted_at) * 1_000_000)


async def _follow(port: int, results: Any) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    while part := await reader.read(1 << 16):
        results[EVENTS] += part.count(b"event: ")


class Turns(Run):
    """Allocates all asks, and releases them."""

    def __init__(self, rm: ResourceManager) -> None:
        self._held: list[si.Allocation] = []
        self._released = 0
        super().__init__(rm)

    async def _told(self, response: si.AllocationResponse) -> None:
        self._held += response.new
        self._released += len(response.released)
        await super()._told(response)

    async def turn(self, count: int, names: Iterator[str]) -> float:
        """Allocations a second."""
        self._expect(count)
        started = time.perf_counter()
        await self.rm.ask(ask(f"app-{'ab'[i % 2]}", next(names), resources=SLOT) for i in range(count))
        await asyncio.wait_for(self._there.wait(), 300)
        seconds = time.perf_counter() - started
        self._released, wanted = 0, len(self._held)
        await self.rm.release(self._held)
        self._held = []
        async with asyncio.timeout(120):
            while self._released < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return count / seconds


def cpu_s(system: System, name: str) -> list[float]:
    """Of each process of the service."""
    found = [psutil.Process(one.pid) for one in system.processes if one.pid and one.name.startswith(name)]
    return [times.user + times.system for times in (one.cpu_times() for one in found)]


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    gc.set_threshold(*GC_THRESHOLDS)
    cluster = equal(options.nodes, options.asks, 100)
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        async with System(Layout(Path(data), cores=2, web_port=0, log_level="warning")) as system:
            await system.ready(120)
            port = int(system.web_page.rstrip("/").rpartition(":")[2])
            processes = multiprocessing.get_context("spawn")
            on, results = processes.Event(), processes.Array("q", 4)
            clients = (
                processes.Process(target=asking, args=(port, options.rate, options.nodes, on, results), daemon=True),
                processes.Process(target=following, args=(port, options.followers, on, results), daemon=True),
            )
            async with ResourceManager.connect(system.url, RM, config=QUEUES) as rm:
                run = Turns(rm)
                await run.cluster(cluster.nodes)
                for client in clients:
                    client.start()
                try:
                    return await _rounds(options, system, run, on, results)
                finally:
                    for client in clients:
                        client.kill()


async def _rounds(options: argparse.Namespace, system: System, run: Turns, on: Event, results: Any) -> dict[str, Any]:
    names = (f"ask-{number}" for number in range(10**9))
    await run.turn(options.asks, names)  # warm
    speeds: dict[bool, list[float]] = {False: [], True: []}
    core_ms: dict[bool, list[float]] = {False: [], True: []}
    web_s = served_s = 0.0
    for number in range(2 * options.rounds):
        rest = bool(number % 2) != bool(number // 2 % 2)  # without, with, with, without, ...
        if rest:
            on.set()
            await asyncio.sleep(1.0)  # the streams are open
        cores, web, began = cpu_s(system, "core"), cpu_s(system, "web"), time.monotonic()
        speeds[rest].append(await run.turn(options.asks, names))
        spent = [now - then for now, then in zip(cpu_s(system, "core"), cores, strict=True)]
        core_ms[rest].append(max(spent) * 1_000_000 / options.asks)  # the leader works more than the follower
        if rest:
            web_s += sum(cpu_s(system, "web")) - sum(web)
            served_s += time.monotonic() - began
            on.clear()
        await asyncio.sleep(1.0)
    without, beside = statistics.median(speeds[False]), statistics.median(speeds[True])
    leader, leader_beside = statistics.median(core_ms[False]), statistics.median(core_ms[True])
    return {
        "allocations_per_s": {"without": round(without), "beside": round(beside)},
        "throughput_ratio": round(beside / without, 3),
        "leader_us_per_allocation": {"without": round(leader, 1), "beside": round(leader_beside, 1)},
        "leader_ratio": round(leader_beside / leader, 3),
        "requests_per_s": round(results[ANSWERED] / (served_s + options.rounds), 1),
        "answer_ms": round(results[WAITED_US] / 1_000 / max(1, results[ANSWERED] + results[REFUSED]), 1),
        "refused": results[REFUSED],
        "events_per_s": round(results[EVENTS] / (served_s + options.rounds)),
        "web_cpu_share": round(web_s / served_s, 2),
        "rounds": {"without": [round(one) for one in speeds[False]], "beside": [round(one) for one in speeds[True]]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="measure what REST costs the scheduler")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--asks", type=int, default=20_000, help="of a round")
    parser.add_argument("--rounds", type=int, default=4, help="of each kind")
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--followers", type=int, default=100, help="open streams of events")
    arguments = parser.parse_args()
    result = uvloop.run(measure(arguments))
    if arguments.json:
        print(json.dumps(result))
        return
    speeds, leader = result["allocations_per_s"], result["leader_us_per_allocation"]
    print(f"without REST: {speeds['without']:,} allocations/s, {leader['without']} µs of the leader for each")
    print(f"beside it:    {speeds['beside']:,} allocations/s, {leader['beside']} µs of the leader for each")
    print(f"{result['throughput_ratio']} times the throughput, {result['leader_ratio']} times the leader's time")
    print(
        f"{result['requests_per_s']} requests/s answered after {result['answer_ms']} ms, {result['refused']} refused, "
        f"{result['events_per_s']:,} events/s sent; the web service used {result['web_cpu_share']} processors"
    )


if __name__ == "__main__":
    main()
