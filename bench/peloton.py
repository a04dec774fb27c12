"""Measures Peloton's resource manager with engines of our own: a real nats-server, one resource manager and four
engines as processes, one job manager.

    python bench/peloton.py [--json] [--shared] [--pools N] [--tasks N] [--hosts N] [--engines N]

All tasks are enqueued in gangs of one, and taken by GetPlacements as they come. `tasks_per_s`: from the first
EnqueueGangs until the last placement was taken. `idle_p99_ms`: from the EnqueueGangs of one task until GetPlacements
has returned it, while nothing else waits. `entitlement_ms`: one calculation for 10,000 pools, in this process, the
median of five. `--shared`: tasks on nodes of an RM (`peloton_shared.py`), with 300 pools and 20,000 tasks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import BusError
from remuda_bus.nats import connect
from remuda_operations.queries.services import services
from remuda_peloton.limits import RESPONSE_BYTES
from remuda_peloton.rules.entitlement import PoolTree, Usage, calculate
from remuda_peloton.rules.pools import ROOT, KindConfig, PoolConfig
from remuda_peloton.rules.resources import KINDS
from remuda_peloton.shell.placement import Calls
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2, log_pb2

sys.path.append(str(Path(__file__).parents[1]))
from bench import peloton_shared

PER_CALL: Final = 500
IDLE_TASKS: Final = 200
HOST: Final = (64.0, 0.0, 256_000.0, 1_000_000.0)
JOB: Final = "11111111-1111-4111-8111-111111111111"


def run(url: str, service: str, *settings: str) -> subprocess.Popen[bytes]:
    sets = [argument for one in settings for argument in ("--set", one)]
    return subprocess.Popen(
        [sys.executable, "-m", "remuda", "run", service, "--nats", url, *sets], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


async def address(url: str) -> str:
    """Of the resource manager, when it leads."""
    bus = await connect(url, "bench", timeout_s=5)
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    answer = await bus.request(subjects.front_end("resmgr", "resmgr"), timeout_s=0.5)
                except BusError:
                    continue
                found = json.loads(answer.payload)
                if found["leads"]:
                    return f"127.0.0.1:{found['port']}"
    finally:
        await bus.close()


async def until_there(url: str, engines: int) -> None:
    bus = await connect(url, "bench", timeout_s=5)
    async with asyncio.timeout(60):
        while sum(one.service == "placement" for one in await services(bus)) < engines:
            pass
    await bus.close()


def gang(number: int) -> pb.Gang:
    made = pb.Gang()
    task = made.tasks.add(preemptible=True, type="BATCH")
    task.id.value, task.taskId.value, task.jobId.value = f"{JOB}-{number}", f"{JOB}-{number}-1", JOB
    task.resource.cpuLimit, task.resource.memLimitMb = 1.0, 100.0
    return made


async def placements(call: Calls, count: int) -> None:
    left = count
    while left:
        answer = await call("GetPlacements", pb.GetPlacementsRequest(limit=1_000, timeout=5_000))
        left -= sum(len(one.taskIDs) for one in answer.placements)


async def create_pools(call: Calls, count: int, hosts: int) -> list[str]:
    async def create(number: int) -> str:
        request = respool_pb2.CreateRequest()
        request.config.name, request.config.parent.value = f"pool-{number}", "root"
        for kind, most in zip(KINDS, HOST, strict=True):
            request.config.resources.add(kind=kind, reservation=0.0, limit=most * hosts, share=1.0)
        answer = await call("CreateResourcePool", request)
        assert answer.result.value, answer
        return str(answer.result.value)

    parts = [range(at, min(at + 50, count)) for at in range(0, count, 50)]
    return [one for part in parts for one in await asyncio.gather(*map(create, part))]


async def measure(call: Calls, pools: int, tasks: int, hosts: int) -> dict[str, float]:
    described = [
        log_pb2.Host(hostname=f"host-{n:05}", capacity=HOST, first_port=31_000, last_port=32_000) for n in range(hosts)
    ]
    await call("PutHosts", hosts_pb2.PutHostsRequest(hosts=described))
    ids = await create_pools(call, pools, hosts)
    each = tasks // pools

    async def enqueue(pool: str, first: int, count: int) -> None:
        request = pb.EnqueueGangsRequest(gangs=[gang(first + n) for n in range(count)])
        request.resPool.value = pool
        answer = await call("EnqueueGangs", request)
        assert not answer.HasField("error"), str(answer)[:500]

    began = time.perf_counter()
    taking = asyncio.create_task(placements(call, each * pools))
    for at in range(0, pools, 16):
        some = enumerate(ids[at : at + 16], at)
        await asyncio.gather(*(
            enqueue(pool, number * each + start, min(PER_CALL, each - start))
            for number, pool in some for start in range(0, each, PER_CALL)
        ))  # fmt: skip
    enqueued_s = time.perf_counter() - began
    await taking
    took_s = time.perf_counter() - began
    waits = []
    for number in range(IDLE_TASKS):
        began = time.perf_counter()
        taking = asyncio.create_task(placements(call, 1))
        await enqueue(ids[0], pools * each + number, 1)
        await taking
        waits.append((time.perf_counter() - began) * 1_000)
    waits.sort()
    return {
        "tasks_per_s": each * pools / took_s, "enqueued_per_s": each * pools / enqueued_s,
        "idle_median_ms": statistics.median(waits), "idle_p99_ms": waits[int(0.99 * len(waits))],
    }  # fmt: skip


def entitlement_ms(pools: int = 10_000) -> float:
    configs = {ROOT: PoolConfig(ROOT, ROOT, "")}
    for number in range(pools):
        parent = ROOT if number < 100 else f"p{number % 100}"
        kinds = tuple(KindConfig(kind, 1.0, 1e6, 1.0 + number % 7) for kind in KINDS)
        configs[f"p{number}"] = PoolConfig(f"p{number}", f"p{number}", parent, resources=kinds)
    tree, chance = PoolTree(configs), np.random.default_rng(1)
    held, slack, demand, slack_demand = (chance.random((len(tree.ids), 4)) * 10 for _ in range(4))
    times = []
    for _ in range(5):
        began = time.perf_counter()
        calculate(tree, Usage(tree, demand, slack_demand, held, slack), (1e5, 1e4, 1e5, 1e5), 1e4)
        times.append((time.perf_counter() - began) * 1_000)
    return statistics.median(times)


async def shared(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        async with NatsServer(Path(directory)) as server:

            def start(service: str, *settings: str) -> subprocess.Popen[bytes]:
                process = run(server.url, service, *settings)
                stack.callback(process.wait)
                stack.callback(process.kill)
                return process

            bus = await connect(server.url, "bench", timeout_s=5)
            await bus.declare()
            await bus.close()
            resmgr = start("resmgr", "instance=resmgr", "resmgr.port=0", "resmgr.entitlement.period=500ms")
            deployed = peloton_shared.start_all(start)
            deployed = deployed._replace(processes={**deployed.processes, "resmgr": resmgr})
            channel_options = [("grpc.max_receive_message_length", RESPONSE_BYTES)]
            async with grpc.aio.insecure_channel(await address(server.url), channel_options) as channel:
                return await peloton_shared.measure(
                    server.url, Calls(channel), deployed, create_pools, gang, options.pools, options.tasks,
                    options.hosts,
                )  # fmt: skip


async def main(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        async with NatsServer(Path(directory)) as server:

            def start(service: str, *settings: str) -> None:
                process = run(server.url, service, *settings)
                stack.callback(process.wait)
                stack.callback(process.kill)

            bus = await connect(server.url, "bench", timeout_s=5)
            await bus.declare()
            await bus.close()
            start("resmgr", "instance=resmgr", "resmgr.port=0", "resmgr.entitlement.period=500ms")
            found = await address(server.url)
            for number in range(options.engines):
                start("placement", f"instance=engine-{number}", f"placement.resmgr={found}")
            await until_there(server.url, options.engines)
            async with grpc.aio.insecure_channel(found) as channel:
                return await measure(Calls(channel), options.pools, options.tasks, options.hosts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--pools", type=int, help="1,000, or 300 with --shared")
    parser.add_argument("--tasks", type=int, help="100,000, or 20,000 with --shared")
    parser.add_argument("--hosts", type=int, default=5_000)
    parser.add_argument("--engines", type=int, default=4)
    given = parser.parse_args()
    given.pools = given.pools or (300 if given.shared else 1_000)
    given.tasks = given.tasks or (20_000 if given.shared else 100_000)
    if given.shared:
        result = asyncio.run(shared(given))
    else:
        result = {**asyncio.run(main(given)), "entitlement_ms": entitlement_ms()}
    print(json.dumps(result) if given.json else "\n".join(f"{name:16} {value:,.1f}" for name, value in result.items()))
