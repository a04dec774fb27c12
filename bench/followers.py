"""Measures what a shadow and an archive cost the leader: a real nats-server, every service a process, one RM.

    python bench/followers.py [--json] [--asks N] [--bursts N] [--rounds N] [--only shadow|archive]

In rounds that take turns the leader works alone, beside a shadow with another configuration that decides all the time,
and beside an archive. In each round the RM asks for `--asks` allocations at once, waits for all of them and releases
them, `--bursts` times. The leader is kept on the first processor and the followers on the last one. Measured are the
seconds of a processor that the leader takes for 1,000 allocations, and allocations per second. Both are compared with
the mean of the rounds before and after in which the leader was alone: other programs disturb neighbours alike.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import uvloop

from remuda.local.system import Layout, System
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk import ResourceManager, application, ask, node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RM = "bench"
QUEUES = """
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: a}, {name: b, resources: {max: {vcore: 100000}}}]}]
"""
NEXT = QUEUES.replace("vcore: 100000", "vcore: 10")
NODES = 500
SLOT = {"memory": 10, "vcore": 1}
BEGINS_WITHIN_S = 600.0
LEAST_S = 0.2  # between looks at a follower that begins
ALONE, SHADOW, ARCHIVE = "alone", "shadow", "archive"


class Load:
    """Bursts of asks, each waited for and released."""

    def __init__(self, rm: ResourceManager, asks: int) -> None:
        self._rm = rm
        self._asks = asks
        self._number = 0
        self._allocations: list[si.Allocation] = []
        self._all = asyncio.Event()
        rm.on_allocation(self._told)

    async def _told(self, response: si.AllocationResponse) -> None:
        if response.rejected:
            raise RuntimeError(f"rejected: {response.rejected[0]}")
        self._allocations += response.new
        if len(self._allocations) >= self._asks:
            self._all.set()

    async def burst(self) -> float:
        """Returns how long it took until all were allocated, in s."""
        self._number += 1
        names = [f"app-{queue}-{self._number}" for queue in "ab"]
        await self._rm.submit(*(application(name, queue=f"root.{name[4]}", user="ann") for name in names))
        began = time.monotonic()
        await self._rm.ask(ask(names[one % 2], f"{self._number}-{one}", resources=SLOT) for one in range(self._asks))
        await asyncio.wait_for(self._all.wait(), 600)
        took_s = time.monotonic() - began
        done, self._allocations = self._allocations, []
        self._all.clear()
        await self._rm.release(done)
        return took_s


def pinned(cpu: int) -> Callable[[], None]:
    return lambda: os.sched_setaffinity(0, {cpu})


@asynccontextmanager
async def follower(kind: str, url: str, data: Path) -> AsyncIterator[None]:
    """A process that follows, from when it has written something."""
    if kind == ALONE:
        yield
        return
    directory = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=data))
    if kind == SHADOW:
        (directory / "next.yaml").write_text(NEXT)
        words = [f"--queues={directory}/next.yaml", "--set", f"shadow.directory={directory}",
                 "--set", "shadow.interval=1"]  # fmt: skip
        written = directory / "reports"
    else:
        words = ["--set", f"archive.store={directory}/store", "--set", "archive.write=1"]
        written = directory / "store" / RM
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from remuda.main import app; app()", "run", kind, *words,
        env={**os.environ, "REMUDA_NATS_URL": url, "REMUDA_LOG_LEVEL": "warning"},
        preexec_fn=pinned(max(os.sched_getaffinity(0))), start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(BEGINS_WITHIN_S):
            while not written.exists():
                if process.returncode is not None:
                    raise RuntimeError(f"{kind} ended")
                await asyncio.sleep(LEAST_S)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with what it decides in processes of its own
        await process.wait()


async def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    kinds = [one for one in (SHADOW, ARCHIVE) if options.only in (None, one)]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as name:
        data = Path(name)
        (data / "queues.yaml").write_text(QUEUES)
        layout = Layout(data, config=data / "queues.yaml", log_level="warning")
        async with System(layout) as system, AsyncExitStack() as stack:
            await system.ready()
            leader = next(one.pid for one in system.processes if one.name == "core")
            assert leader is not None
            os.sched_setaffinity(leader, {min(os.sched_getaffinity(0))})
            rm = await stack.enter_async_context(ResourceManager.connect(system.url, RM, retry_for_s=60.0))
            load, slots = Load(rm, options.asks), -(-options.asks // NODES)
            await rm.report_nodes(node(f"node-{one:05}", memory=10 * slots, vcore=slots) for one in range(NODES))
            await load.burst()
            order = [kind for _ in range(options.rounds) for one in kinds for kind in (ALONE, one)]
            for kind in [*order, ALONE]:
                async with follower(kind, system.url, data):
                    times = psutil.Process(leader).cpu_times()
                    took_s = [await load.burst() for _ in range(options.bursts)]
                    after = psutil.Process(leader).cpu_times()
                count = options.asks * options.bursts
                cpu_s = after.user + after.system - times.user - times.system
                one = {"kind": kind, "cpu_ms_of_1000": 1e6 * cpu_s / count, "per_s": count / sum(took_s)}
                print(f"{kind}: {one['cpu_ms_of_1000']:.1f} ms, {one['per_s']:,.0f}/s", file=sys.stderr, flush=True)
                found.append(one)
    return found


def ratios(rounds: list[dict[str, Any]], kind: str, name: str) -> list[float]:
    """Of each round to its neighbours, in which the leader was alone."""
    return [
        one[name] / statistics.mean((before[name], after[name]))
        for before, one, after in zip(rounds, rounds[1:], rounds[2:], strict=False)
        if one["kind"] == kind
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--asks", type=int, default=2_000, help="of a burst")
    parser.add_argument("--bursts", type=int, default=10, help="of a round")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind")
    parser.add_argument("--only", choices=(SHADOW, ARCHIVE))
    options = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    rounds = uvloop.run(measure(options))
    alone = [one for one in rounds if one["kind"] == ALONE]
    rows = [
        {
            "kind": kind,
            "alone_cpu_ms_of_1000": round(statistics.median(one["cpu_ms_of_1000"] for one in alone), 2),
            "cpu_ratio": round(statistics.median(ratios(rounds, kind, "cpu_ms_of_1000")), 4),
            "cpu_ratios": [round(one, 4) for one in ratios(rounds, kind, "cpu_ms_of_1000")],
            "per_s_ratio": round(statistics.median(ratios(rounds, kind, "per_s")), 4),
        }
        for kind in (SHADOW, ARCHIVE)
        if any(one["kind"] == kind for one in rounds)
    ]
    for row in rows:
        print(json.dumps(row) if options.json else "  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
