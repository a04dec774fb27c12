"""Measures the core alone: no bus, no disk, one thread, as the reference scheduler's own benchmark does.

    python bench/core.py [--json] [--case NAME ...] [--kind uniform|mixed] [--repeat N] [--data DIR]

Each case runs in a process of its own. Nodes are just large enough for the asks; each ask wants memory 10 and vcore 1.
The median of the repetitions counts. --json prints one object per case. There are four kinds of cases:

at once     all asks are there before the first is placed. Measured is the time in which the core takes them in
            (`asks_per_s`) and then decides all allocations (`allocations_per_s`), with its index, as a leader has it.
behind      the same, while many other asks wait that cannot be placed.
full        the cluster is full and asks wait; allocations are released one by one, and after each the core schedules.
            `allocations_per_s` is how many such rounds it makes, each with one decision.
mixed       nodes and asks of a production trace (`openb/` in --data, else in REMUDA_DATA, else in `../shared/data`;
            `mix` says whether it was generated for want of a trace) or of random kinds, one application for each queue,
            asks dealt to queues at random; what has no room stays pending. `churn`: the cluster is full and asks of the
            mix wait; each round is a release, an ask and a pass. `ratio`: to the uniform case of the same run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from remuda_core.commands import (
    Command,
    Register,
    ReleaseAllocation,
    Schedule,
    SubmitApplication,
    SubmitAsk,
    UpdateNode,
)
from remuda_core.core import Core
from remuda_core.facts import STOPPED_BY_RM, Allocated, Ask, Fact
from remuda_core.limits import ALLOCATIONS_PER_PASS
from remuda_core.settings import Configuration, Limit, PartitionSettings, QueueSettings

sys.path.append(str(Path(__file__).parents[1]))
from bench.mix import DATA, MIXES, WEIGHTS

PARTITION = "[bench]default"
Need = dict[str, int]
NEED: Need = {"memory": 10, "vcore": 1}
NO_TAGS: dict[str, str] = {}  # one for all asks, as they come from the wire


@dataclass(frozen=True)
class Case:
    name: str
    nodes: int
    asks: int
    queues: int = 2
    applications: int = 1  # per queue
    node_sort: str = "fair"
    pack: str = ""
    repeats: int = 1  # maxAllocations of each ask
    behind: str = ""  # which asks wait that cannot be placed: a key of STUCK
    stuck: int = 0  # how many
    full: str = ""  # which asks wait for releases on a full cluster: a key of WAITING
    waiting: int = 0  # how many
    releases: int = 0
    preempting: int = 0  # so many asks of one queue have to preempt what runs in the other
    limited: bool = False  # each application is another user's, and each user may have no more than he asks for
    mix: str = ""  # which nodes and asks: a key of MIXES; `nodes` and `asks` are those of the mix then
    rounds: int = 0  # of churn


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
        Case("10000 nodes, packed", 10_000, 50_000, pack="application"),
        Case("500 nodes, one ask per application", 500, 10_000, repeats=5_000),
        Case("10000 nodes, 1000 queues", 10_000, 100_000, queues=1_000, applications=20),
        Case("5000 nodes, limits on 1000 users", 5_000, 50_000, applications=500, limited=True),
        Case("1000 asks", 1_000, 1_000),
        Case("1000 asks behind 100000 too large", 1_000, 1_000, behind="too large", stuck=100_000),
        Case("1000 asks behind 100000 sizes", 1_000, 1_000, behind="too large, all different", stuck=100_000),
        Case("1000 asks behind 100000 over quota", 1_000, 1_000, behind="over the maximum", stuck=100_000),
        Case("full, 1000 wait", 1_000, 10_000, full="all alike", waiting=1_000, releases=1_000),
        Case("full, 50000 wait", 1_000, 10_000, full="all alike", waiting=50_000, releases=1_000),
        Case("full, 50000 wait, 100 queues", 1_000, 10_000, 100, full="all alike", waiting=50_000, releases=1_000),
        Case("full, 1000 sizes wait", 1_000, 10_000, full="all different", waiting=1_000, releases=1_000),
        Case("full, 10000 sizes wait", 1_000, 10_000, full="all different", waiting=10_000, releases=1_000),
        Case("preemption", 5_000, 50_000, preempting=100),
        Case("100000 nodes, 1000000 asks", 100_000, 1_000_000, queues=100, applications=10),
    )
}
UNIFORM = "5000 nodes"  # that mixed cases are compared with
MIXED = {
    case.name: case
    for case in (
        *(
            Case(f"{mix}, {queues} queues, {node_sort}", 0, 0, queues=queues, node_sort=node_sort, mix=mix)
            for mix, queues in (
                ("production", 2),
                ("production x4", 100),
                ("production x8", 1_000),
                ("5000 nodes of 60 kinds, 20000 shapes", 2),
                ("1000 nodes of 20 kinds, 10000 shapes", 2),
            )
            for node_sort in ("fair", "binpacking")
        ),
        Case("production, churn, 2 queues", 0, 0, mix="production", waiting=10_000, rounds=100_000),
        Case("production, churn, 100 queues", 0, 0, 100, mix="production", waiting=10_000, rounds=100_000),
    )
}
KINDS = {"uniform": CASES, "mixed": MIXED}

# The need of the i-th ask that is never placed: more than a node has, or more than its queue may have.
STUCK: dict[str, Callable[[Case, int], Need]] = {
    "too large": lambda case, i: {"memory": 10 * slots(case) + 1, "vcore": 1},
    "too large, all different": lambda case, i: {"memory": 10 * slots(case) + 1 + i, "vcore": 1},
    "over the maximum": lambda case, i: {"memory": 10, "vcore": case.asks + 1},
}
# The need of the i-th ask that waits for a release of NEED: all of that, or a little less, each ask another amount.
WAITING: dict[str, Callable[[int], Need]] = {
    "all alike": lambda i: NEED,
    "all different": lambda i: {"memory": 10, "vcore": 1, "ephemeral-storage": 1 + i},
}


def configuration(case: Case) -> Configuration:
    share = case.asks // case.queues
    guaranteed = {"memory": 10 * share, "vcore": share}
    maximum = {"vcore": case.asks} if case.behind == "over the maximum" else {}
    each = case.asks // case.queues // case.applications
    limits = (Limit(("*",), max_resources={"memory": 10 * each, "vcore": each}),) if case.limited else ()
    queues = tuple(QueueSettings(name, guaranteed=guaranteed, max=maximum, limits=limits) for name in queue_names(case))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    return Configuration("", (PartitionSettings("default", root, node_sort=case.node_sort, pack=case.pack),))


def queue_names(case: Case) -> list[str]:
    return ["a", "b"] if case.queues == 2 else [f"queue-{i:03}" for i in range(case.queues)]


def cluster(case: Case) -> Iterator[Command]:
    capacity = {"memory": 10 * slots(case), "vcore": slots(case)}
    if case.behind == "over the maximum":
        capacity["vcore"] = 2 * case.asks
    if case.full:
        capacity["ephemeral-storage"] = 1_000_000
    yield Register("bench", configuration(case))
    for i in range(case.nodes):
        yield UpdateNode(PARTITION, f"node-{i:05}", "CREATE", capacity=capacity)
    for queue in queue_names(case):
        for i in range(case.applications):
            yield SubmitApplication(PARTITION, f"{queue}-app-{i}", f"root.{queue}", f"user-{queue}-{i}")


def slots(case: Case) -> int:
    """How many asks have room on a node."""
    return -(-case.asks // case.nodes)


def asks(case: Case) -> Iterator[Command]:
    """One application after the other, each with all of its asks."""
    applications = applications_of(case)
    count = case.asks // case.repeats
    for i in range(count):
        application = applications[i * len(applications) // count]
        yield SubmitAsk(Ask(PARTITION, application, f"ask-{i:06}", NEED, case.repeats, tags=NO_TAGS))


def more_asks(case: Case, key: str, count: int, need: Callable[[int], Need]) -> Iterator[Command]:
    """Application by application in turn."""
    applications = applications_of(case)
    for i in range(count):
        yield SubmitAsk(Ask(PARTITION, applications[i % len(applications)], f"{key}-{i:06}", need(i)))


def applications_of(case: Case) -> list[str]:
    return [f"{queue}-app-{i}" for queue in queue_names(case) for i in range(case.applications)]


def run(case: Case) -> dict[str, float]:
    gc.unfreeze()  # of the run before
    gc.collect()
    core = Core("bench")
    if case.mix:
        return run_mixed(case, core)
    handle(core, cluster(case))
    schedule(core)  # builds the index
    if case.behind:
        handle(core, more_asks(case, "stuck", case.stuck, lambda i: STUCK[case.behind](case, i)))
        assert schedule(core) == 0, "what is stuck was placed"
    if case.full:
        return run_full(case, core)
    if case.preempting:
        return run_preemption(case, core)
    commands = list(asks(case))
    settle_memory()
    started = time.perf_counter()
    handle(core, commands)
    asked = time.perf_counter()
    passes = timed_passes(core)
    allocated = core.state.next_allocation
    assert allocated == case.asks, f"{allocated} of {case.asks} were allocated"
    return {
        "asks_per_s": len(commands) / (asked - started),
        "allocations_per_s": allocated / sum(passes),
        "longest_pass_ms": 1_000 * max(passes),
    }


def run_full(case: Case, core: Core) -> dict[str, float]:
    handle(core, asks(case))
    assert schedule(core) == case.asks, "the cluster has room for all of these"
    handle(core, more_asks(case, "waiting", case.waiting, WAITING[case.full]))
    assert schedule(core) == 0, "the cluster was not full"
    allocations = list(core.state.partitions[PARTITION].allocations.values())
    released = [each.fact for each in allocations[:: len(allocations) // case.releases]][: case.releases]
    commands = [ReleaseAllocation(PARTITION, each.application_id, each.uuid, STOPPED_BY_RM, "") for each in released]
    settle_memory()
    started = time.perf_counter()
    for command in commands:
        core.handle(command, 0)
        assert schedule(core) == 1, "a release lets one in"
    return {"allocations_per_s": case.releases / (time.perf_counter() - started)}


def run_preemption(case: Case, core: Core) -> dict[str, float]:
    """One queue has the whole cluster; each ask of the other takes four allocations of it. Counted are the asks."""
    for i in range(case.asks):
        ask = Ask(PARTITION, "a-app-0", f"ask-{i:06}", NEED, allow_preempt_self=True, allow_preempt_other=False)
        core.handle(SubmitAsk(ask), 0)
    assert schedule(core) == case.asks, "the cluster has room for all of these"
    need = {name: 4 * amount for name, amount in NEED.items()}
    for i in range(case.preempting):
        ask = Ask(PARTITION, "b-app-0", f"claim-{i:06}", need, allow_preempt_self=False, allow_preempt_other=True)
        core.handle(SubmitAsk(ask), 0)
    partition = core.state.partitions[PARTITION]
    core.handle(Schedule(ALLOCATIONS_PER_PASS), 0)
    settle_memory()
    started = time.perf_counter()
    while len(partition.preemptions) < case.preempting:
        core.handle(Schedule(ALLOCATIONS_PER_PASS), 60_000)
    return {"allocations_per_s": case.preempting / (time.perf_counter() - started)}


def run_mixed(case: Case, core: Core) -> dict[str, float]:
    mix, random = MIXES[case.mix](), Random(1)
    applications = applications_of(case)
    queues = tuple(QueueSettings(name) for name in queue_names(case))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    partition = PartitionSettings("default", root, node_sort=case.node_sort, resource_weights=WEIGHTS)
    core.handle(Register("bench", Configuration("", (partition,))), 0)
    for i, capacity in enumerate(mix.nodes):
        core.handle(UpdateNode(PARTITION, f"node-{i:05}", "CREATE", capacity=capacity), 0)
    for queue, application in zip(queue_names(case), applications, strict=True):
        core.handle(SubmitApplication(PARTITION, application, f"root.{queue}", "user"), 0)
    schedule(core)  # builds the index
    needs = mix.asks + random.choices(mix.asks, k=case.waiting)
    commands = [
        SubmitAsk(Ask(PARTITION, random.choice(applications), f"ask-{i:06}", need, tags=NO_TAGS))
        for i, need in enumerate(needs)
    ]
    settle_memory()
    started = time.perf_counter()
    handle(core, commands)
    asked = time.perf_counter()
    passes = timed_passes(core)
    allocated = core.state.next_allocation
    if case.rounds:
        return run_churn(case, core, random, mix.asks)
    return {
        "nodes": len(mix.nodes),
        "asks": len(commands),
        "allocated": allocated,
        "asks_per_s": len(commands) / (asked - started),
        "allocations_per_s": allocated / sum(passes),
        "longest_pass_ms": 1_000 * max(passes),
    }


def timed_passes(core: Core) -> list[float]:
    """Seconds of each pass, until there is nothing left to do."""
    passes = []
    facts: list[Fact] | None = None
    while facts is None or facts or core.index.unfinished:
        started = time.perf_counter()
        facts = core.handle(Schedule(ALLOCATIONS_PER_PASS), 0)
        passes.append(time.perf_counter() - started)
    return passes


def run_churn(case: Case, core: Core, random: Random, needs: list[Need]) -> dict[str, float]:
    """Each round is a release and an ask, and a pass."""
    partition, applications = core.state.partitions[PARTITION], applications_of(case)
    running = [allocation.fact for allocation in partition.allocations.values()]
    settle_memory()
    before, longest, taken = core.state.next_allocation, 0.0, 0.0
    for i in range(case.rounds):
        at = random.randrange(len(running))
        running[at], running[-1] = running[-1], running[at]
        gone = running.pop()
        ask = Ask(PARTITION, random.choice(applications), f"new-{i:06}", random.choice(needs), tags=NO_TAGS)
        started = time.perf_counter()
        core.handle(ReleaseAllocation(PARTITION, gone.application_id, gone.uuid, STOPPED_BY_RM, ""), 0)
        core.handle(SubmitAsk(ask), 0)
        asked = time.perf_counter()
        facts = core.handle(Schedule(ALLOCATIONS_PER_PASS), 0)
        ended = time.perf_counter()
        taken += ended - started
        longest = max(longest, ended - asked)
        running += [fact for fact in facts if isinstance(fact, Allocated)]
    return {
        "nodes": len(partition.nodes),
        "asks": sum(len(application.asks) for application in partition.applications.values()),
        "allocated": core.state.next_allocation - before,
        "allocations_per_s": case.rounds / taken,
        "longest_pass_ms": 1_000 * longest,
    }


def handle(core: Core, commands: Iterable[Command]) -> None:
    for command in commands:
        core.handle(command, 0)


def schedule(core: Core) -> int:
    """Until there is nothing left to do. Returns the number of allocations."""
    before = core.state.next_allocation
    while core.handle(Schedule(ALLOCATIONS_PER_PASS), 0) or core.index.unfinished:
        pass
    return core.state.next_allocation - before


def settle_memory() -> None:
    """Keep the garbage collector from examining earlier objects during the measured time."""
    gc.collect()
    gc.freeze()


def measure(case: Case, repeat: int) -> dict[str, object]:
    gc.set_threshold(100_000, 50, 50)  # as every service does
    runs = [run(case) for _ in range(repeat)]
    medians = {key: round(statistics.median(one[key] for one in runs)) for key in runs[0]}
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    about = {"case": case.name, "nodes": case.nodes, "asks": case.asks, "peak_rss_mb": round(peak_mb, 1)}
    return {**about, **medians, **({"mix": MIXES[case.mix]().source} if case.mix else {})}


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the core alone")
    parser.add_argument("--json", action="store_true", help="one JSON object per case")
    parser.add_argument("--case", action="append", choices={**CASES, **MIXED}, help="only this one; may be repeated")
    parser.add_argument("--kind", choices=KINDS, help="only cases of this kind")
    parser.add_argument("--repeat", type=int, default=3, help="the median of so many runs (default 3)")
    parser.add_argument("--data", metavar="DIR", help="the directory that holds openb/, of mixed cases")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.update({DATA: arguments.data} if arguments.data else {})
    kinds = [cases for kind, cases in KINDS.items() if arguments.kind in (None, kind)]
    names = arguments.case or [name for cases in kinds for name in cases]
    if arguments.here:
        print(json.dumps(measure({**CASES, **MIXED}[names[0]], arguments.repeat)))
        return
    if any(name in MIXED for name in names):
        names = [UNIFORM, *(name for name in names if name != UNIFORM)]
    if not arguments.json:
        print(f"{'case':56}{'allocations/s':>15}{'ratio':>8}{'longest pass, ms':>18}{'asks/s':>12}{'peak MB':>10}")
    uniform = 0
    for name in names:
        command = [sys.executable, __file__, "--here", "--case", name, "--repeat", str(arguments.repeat)]
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        uniform = result["allocations_per_s"] if name == UNIFORM else uniform
        if name in MIXED:
            result["ratio"] = round(result["allocations_per_s"] / uniform, 3)
        print(json.dumps(result) if arguments.json else row(result), flush=True)


def row(result: dict[str, Any]) -> str:
    cells = [f"{result[key]:,}" if key in result else "–" for key in ("longest_pass_ms", "asks_per_s", "peak_rss_mb")]
    columns = f"{result.get('ratio', '–'):>8}{cells[0]:>18}{cells[1]:>12}{cells[2]:>10}"
    return f"{result['case']:56}{result['allocations_per_s']:>15,}{columns}"


if __name__ == "__main__":
    main()
