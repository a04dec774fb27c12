"""Measures the core alone: no bus, no disk, one thread. What the reference scheduler's own benchmark measures.

    python bench/core.py [--json] [--case NAME ...] [--repeat N]

Each case runs in a process of its own. Nodes are just large enough for the asks; each ask wants memory 10 and vcore 1.
Measured is the time in which the core decides all allocations (`allocations_per_s`) once it has taken in the asks
(`asks_per_s`), both with the scheduling index in place, as in a leader. The median of the repetitions counts. --json
prints one object per case.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from remuda_core.commands import Command, Register, Schedule, SubmitApplication, SubmitAsk, UpdateNode
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.limits import ALLOCATIONS_PER_PASS
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings

PARTITION = "[bench]default"
NEED = {"memory": 10, "vcore": 1}


@dataclass(frozen=True)
class Case:
    name: str
    nodes: int
    asks: int
    queues: int = 2
    applications: int = 1  # per queue
    node_sort: str = "fair"
    repeats: int = 1  # maxAllocations of each ask


CASES = {
    case.name: case
    for case in (
        Case("500 nodes", 500, 10_000),
        Case("1000 nodes", 1_000, 10_000),
        Case("2000 nodes", 2_000, 10_000),
        Case("5000 nodes", 5_000, 10_000),
        Case("10000 nodes", 10_000, 50_000),
        Case("5000 nodes, 100 queues", 5_000, 10_000, queues=100, applications=10),
        Case("5000 nodes, binpacking", 5_000, 10_000, node_sort="binpacking"),
        Case("10000 nodes, binpacking", 10_000, 50_000, node_sort="binpacking"),
        Case("500 nodes, one ask per application", 500, 10_000, repeats=5_000),
    )
}


def configuration(case: Case) -> Configuration:
    share = case.asks // case.queues
    queues = tuple(QueueSettings(name, guaranteed={"memory": 10 * share, "vcore": share}) for name in queue_names(case))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    return Configuration("", (PartitionSettings("default", root, node_sort=case.node_sort),))


def queue_names(case: Case) -> list[str]:
    return ["a", "b"] if case.queues == 2 else [f"queue-{i:03}" for i in range(case.queues)]


def cluster(case: Case) -> Iterator[Command]:
    slots = -(-case.asks // case.nodes)
    yield Register("bench", configuration(case))
    for i in range(case.nodes):
        yield UpdateNode(PARTITION, f"node-{i:05}", "CREATE", capacity={"memory": 10 * slots, "vcore": slots})
    for queue in queue_names(case):
        for i in range(case.applications):
            yield SubmitApplication(PARTITION, f"{queue}-app-{i}", f"root.{queue}", "user")


def asks(case: Case) -> Iterator[Command]:
    """One application after the other, each with all of its asks."""
    applications = [f"{queue}-app-{i}" for queue in queue_names(case) for i in range(case.applications)]
    count = case.asks // case.repeats
    for i in range(count):
        application = applications[i * len(applications) // count]
        yield SubmitAsk(Ask(PARTITION, application, f"ask-{i:06}", NEED, case.repeats))


def run(case: Case) -> dict[str, float]:
    gc.unfreeze()  # of the run before
    gc.collect()
    core = Core("bench")
    for command in cluster(case):
        core.handle(command, 0)
    core.handle(Schedule(ALLOCATIONS_PER_PASS), 0)  # builds the index
    commands = list(asks(case))
    gc.collect()
    gc.freeze()
    started = time.perf_counter()
    for command in commands:
        core.handle(command, 0)
    asked = time.perf_counter()
    while core.handle(Schedule(ALLOCATIONS_PER_PASS), 0):
        pass
    ended = time.perf_counter()
    allocated = sum(len(partition.allocations) for partition in core.state.partitions.values())
    assert allocated == case.asks, f"{allocated} of {case.asks} were allocated"
    return {"allocations_per_s": allocated / (ended - asked), "asks_per_s": len(commands) / (asked - started)}


def measure(case: Case, repeat: int) -> dict[str, object]:
    gc.set_threshold(100_000, 50, 50)  # as every service does
    runs = [run(case) for _ in range(repeat)]
    medians = {key: round(statistics.median(one[key] for one in runs)) for key in runs[0]}
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"case": case.name, "nodes": case.nodes, "asks": case.asks, **medians, "peak_rss_mb": round(peak_mb, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the core alone")
    parser.add_argument("--json", action="store_true", help="one JSON object per case")
    parser.add_argument("--case", action="append", choices=CASES, help="only this one; may be given several times")
    parser.add_argument("--repeat", type=int, default=3, help="the median of so many runs (default 3)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.case or list(CASES)
    if arguments.here:
        print(json.dumps(measure(CASES[names[0]], arguments.repeat)))
        return
    if not arguments.json:
        print(f"{'case':36}{'allocations/s':>15}{'asks/s':>12}{'peak MB':>10}")
    for name in names:
        command = [sys.executable, __file__, "--here", "--case", name, "--repeat", str(arguments.repeat)]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        result = json.loads(line)
        if arguments.json:
            print(line.strip(), flush=True)
        else:
            print(
                f"{name:36}{result['allocations_per_s']:>15,}{result['asks_per_s']:>12,}{result['peak_rss_mb']:>10}",
                flush=True,
            )


if __name__ == "__main__":
    main()
