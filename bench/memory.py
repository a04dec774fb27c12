"""The effect of memory on the users of a log, and its cost.

    python bench/memory.py LOG.swf[.gz] [--json]     EASY with the estimates of users
    python bench/memory.py --speed                   what a half-life costs each allocation; passes

The first plays a log in Standard Workload Format. The core has the users' accounts and says which job is next; a
simulator of EASY (`REMUDA_YARDSTICKS`) says which job may start. Means are over jobs, and over users, each of whom
counts once.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import Allocated, Ask
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.state import PendingAsk
from remuda_replication.process import GC_THRESHOLDS

RM = "rm-1"
PARTITION = f"[{RM}]default"
LEAF = "root.users"
# (name, half-life, patience in hours); None: applications by age; "": users by what they use now.
ORDERS: tuple[tuple[str, str | None, int], ...] = (
    ("arrival", None, 0),
    ("present use", "", 0),
    ("half-life 1 h", "1h", 0),
    ("half-life 1 d", "24h", 0),
    ("half-life 7 d", "168h", 0),
    ("half-life 30 d", "720h", 0),
    *((f"7 d, patience {hours} h", "168h", hours) for hours in (12, 24, 48, 96)),
)


class World:
    """A core with one node and one leaf queue, whose users wait for processors."""

    def __init__(self, procs: int, half_life: str | None, patience: int) -> None:
        self.core, self.now_ms = Core(RM), 0
        properties = {"application.sort.policy": "fifo" if half_life is None else "fair-users"}
        if half_life:
            properties |= {"fair.half-life": half_life, "fair.patience": f"{patience}h" if patience else "0"}
        leaf = QueueSettings("users", properties=properties)
        root = QueueSettings("root", parent=True, queues=(leaf,), submit_acl="*")
        self.handle(commands.Register(RM, Configuration("1", (PartitionSettings("default", root),))))
        self.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"cpu": procs}))
        self.partition = self.core.state.partitions[PARTITION]
        self.index = self.core.index.of(self.core.state, self.partition)

    def handle(self, command: commands.Command) -> None:
        self.core.handle(command, self.now_ms)

    def submit(self, name: str, user: str, procs: int) -> None:
        self.handle(commands.SubmitApplication(PARTITION, name, LEAF, user))
        self.handle(commands.SubmitAsk(Ask(PARTITION, name, "k", {"cpu": procs})))

    def begin(self, name: str, procs: int) -> None:
        """The job starts where the simulator has placed it."""
        self.handle(commands.RecoverAllocation(Allocated(PARTITION, name, "k0", f"u-{name}", "n1", {"cpu": procs})))
        self.handle(commands.ReleaseAsk(PARTITION, name, "k"))

    def end(self, name: str) -> None:
        self.handle(commands.ReleaseAllocation(PARTITION, name, f"u-{name}"))
        self.handle(commands.RemoveApplication(PARTITION, name))

    def order(self, names: list[str]) -> dict[str, int]:
        """The place of each waiting job, as the core ranks their asks at this moment."""
        self.index.begin_pass(self.now_ms, 0, 10**9)
        asks = [self.partition.applications[name].asks["k"] for name in names]
        late: dict[PendingAsk, int] = {entry[-1]: place for place, entry in enumerate(self.index.late_asks.late)}
        asks.sort(key=lambda ask: (0, late[ask]) if ask in late else (1, *self.index.ask_rank(ask)))
        return {ask.application.id: place for place, ask in enumerate(asks)}


def policy_of(backfill: Any, world: World) -> type[Any]:
    class Ranked(backfill.Easy):  # type: ignore[misc]
        """EASY that takes the order of its queue from the core."""

        def submit(self, now: int, job: Any) -> None:
            world.now_ms = now * 1_000
            world.submit(str(job.number), f"user-{job.user}", job.procs)
            super().submit(now, job)

        def begin(self, now: int, job: Any) -> Any:
            world.begin(str(job.number), job.procs)
            return super().begin(now, job)

        def freed(self, now: int, job: Any) -> None:
            world.now_ms = now * 1_000
            world.end(str(job.number))
            super().freed(now, job)

        def start(self, now: int) -> Any:
            world.now_ms = now * 1_000
            if len(self.queue) > 1:
                places = world.order([str(job.number) for job in self.queue])
                self.queue.sort(key=lambda job: places[str(job.number)])
                self.idle = False
            return super().start(now)

    return Ranked


def play(log: str, half_life: str | None, patience: int) -> dict[str, float]:
    backfill = importlib.import_module("backfill")
    jobs, procs = backfill.read(log)
    world = World(procs, half_life, patience)
    backfill.simulate(jobs, procs, policy_of(backfill, world)(procs), backfill.Estimate())
    by_user: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    area: defaultdict[int, int] = defaultdict(int)
    for job in jobs:
        wait = job.start - job.submit
        by_user[job.user].append((max(1.0, (wait + job.run) / max(job.run, 10)), wait))
        area[job.user] += job.run * job.procs
    heavy = set(sorted(area, key=area.__getitem__)[-10:])
    means = sorted(statistics.mean(slow for slow, _ in rows) for rows in by_user.values())
    waits = {
        among: [wait for user in by_user if (user in heavy) == among for _, wait in by_user[user]]
        for among in (True, False)
    }
    return {
        "slowdown": statistics.mean(slow for rows in by_user.values() for slow, _ in rows),
        "users_mean": statistics.mean(means),
        "users_median": statistics.median(means),
        "users_90": means[int(0.9 * len(means))],
        "wait_heavy_s": statistics.mean(waits[True]),
        "wait_others_s": statistics.mean(waits[False]),
        "longest_wait_h": max(wait for rows in by_user.values() for _, wait in rows) / 3_600,
    }


# Speed


def settle_memory() -> None:
    """Collect garbage as every service does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def cluster(queues: int, users: int, properties: dict[str, str], nodes: int = 500) -> Core:
    core = Core(RM)
    leaves = tuple(QueueSettings(f"q{number}", properties=properties) for number in range(queues))
    root = QueueSettings("root", parent=True, queues=leaves, submit_acl="*", properties=properties)
    core.handle(commands.Register(RM, Configuration("1", (PartitionSettings("default", root),))), 0)
    for number in range(nodes):
        capacity = {"vcore": 1_000_000, "memory": 10**15}
        core.handle(commands.UpdateNode(PARTITION, f"n{number}", "CREATE", capacity=capacity), 0)
    for queue in range(queues):
        for user in range(users):
            name = f"app-{queue}-{user}"
            core.handle(commands.SubmitApplication(PARTITION, name, f"root.q{queue}", f"user-{user}"), 0)
    return core


