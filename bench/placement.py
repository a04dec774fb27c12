"""Measures how many GPUs the core fills: the protocol of "Beware of Fragmentation" (USENIX ATC 2023) on the openb
trace.

    python bench/placement.py [--data DIR] [--pods openb_pod_list_X.csv ...] [--policy fragmentation] [--seeds 42-51]
                              [--departures [--load 1.1]] [--json]

All goes through the core: an RM registers, reports the 1,213 nodes with GPUs and asks for one pod after the other;
after each ask there is a pass. A pod that is not placed at once is withdrawn, and none ever leaves. The pods of a list
come in random order; then pods drawn from it with replacement follow until they ask for 1.3 times the GPUs there are.
(A list that asks for more loses pods at random.) Node IDs are in random order, too. A pod that names GPU models is
placed where the RM's predicates allow it.

`allocated_100`, `allocated_130`: in per cent of all GPUs, when the pods that have come ask for 100 % and 130 % of them:
the mean of all moments that round to that, and of the seeds. `allocations_per_s`: of processor time, in another run, in
which all asks of the list are there before the passes. `published`: the best known heuristic (FGD) at 100 % and 130 %,
ten seeds, by the authors of the trace.

`--departures` measures a steady state instead: 30,000 pods drawn from the list come, each lives for a time that is
exponential, and so long in the mean that the pods ask for `--load` times all GPUs. `in_use`: the share of all GPUs in
use, in per cent, mean of the second half. Pods and their lives are the same for every policy, of a seed.

The lists are in `openb/` of --data, else of REMUDA_DATA, else of `../shared/data`: openb_node_list_gpu_node.csv and
openb_pod_list_*.csv of github hkust-adsl/kubernetes-scheduler-simulator. Without them nothing is measured, and the
output says so.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Final

from remuda_core.commands import (
    AnswerPredicates,
    Register,
    ReleaseAllocation,
    ReleaseAsk,
    Schedule,
    SubmitApplication,
    SubmitAsk,
    UpdateNode,
    Verdict,
)
from remuda_core.core import Core
from remuda_core.facts import Allocated, Ask, Fact, PredicatesAsked
from remuda_core.limits import ALLOCATIONS_PER_PASS
from remuda_core.rules.predicate_class import BATCH, CLASS_TAG
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings

PARTITION: Final = "[bench]default"
UNIT: Final = 1_000  # of a GPU
MARKS: Final = (100, 130)
MOST: Final = 1.3  # of all GPUs that pods ask for
ASKS_EVERY_MS: Final = 1_000
ARRIVALS: Final = 30_000  # of a run in which pods leave
NODES: Final = "openb_node_list_gpu_node.csv"
LIST, LISTS = "openb_pod_list_{}.csv", "openb_pod_list_*.csv"
# FGD at 100 and 130 %, by the name of the list.
PUBLISHED: Final = {
    "default": (95.23, 95.39), "cpu050": (95.00, 95.21), "cpu100": (95.21, 95.35), "cpu200": (94.82, 95.05),
    "cpu250": (93.20, 93.41), "gpushare40": (93.96, 94.15), "gpushare60": (91.25, 91.40),
    "gpushare80": (89.08, 89.30), "gpushare100": (86.64, 86.90), "gpuspec10": (94.66, 94.95),
    "gpuspec20": (94.66, 94.84), "gpuspec25": (93.91, 94.74), "gpuspec33": (87.84, 94.55),
    "multigpu20": (95.53, 95.65), "multigpu30": (96.36, 96.46), "multigpu40": (96.91, 96.99),
    "multigpu50": (97.09, 97.18),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GpuNode:
    cpu: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Pod:
    """`share`: of each of its `gpus`. `models`: those that it may run on, with | between them; empty: any."""

    cpu: int
    memory: int
    gpus: int
    share: int
    models: str

    @property
    def gpu(self) -> int:
        return self.gpus * self.share


def read_nodes(path: Path) -> list[GpuNode]:
    with path.open(newline="") as file:
        return [
            GpuNode(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(file)
        ]


def read_pods(path: Path) -> list[Pod]:
    with path.open(newline="") as file:
        return [
            Pod(
                int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]),
                min(int(row["gpu_milli"]), UNIT) if int(row["num_gpu"]) else 0,
                (row.get("gpu_spec") or "") if int(row["num_gpu"]) else "",
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def arrivals(pods: Sequence[Pod], capacity: int, random: Random) -> list[Pod]:
    order = random.sample(pods, len(pods))
    asked, most = sum(pod.gpu for pod in order), MOST * capacity
    while asked > most:
        asked -= order.pop(random.randrange(len(order))).gpu
    while asked < most:
        drawn = random.choice(pods)
        if asked + drawn.share > most:  # one GPU of a pod is compared, as in the original
            break
        asked += drawn.gpu
        order.append(drawn)
    return order


class Cluster:
    """An RM with the nodes, in random order, and one application."""

    def __init__(self, nodes: Sequence[GpuNode], policy: str, models: bool, random: Random) -> None:
        self.core, self.now_ms, self.asked = Core("bench"), 1_000_000, 0
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
        partition = PartitionSettings("default", root, policy, preemption_enabled=False, devices={"gpu": UNIT})
        declared = {"requires": "devices", **({"predicates": BATCH} if models else {})}
        self.models = {}
        self._handle(Register("bench", Configuration("placement", (partition,)), extra_config=declared))
        for number, node in enumerate(random.sample(nodes, len(nodes))):
            node_id = f"node-{number:04}"
            capacity = {"vcore": node.cpu, "memory": node.memory, "gpu": UNIT * node.gpus}
            self.models[node_id] = node.model
            self._handle(UpdateNode(PARTITION, node_id, "CREATE", capacity=capacity))
        self._handle(SubmitApplication(PARTITION, "app", "root.a", "alice"))

    def ask(self, pod: Pod) -> str:
        """Returns its key."""
        self.asked += 1
        key = f"pod-{self.asked}"
        need = {"vcore": pod.cpu, "memory": pod.memory, **({"gpu": pod.gpu} if pod.gpus else {})}
        tags = {"remuda/devices.gpu.count": str(pod.gpus)} if pod.gpus > 1 and pod.share < UNIT else {}
        self._handle(SubmitAsk(Ask(PARTITION, "app", key, need, tags={**tags, CLASS_TAG: pod.models or "any"})))
        return key

    def withdraw(self, key: str) -> None:
        self._handle(ReleaseAsk(PARTITION, "app", key))

    def release(self, uuid: str) -> None:
        self._handle(ReleaseAllocation(PARTITION, "app", uuid, 1))

    def pass_(self) -> list[Allocated]:
        """The RM answers what it is asked, and another pass follows."""
        allocated: list[Allocated] = []
        while True:
            facts = self._handle(Schedule(ALLOCATIONS_PER_PASS))
            allocated += [fact for fact in facts if type(fact) is Allocated]
            questions = [fact for fact in facts if isinstance(fact, PredicatesAsked)]
            for question in questions:
                self._answer(question)
            if not questions:
                return allocated

    def _answer(self, question: PredicatesAsked) -> None:
        wanted = question.tags[CLASS_TAG]
        verdicts = tuple(
            Verdict(node_id, "" if wanted == "any" or self.models[node_id] in wanted.split("|") else "another model")
            for node_id in question.node_ids
        )
        self._handle(AnswerPredicates(PARTITION, question.question, verdicts))

    def _handle(self, command: object) -> list[Fact]:
        return self.core.handle(command, self.now_ms)  # type: ignore[arg-type]


def filled(nodes: Sequence[GpuNode], pods: Sequence[Pod], policy: str, seed: int) -> dict[int, float]:
    """The allocated share of the GPUs in per cent, by the share that the pods which have come ask for."""
    random, capacity = Random(seed), UNIT * sum(node.gpus for node in nodes)
    cluster = Cluster(nodes, policy, any(pod.models for pod in pods), random)
    came = allocated = 0
    found: dict[int, list[float]] = {mark: [] for mark in MARKS}
    for pod in arrivals(pods, capacity, random):
        cluster.now_ms += ASKS_EVERY_MS
        came += pod.gpu
        key = cluster.ask(pod)
        if cluster.pass_():
            allocated += pod.gpu
        else:
            cluster.withdraw(key)
        mark = round(100 * came / capacity)
        if mark in found:
            found[mark].append(100 * allocated / capacity)
    return {mark: statistics.fmean(values) for mark, values in found.items()}


def in_use(nodes: Sequence[GpuNode], pods: Sequence[Pod], policy: str, seed: int, load: float) -> float:
    """The mean share of the GPUs in use, in per cent, in the second half of ARRIVALS. Pods live as long as makes them
    ask for `load` times all GPUs, in the mean and exponentially; one that is not placed at once is withdrawn."""
    random, capacity = Random(seed), UNIT * sum(node.gpus for node in nodes)
    cluster = Cluster(nodes, policy, any(pod.models for pod in pods), random)
    life = load * capacity / statistics.fmean(pod.gpu for pod in pods)  # in arrivals
    leaving: list[tuple[float, int, str, int]] = []
    used, samples = 0, []
    for now in range(ARRIVALS):
        cluster.now_ms += ASKS_EVERY_MS
        while leaving and leaving[0][0] <= now:
            _, _, uuid, amount = heappop(leaving)
            cluster.release(uuid)
            used -= amount
        pod, ends = random.choice(pods), now + random.expovariate(1 / life)
        key = cluster.ask(pod)
        if made := cluster.pass_():
            used += pod.gpu
            heappush(leaving, (ends, now, made[0].uuid, pod.gpu))
        else:
            cluster.withdraw(key)
        if now > ARRIVALS // 2:
            samples.append(100 * used / capacity)
    return statistics.fmean(samples)


def allocations_per_s(nodes: Sequence[GpuNode], pods: Sequence[Pod], policy: str) -> float:
    """All asks of the list are there before the first pass. The first pods teach the policy what work is like."""
    random = Random(0)
    cluster = Cluster(nodes, policy, any(pod.models for pod in pods), random)
    order = random.sample(pods, len(pods))
    for pod in order[: len(order) // 8]:
        cluster.ask(pod)
    cluster.pass_()
    cluster.now_ms += 100 * ASKS_EVERY_MS
    for _ in range(2):  # measures work, and builds the index by its prices
        cluster.pass_()
    for pod in order[len(order) // 8 :]:
        cluster.ask(pod)
    gc.collect()
    gc.freeze()
    began, allocated = time.process_time(), 0
    while made := cluster.pass_():
        allocated += len(made)
    took = time.process_time() - began
    gc.unfreeze()
    return allocated / took


def measure(folder: Path, name: str, policy: str, seeds: Sequence[int]) -> dict[str, object]:
    nodes, pods = read_nodes(folder / NODES), read_pods(folder / LIST.format(name))
    runs = [filled(nodes, pods, policy, seed) for seed in seeds]
    found = {f"allocated_{mark}": round(statistics.fmean(run[mark] for run in runs), 2) for mark in MARKS}
    speed = round(allocations_per_s(nodes, pods, policy))
    return {
        "pods": name,
        "policy": policy,
        "seeds": len(runs),
        **found,
        "allocations_per_s": speed,
        "published": PUBLISHED.get(name),
    }


def measure_departures(folder: Path, name: str, policy: str, seeds: Sequence[int], load: float) -> dict[str, object]:
    nodes, pods = read_nodes(folder / NODES), read_pods(folder / LIST.format(name))
    runs = [in_use(nodes, pods, policy, seed, load) for seed in seeds]
    found = round(statistics.fmean(runs), 2)
    return {"pods": name, "policy": policy, "seeds": len(runs), "load": load, "in_use": found}


def lists(folder: Path, chosen: Sequence[str]) -> Iterator[str]:
    for path in (Path(name) for name in chosen) if chosen else sorted(folder.glob(LISTS)):
        yield path.name.removeprefix("openb_pod_list_").removesuffix(".csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("REMUDA_DATA") or Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(default), help="directory that holds openb/")
    parser.add_argument("--pods", nargs="*", default=[], help="lists: openb_pod_list_default.csv, or default; all")
    parser.add_argument("--policy", default="fragmentation")
    parser.add_argument("--seeds", default="42-51", help="42, or 42-51")
    parser.add_argument("--departures", action="store_true", help="measure a steady state")
    parser.add_argument("--load", type=float, default=1.1, help="with --departures: of all GPUs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = options.data / "openb" if (options.data / "openb").is_dir() else options.data
    names = list(lists(folder, options.pods))
    missing = [file for file in (NODES, *map(LIST.format, names)) if not (folder / file).exists()]
    if missing or not names:
        print(f"nothing is measured: no {', '.join(missing or [LISTS])} in {folder}", file=sys.stderr)
        return
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    for name in names:
        if options.departures:
            found = measure_departures(folder, name, options.policy, seeds, options.load)
            text = f"{name:12} {found['in_use']:6} % in use, {len(seeds)} seeds, load {options.load}"
        else:
            found = measure(folder, name, options.policy, seeds)
            told = PUBLISHED.get(name)
            beside = f", published {told[0]} / {told[1]}" if told else ""
            text = (
                f"{name:12} {found['allocated_100']:6} / {found['allocated_130']:6} % allocated{beside}; "
                f"{found['allocations_per_s']:,} allocations/s"
            )
        print(json.dumps(found) if options.json else text, flush=True)


if __name__ == "__main__":
    main()
