"""Plays a log in Standard Workload Format through the core under backfill policies, in virtual time.

    python bench/backfill.py LOG.swf[.gz] [--policies easy,sjbf,…] [--limit N] [--json]

All goes through the core: an RM registers one node of as many processors as the log's machine has (`MaxProcs`), submits
an application with one ask for each job when the log does, and releases its allocation when the job has run. After each
event there is a pass. The partition has one queue and `backfill: {policy: easy}`. A job needs the processors that were
requested; its bound (`execution_timeout_ms`) is what the policy plans with.

    fcfs             no backfill; the head waits on the whole node
    easy             in the order of arrival, planned with the estimate of the user
    sjbf             the same, candidates by the shortest estimate (`backfill: {order: shortest}`)
    safe             candidates by what the core expects: the median of the user's last runs; checked with estimates
    …-double         planned with twice the estimate
    …-actual         planned with the actual run time (clairvoyant)

Per policy: mean flow time (wait and run) in s, mean bounded slowdown max(1, (wait + run) / max(run, 10 s)), and `late`,
the share of jobs with a promise that started later than first promised. Jobs without run time, processors or estimate
are left out, and run times are cut at the estimate. README.md has the numbers to compare with.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import heapq
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from remuda_core.commands import Register, ReleaseAllocation, Schedule, SubmitApplication, SubmitAsk, Tick, UpdateNode
from remuda_core.core import Core, next_tick_ms
from remuda_core.facts import Allocated, Ask, Fact, NodeReserved, PromiseChanged
from remuda_core.settings import EASY, SHORTEST, Configuration, PartitionSettings, QueueSettings, Timing
from remuda_proto.constants import EXPECTED_RUNTIME

PARTITION: Final = "[bench]default"
POLICIES: Final = ("easy", "easy-double", "easy-actual", "sjbf", "sjbf-double", "sjbf-actual", "safe")
MOST_PER_PASS: Final = 1_000
# An ask may reserve a node after 1 ms, the shortest delay there is: it is submitted so much before the pass.
DELAY_MS: Final = 1
BEGIN_MS: Final = 1_000_000
SLOWDOWN_BOUND_S: Final = 10
# Events of one time: jobs that end at their bound, jobs that come, jobs that end early.
BOUND, SUBMIT, END = 0, 1, 2


class Job(NamedTuple):
    number: int
    submit_s: int
    run_s: int
    procs: int
    estimate_s: int
    user: str


def read(path: Path, limit: int = 0) -> tuple[list[Job], int]:
    """The jobs and the processors of a log."""
    jobs, machine = list[Job](), 0
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="latin-1") as lines:
        for line in lines:
            if line.startswith(";"):
                machine = int(line.split(":")[1]) if "MaxProcs:" in line else machine
                continue
            fields = line.split()
            if len(fields) < 12:
                continue
            number, submit, run, used, wanted, estimate, user = (
                int(float(fields[at])) for at in (0, 1, 3, 4, 7, 8, 11)
            )
            used, wanted = used if used > 0 else wanted, wanted if wanted > 0 else used
            if used <= 0 or run <= 0 or estimate <= 0 or submit < 0 or (machine and max(used, wanted) > machine):
                continue
            jobs.append(Job(number, submit, min(run, estimate), wanted, estimate, f"user{user}"))
            if limit and len(jobs) == limit:
                break
    return jobs, machine


class Policy(NamedTuple):
    """`plan_s`: the bound of a job. `learnt`: the core learns what to expect; else it is told to expect the bound."""

    backfill: str
    order: str
    plan_s: Callable[[Job], int]
    learnt: bool = False


def policy_of(name: str) -> Policy:
    kind, _, plan = name.partition("-")
    plans: dict[str, Callable[[Job], int]] = {
        "": lambda job: job.estimate_s, "double": lambda job: 2 * job.estimate_s, "actual": lambda job: job.run_s,
    }  # fmt: skip
    kinds = {"fcfs": ("", ""), "easy": (EASY, ""), "sjbf": (EASY, SHORTEST), "safe": (EASY, SHORTEST)}
    if kind not in kinds or plan not in plans:
        sys.exit(f"policy {name!r}: expected one of fcfs, {', '.join(POLICIES)}")
    return Policy(*kinds[kind], plans[plan], kind == "safe")


@dataclass
class Machine:
    """An RM with one node, and the events of a log."""

    processors: int
    policy: Policy
    core: Core = field(default_factory=lambda: Core("bench"))
    started_s: dict[int, int] = field(default_factory=dict)
    promised_s: dict[int, int] = field(default_factory=dict)
    changes: int = 0
    ticked_ms: int = 0

    def __post_init__(self) -> None:
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
        partition = PartitionSettings(
            "default", root, "binpacking", {"procs": 1.0}, preemption_enabled=False, backfill=self.policy.backfill,
            backfill_order=self.policy.order,
        )  # fmt: skip
        timing = Timing(reservation_delay_ms=DELAY_MS)
        self.handle(Register("bench", Configuration("backfill", (partition,), timing=timing)), 0)
        self.handle(UpdateNode(PARTITION, "machine", "CREATE", {}, {"procs": self.processors}), 0)

    def handle(self, command: Any, now_s: float) -> list[Fact]:
        return self.core.handle(command, BEGIN_MS + int(1000 * now_s))

    def submit(self, job: Job, now_s: float) -> None:
        name, plan_s = f"job-{job.number}", self.policy.plan_s(job)
        tags = {} if self.policy.learnt else {EXPECTED_RUNTIME: f"{plan_s}s"}
        before_s = now_s - DELAY_MS / 1000
        self.handle(SubmitApplication(PARTITION, name, "root.a", job.user), before_s)
        ask = Ask(PARTITION, name, "k", {"procs": job.procs}, execution_timeout_ms=1000 * plan_s, tags=tags)
        self.handle(SubmitAsk(ask), before_s)

    def end(self, job: Job, now_s: float) -> None:
        self.handle(ReleaseAllocation(PARTITION, f"job-{job.number}", "", 1, "over"), now_s)

    def pass_(self, now_s: int) -> list[int]:
        """The numbers of the jobs that start."""
        begun = []
        now_ms = BEGIN_MS + 1000 * now_s
        due_ms = next_tick_ms(self.core.state, self.ticked_ms)
        if due_ms is not None and due_ms <= now_ms and now_ms > self.ticked_ms:
            self.handle(Tick(), now_s)
            self.ticked_ms = now_ms
        for fact in self.handle(Schedule(MOST_PER_PASS), now_s):
            if isinstance(fact, Allocated):
                number = int(fact.application_id.removeprefix("job-"))
                self.started_s[number] = now_s
                begun.append(number)
            elif isinstance(fact, NodeReserved) and fact.promised_ms:
                number = int(fact.application_id.removeprefix("job-"))
                self.promised_s.setdefault(number, (fact.promised_ms - BEGIN_MS) // 1000)
            elif isinstance(fact, PromiseChanged):
                self.changes += 1
        return begun


def play(
    jobs: list[Job], processors: int, name: str, watch: Callable[[Machine, Job, int], None] | None = None
) -> Machine:
    """Play all jobs. `watch`: called when a job has come, and the pass after it is over."""
    policy = policy_of(name)
    machine, by_number = Machine(processors, policy), {job.number: job for job in jobs}
    events = [(job.submit_s, SUBMIT, at, job) for at, job in enumerate(jobs)]
    heapq.heapify(events)
    count = len(events)
    while events:
        now_s, kind, _, job = heapq.heappop(events)
        if kind == SUBMIT:
            machine.submit(job, now_s)
        else:
            machine.end(job, now_s)
        for number in machine.pass_(now_s):
            begun, count = by_number[number], count + 1
            at_bound = begun.run_s >= policy.plan_s(begun)
            heapq.heappush(events, (now_s + begun.run_s, BOUND if at_bound else END, count, begun))
        if watch is not None and kind == SUBMIT:
            watch(machine, job, now_s)
    return machine


def measures(jobs: list[Job], machine: Machine) -> dict[str, float]:
    waits = [machine.started_s[job.number] - job.submit_s for job in jobs]
    slowdowns = [
        max(1.0, (wait + job.run_s) / max(job.run_s, SLOWDOWN_BOUND_S)) for wait, job in zip(waits, jobs, strict=True)
    ]
    late = [machine.started_s[number] > promised_s for number, promised_s in machine.promised_s.items()]
    return {
        "mean_flow_s": round((sum(waits) + sum(job.run_s for job in jobs)) / len(jobs), 2),
        "mean_bounded_slowdown": round(sum(slowdowns) / len(jobs), 3),
        "late": round(sum(late) / max(1, len(late)), 4),
        "mean_wait_s": round(sum(waits) / len(jobs), 2),
        "promised": len(late),
        "promises_changed": machine.changes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    jobs, processors = read(options.log, options.limit)
    gc.freeze()
    for name in options.policies.split(","):
        began = time.perf_counter()
        found = {"policy": name, **measures(jobs, play(jobs, processors, name)), "jobs": len(jobs)}
        found["seconds"] = round(time.perf_counter() - began, 1)
        if options.json:
            print(json.dumps(found), flush=True)
        else:
            late = f"late {found['late']:.1%} of {found['promised']} promises"
            flow = f"flow {found['mean_flow_s']:9.1f} s, bounded slowdown {found['mean_bounded_slowdown']:8.2f}"
            print(f"{name:12} {flow}, {late}, {found['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
