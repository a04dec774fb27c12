"""Measures how well the core keeps gangs in racks: a cluster of racks, gangs and slices, by a Poisson process.

    python bench/topology.py [--load 0.85] [--seeds 3] [--jobs 4000] [--json]
    python bench/topology.py --waiting 500 [--kinds 1] [--json]

All goes through the core: an RM registers, reports 594 nodes of 4 GPUs (33 racks of 18 nodes, 3 blocks of 11 racks),
and asks for jobs as they come; after each change there is a pass. A job is one ask for a share of a node, a gang of
whole nodes in one rack (`required: rack`), or slices of 16 nodes, each in one rack, if possible all in one block
(`slice: rack/16`, `preferred: block`). Small work goes to racks that are broken already (`nodesortpolicy: {type:
binpacking, pack: topology}`). Jobs ask for `load` of all GPUs; the first tenth is not measured.

`in_one_domain`, `slices_whole`: in per cent of the gangs, and of the jobs in slices. `allocated_while_waiting`: in per
cent of all GPUs, over the time in which a job waits. `mean_wait_h`: of the gangs of at most a rack. Means of the seeds.

`--waiting`: how much CPU time passes take where so many groups ask at once for 2 to 16 nodes of one rack each, of
10,000 nodes in 600 racks, nine tenths of which are full. The groups want `kinds` different amounts. `longest_pass_ms`
until no more is placed, and `after_release_ms`, the longest of twenty passes after the release of one allocation each.

The protocol, and the random numbers of a seed, are those of `topology.py` in REMUDA_YARDSTICKS. Needs numpy, whose
random numbers they are; without it nothing is measured, and the output says so.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from remuda_core.commands import Register, ReleaseAllocation, Schedule, SubmitApplication, SubmitAsk, UpdateNode
from remuda_core.core import Core
from remuda_core.facts import Allocated, Ask, Fact
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, TopologyLevel
from remuda_proto.constants import TOPOLOGY_PREFERRED, TOPOLOGY_REQUIRED, TOPOLOGY_SLICE

PARTITION: Final = "[bench]default"
RACKS, NODES, GPUS, BLOCKS = 33, 18, 4, 3
ALL_GPUS: Final = RACKS * NODES * GPUS
# Medians of GPU jobs in Acme's cluster Kalos, ten times longer, so that jobs overlap.
MEDIAN_S, SIGMA, MOST_S = 1_240, 2.15, 2 * 86_400
MOST_PER_PASS: Final = 1_000


class Kind(NamedTuple):
    """A kind of job: its share of all jobs, GPUs, nodes, and how many nodes have to be in one rack."""

    share: float
    gpus: int
    nodes: int
    in_one: int


KINDS: Final = (
    Kind(0.53, 1, 1, 1), Kind(0.06, 2, 1, 1), Kind(0.13, 4, 1, 1), Kind(0.12, 16, 4, 4), Kind(0.05, 32, 8, 8),
    Kind(0.07, 64, 16, 16), Kind(0.01, 72, 18, 18), Kind(0.03, 256, 64, 16),
)  # fmt: skip


class Job(NamedTuple):
    comes_s: float
    kind: Kind
    lasts_s: float


def jobs(count: int, load: float, seed: int) -> list[Job]:
    import numpy as np

    rng = np.random.default_rng(seed)
    share = np.array([kind.share for kind in KINDS])
    kinds = rng.choice(len(KINDS), count, p=share / share.sum())
    lasts = np.minimum(rng.lognormal(np.log(MEDIAN_S), SIGMA, count), MOST_S)
    asked = sum(KINDS[kind].gpus * seconds for kind, seconds in zip(kinds, lasts, strict=True))
    comes = np.sort(rng.uniform(0, asked / (load * ALL_GPUS), count))
    return [
        Job(float(at), KINDS[int(kind)], float(seconds)) for at, kind, seconds in zip(comes, kinds, lasts, strict=True)
    ]


@dataclass
class Cluster:
    """An RM with the racks, and one application for each job."""

    core: Core = field(default_factory=lambda: Core("bench"))
    passes: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
        partition = PartitionSettings(
            "default", root, "binpacking", {"gpu": 1.0}, preemption_enabled=False, pack="topology",
            topology=(TopologyLevel("block", "block"), TopologyLevel("rack", "rack")),
        )  # fmt: skip
        self._handle(Register("bench", Configuration("topology", (partition,)), extra_config={"requires": "topology"}))
        for rack in range(RACKS):
            where = {"block": f"b{rack * BLOCKS // RACKS}", "rack": f"r{rack:02}"}
            for node in range(NODES):
                node_id = f"n{rack:02}-{node:02}"
                self._handle(UpdateNode(PARTITION, node_id, "CREATE", where, {"gpu": GPUS}))

    def submit(self, number: int, kind: Kind, now_ms: int) -> None:
        name = f"job-{number}"
        self._handle(SubmitApplication(PARTITION, name, "root.a", "alice"), now_ms)
        tags: dict[str, str] = {}
        if kind.nodes > NODES:
            tags = {TOPOLOGY_SLICE: f"rack/{kind.in_one}", TOPOLOGY_PREFERRED: "block"}
        elif kind.nodes > 1:
            tags = {TOPOLOGY_REQUIRED: "rack"}
        need = {"gpu": min(kind.gpus, GPUS)}
        self._handle(SubmitAsk(Ask(PARTITION, name, "k", need, max_allocations=kind.nodes, tags=tags)), now_ms)

    def release(self, number: int, now_ms: int) -> None:
        self._handle(ReleaseAllocation(PARTITION, f"job-{number}", "", 1, "over"), now_ms)

    def pass_(self, now_ms: int) -> dict[int, list[int]]:
        """The racks of what was allocated, by the number of the job."""
        found: dict[int, list[int]] = defaultdict(list)
        began = time.perf_counter()
        facts = self._handle(Schedule(MOST_PER_PASS), now_ms)
        self.passes.append(time.perf_counter() - began)
        for fact in facts:
            if isinstance(fact, Allocated):
                found[int(fact.application_id.removeprefix("job-"))].append(int(fact.node_id[1:3]))
        return found

    def _handle(self, command: object, now_ms: int = 0) -> list[Fact]:
        return self.core.handle(command, 1_000_000 + now_ms)  # type: ignore[arg-type]


@dataclass
class Measured:
    gangs: int = 0
    in_one: int = 0
    sliced: int = 0
    whole: int = 0
    waited_s: list[float] = field(default_factory=list)
    waiting_s: float = 0.0
    used: float = 0.0


def play(count: int, load: float, seed: int) -> dict[str, float]:
    todo, cluster, found = jobs(count, load, seed), Cluster(), Measured()
    half, stop = todo[count // 10].comes_s, todo[-1].comes_s
    ends: list[tuple[float, int]] = []
    waiting: dict[int, None] = {}
    at, used, now = 0, 0, 0.0
    while at < len(todo) or ends:
        then = min(todo[at].comes_s if at < len(todo) else float("inf"), ends[0][0] if ends else float("inf"))
        if then > stop:
            break
        if now > half and waiting:
            found.waiting_s += then - now
            found.used += (then - now) * used
        now = then
        while ends and ends[0][0] <= now:
            number = heapq.heappop(ends)[1]
            used -= todo[number].kind.gpus
            cluster.release(number, int(1000 * now))
        while at < len(todo) and todo[at].comes_s <= now:
            cluster.submit(at, todo[at].kind, int(1000 * now))
            waiting[at] = None
            at += 1
        for number, racks in cluster.pass_(int(1000 * now)).items():
            job = todo[number]
            assert len(racks) == job.kind.nodes, f"job {number} has started in part: {len(racks)} of {job.kind.nodes}"
            del waiting[number]
            used += job.kind.gpus
            heapq.heappush(ends, (now + job.lasts_s, number))
            if job.comes_s > half:
                note(found, job, racks, now)
    found.waited_s += [
        now - todo[number].comes_s
        for number in waiting
        if todo[number].comes_s > half and 1 < todo[number].kind.nodes <= NODES
    ]
    return {
        "in_one_domain": 100 * found.in_one / max(found.gangs, 1),
        "slices_whole": 100 * found.whole / max(found.sliced, 1),
        "allocated_while_waiting": 100 * found.used / max(found.waiting_s, 1) / ALL_GPUS,
        "mean_wait_h": statistics.fmean(found.waited_s) / 3600 if found.waited_s else 0.0,
        "longest_pass_ms": 1000 * max(cluster.passes),
    }


def note(found: Measured, job: Job, racks: list[int], now: float) -> None:
    if 1 < job.kind.nodes <= NODES:
        found.gangs += 1
        found.in_one += len(set(racks)) == 1
        found.waited_s.append(now - job.comes_s)
    elif job.kind.nodes > NODES:
        found.sliced += 1
        found.whole += not any(racks.count(rack) % job.kind.in_one for rack in set(racks))


def waiting(groups: int, kinds: int) -> dict[str, float]:
    core, now_ms = Core("bench"), 1_000_000
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
    partition = PartitionSettings(
        "default", root, "binpacking", {"gpu": 1.0}, preemption_enabled=False, pack="topology",
        topology=(TopologyLevel("block", "block"), TopologyLevel("rack", "rack")),
    )  # fmt: skip
    core.handle(Register("bench", Configuration("topology", (partition,))), now_ms)
    for node in range(10_000):
        rack = node * 600 // 10_000
        where = {"block": f"b{rack // 20:02}", "rack": f"r{rack:03}"}
        core.handle(UpdateNode(PARTITION, f"n{node:05}", "CREATE", where, {"gpu": 4, "cpu": 1_000}), now_ms)
    core.handle(SubmitApplication(PARTITION, "fill", "root.a", "alice"), now_ms)
    core.handle(SubmitAsk(Ask(PARTITION, "fill", "k", {"gpu": 1, "cpu": 1}, max_allocations=36_000)), now_ms)
    while any(isinstance(fact, Allocated) for fact in core.handle(Schedule(MOST_PER_PASS), now_ms)):
        pass
    for number in range(groups):
        name = f"group-{number:04}"
        core.handle(SubmitApplication(PARTITION, name, "root.a", "alice"), now_ms)
        need, tags = {"gpu": GPUS, "cpu": 1 + number % kinds}, {TOPOLOGY_REQUIRED: "rack"}
        core.handle(SubmitAsk(Ask(PARTITION, name, "k", need, max_allocations=2 + number % 15, tags=tags)), now_ms)
    gc.collect()
    gc.freeze()
    passes = [pass_ms(core, now_ms)]
    while core.index.unfinished:
        passes.append(pass_ms(core, now_ms))
    after = []
    for uuid in list(core.state.partitions[PARTITION].applications["fill"].allocations)[: 20 * 37 : 37]:
        core.handle(ReleaseAllocation(PARTITION, "fill", uuid, 1, "over"), now_ms)
        after.append(pass_ms(core, now_ms))
    started = len(core.state.partitions[PARTITION].allocations) - 36_000 + len(after)
    return {
        "groups": groups, "kinds": kinds, "passes": len(passes), "longest_pass_ms": round(max(passes), 1),
        "after_release_ms": round(max(after), 1), "members_started": started,
    }  # fmt: skip


def pass_ms(core: Core, now_ms: int) -> float:
    """CPU time: other processes may be busy."""
    began = time.process_time()
    core.handle(Schedule(MOST_PER_PASS), now_ms)
    return 1000 * (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=4_000)
    parser.add_argument("--waiting", type=int, default=0)
    parser.add_argument("--kinds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.waiting:
        times = waiting(options.waiting, options.kinds)
        print(json.dumps(times) if options.json else ", ".join(f"{name} {value}" for name, value in times.items()))
        return
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("nothing is measured: numpy is not installed", file=sys.stderr)
        return
    gc.freeze()
    runs = [play(options.jobs, options.load, seed) for seed in range(options.seeds)]
    means = {name: round(statistics.fmean(run[name] for run in runs), 2) for name in runs[0]}
    found = {"load": options.load, "seeds": options.seeds, **means}
    if options.json:
        print(json.dumps(found), flush=True)
    else:
        print(
            f"load {options.load}: {found['in_one_domain']} % of gangs in one rack, {found['slices_whole']} % of "
            f"slices whole, {found['allocated_while_waiting']} % allocated while a job waits, gangs wait "
            f"{found['mean_wait_h']} h, longest pass {found['longest_pass_ms']} ms"
        )


if __name__ == "__main__":
    main()
