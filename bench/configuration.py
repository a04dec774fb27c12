"""Measures how long a change of queues.yaml takes until it is in force, and what it costs an RM that waits for
decisions: a real nats-server, every service a process, two cores, one RM that uses the file.

    python bench/configuration.py [--json] [--queues N] [--changes N]

Each change saves the file with another maximum of one queue, as an editor does: a new file takes the place of the old.
Measured is the time from there to the commit with the new configuration in the log of the RM, as a reader of the log
receives it. Single asks come at a steady rate all the time; the longest wait during the changes contains the longest
time for which the change has held a pass up.
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
from itertools import count
from pathlib import Path
from typing import Any

import uvloop

from remuda.local.system import Layout, System
from remuda_bus.nats import connect
from remuda_replication.log import LogReader
from remuda_replication.process import GC_THRESHOLDS
from remuda_sdk import ResourceManager

sys.path.append(str(Path(__file__).parents[1]))
from bench.queries import APPLICATIONS, ASKS_PER_S, RM, Run, p99_ms

APART_S = 2.0  # between two changes


def text(queues: int, maximum: int) -> str:
    """A tree of two levels, with a maximum, a guaranteed amount and a limit in each leaf."""
    leaf = "resources: {guaranteed: {vcore: 1}, max: {vcore: %d}}, limits: [{users: [ann], maxapplications: 50}]"
    some = round(queues**0.5)
    lines = ["partitions:", "- name: default", "  queues:", "  - name: root", "    submitacl: '*'", "    queues:"]
    lines += ["    - {name: a}", "    - {name: b}", "    - {name: full, resources: {max: {vcore: 1}}}"]
    for number in range(some):
        lines += [f"    - name: team-{number}", "      queues:"]
        lines += [
            f"      - {{name: q{one}, {leaf % (maximum if number == one == 0 else 100)}}}"
            for one in range(queues // some - 1)
        ]
    return "\n".join(lines) + "\n"


def save(file: Path, content: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(content)
    os.replace(new, file)


async def changes(url: str, file: Path, texts: list[str]) -> list[float]:
    """Seconds from each save to its commit. The texts are made before, and saved in a thread: the RM whose waits are
    measured is in this process."""
    bus = await connect(url, "bench")
    log = await LogReader.open(bus, RM, None)
    async for _ in log.read_to_end():
        pass
    took_s = []
    for content in texts:
        await asyncio.sleep(APART_S)
        saved = time.monotonic()
        await asyncio.to_thread(save, file, content)
        while not any(
            fact.HasField("configuration_applied")
            for entry in await log.batch(timeout_s=60)
            for decision in entry.commit.decisions
            for fact in decision.facts
        ):
            pass
        took_s.append(time.monotonic() - saved)
    await bus.close()
    return took_s


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    gc.set_threshold(*GC_THRESHOLDS)
    with tempfile.TemporaryDirectory(prefix="remuda-bench-") as data:
        file = Path(data) / "queues.yaml"
        save(file, text(options.queues, 100))
        texts = [text(options.queues, 200 + number) for number in range(options.changes)]
        async with System(Layout(Path(data), cores=2, config=file, log_level="warning")) as system:
            await system.ready()
            async with ResourceManager.connect(system.url, RM) as rm:
                run, names = Run(rm), (f"s{number}" for number in count())
                await run.prepare(APPLICATIONS, 1)
                as_long_s = options.changes * (APART_S + 1.0)  # the longest waits of both can be compared
                without = await run.singles(as_long_s, names)
                changing = asyncio.create_task(changes(system.url, file, texts))
                beside = await run.singles(as_long_s, names)
                took_s = await changing
    return {
        "queues": options.queues,
        "in_force_s": {"median": round(statistics.median(took_s), 3), "longest": round(max(took_s), 3)},
        "without_ms": {"p99": round(p99_ms(without), 1), "longest": round(max(without) * 1_000, 1)},
        "beside_ms": {"p99": round(p99_ms(beside), 1), "longest": round(max(beside) * 1_000, 1)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="measure how long a change of the configuration takes")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--queues", type=int, default=5_000)
    parser.add_argument("--changes", type=int, default=10)
    options = parser.parse_args()
    result = uvloop.run(measure(options))
    if options.json:
        print(json.dumps(result))
        return
    took, without, beside = result["in_force_s"], result["without_ms"], result["beside_ms"]
    print(f"{result['queues']:,} queues: in force {took['median']} s after saving, at most {took['longest']} s")
    print(
        f"{ASKS_PER_S} single asks a second: p99 {without['p99']} ms, longest {without['longest']} ms without changes"
    )
    print(f"  during {options.changes} changes: p99 {beside['p99']} ms, longest {beside['longest']} ms")


if __name__ == "__main__":
    main()