def speed(policy: str, rounds: int = 20, each: int = 5_000, apart_ms: int = 100) -> dict[str, float]:
    """Microseconds of the processor for each allocation without and with a half-life, and which part of the allocations
    a second that costs: 1,000 queues with 20 users each, all of whom wait. The two take turns, so that what else the
    machine does slows both; the part is the median of pairs. Passes follow each other, as in a core with much to do."""
    plain = {"application.sort.policy": policy}
    cores = [cluster(1_000, 20, properties) for properties in (plain, {**plain, "fair.half-life": "1h"})]
    for core in cores:
        for name in core.state.partitions[PARTITION].applications:
            core.handle(commands.SubmitAsk(Ask(PARTITION, name, "k", {"vcore": 1, "memory": 10**9}, 1_000)), 0)
        for _ in range(8):
            core.handle(commands.Schedule(each), 1_000)
    settle_memory()
    took: tuple[list[float], list[float]] = ([], [])
    now_ms = 2_000
    for number in range(rounds):
        for at in (0, 1) if number % 2 else (1, 0):
            begun, made = time.process_time(), 0
            for step in range(4):
                facts = cores[at].handle(commands.Schedule(each), now_ms + step * apart_ms)
                made += sum(isinstance(fact, Allocated) for fact in facts)
            took[at].append((time.process_time() - begun) / made * 1e6)
        now_ms += 4 * apart_ms
    cost = statistics.median(1 - present / past for present, past in zip(*took, strict=True))
    present, past = map(statistics.median, took)
    return {"present_us": round(present, 1), "half_life_us": round(past, 1), "cost": round(cost, 3)}


def passes(accounts: int = 100_000) -> dict[str, float]:
    """The passes with so many users, who wait and most of whom have used something, half a second apart."""
    users = 1_000
    properties = {"application.sort.policy": "fair-users", "fair.half-life": "1h"}
    core = cluster(accounts // users, users, properties, nodes=100)
    now, took, made = 0, list[float](), 0
    for name in core.state.partitions[PARTITION].applications:
        core.handle(commands.SubmitAsk(Ask(PARTITION, name, "k", {"vcore": 1, "memory": 10**6}, 1_000)), now)
    settle_memory()
    for _ in range(190):
        now += 500
        begun = time.process_time()
        facts = core.handle(commands.Schedule(2_000), now)
        took.append((time.process_time() - begun) * 1_000)
        made += sum(isinstance(fact, Allocated) for fact in facts)
    rest = sorted(took[accounts // 2_000 + 10 :])
    return {
        "accounts": len(core.state.accounts), "allocations": made, "median_ms": rest[len(rest) // 2],
        "of_a_hundred_ms": rest[-1 - len(rest) // 100], "longest_ms": rest[-1],
    }  # fmt: skip


def rows(log: str) -> Iterator[tuple[str, dict[str, float]]]:
    for name, half_life, patience in ORDERS:
        yield name, play(log, half_life, patience)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", nargs="?")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.speed:
        for policy in ("fair-users", "fair"):
            print(json.dumps({"policy": policy, **speed(policy)}))
        print(json.dumps(passes()))
        return
    yardsticks = Path(os.environ.get("REMUDA_YARDSTICKS", Path(__file__).parents[2] / "shared" / "yardsticks"))
    if options.log is None or not (yardsticks / "backfill.py").exists():
        parser.error(
            f"expected LOG, and the simulator backfill.py in {yardsticks} (REMUDA_YARDSTICKS names another directory)"
        )
    sys.path.insert(0, str(yardsticks))
    for name, found in rows(options.log):
        if options.json:
            print(json.dumps({"order": name, **found}), flush=True)
        else:
            print(f"{name:22}" + "".join(f"{value:10.2f}" for value in found.values()), flush=True)


if __name__ == "__main__":
    main()
