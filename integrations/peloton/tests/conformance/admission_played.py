"""Plays the kind admission: one pool, and attempts to admit gangs of it."""

from __future__ import annotations

from typing import Any

from integrations.peloton.tests.conformance import pools
from integrations.peloton.tests.conformance.compare import equal, subset
from integrations.peloton.tests.conformance.rules_played import Differences, decided
from integrations.peloton.tests.conformance.tables import Case
from remuda_peloton import evolve
from remuda_peloton.decide import admission
from remuda_peloton.facts import GangEnqueued, RunEnded
from remuda_peloton.limits import LOOKS_PER_LEAF
from remuda_peloton.rules.lifecycle import KILLED, PENDING
from remuda_peloton.rules.resources import subtract, vector
from remuda_peloton.rules.task import Allocation, of_task
from remuda_peloton.settings import Settings
from remuda_peloton.state import Pool, Run, State

Step = dict[str, Any]


def play(case: Case) -> Differences:
    given, expect = case.given, case.expect
    if given.get("op") == "task_allocation":
        held = of_task(pools.task_of(given["task"]))
        for name, theirs in expect["allocation"].items():
            yield from subset(name, pools.amounts(getattr(held, name), theirs), theirs)
        return
    board = Board(given)
    for place, (step, wanted) in enumerate(zip(given["steps"], expect["steps"], strict=True)):
        answer = board.do(step)
        if wanted is not None:
            yield from board.compare(f"steps[{place}]", answer, wanted)


class Board:
    """`gangs`: the numbers of gangs by their names in the case."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.settings = Settings(preemption_enabled=given["preemption_enabled"])
        self.state: State = pools.state_with([given["pool"]])
        self.pool: Pool = self.state.pools[given["pool"]["id"]]
        self.gangs: dict[str, int] = {}
        pools.set_entitlement(self.state, self.pool.config.id, given.get("entitlement", {}))
        held = {name: vector(one) for name, one in given.get("allocation", {}).items()}
        self.pool.allocation = Allocation(**held)
        for name, one in given.get("override", {}).items():
            setattr(self.pool, name, vector(one))

    def do(self, step: Step) -> Any:
        return getattr(self, step["op"])(step)

    def enqueue(self, step: Step) -> None:
        for gang in step["gangs"]:
            number = self.gangs[gang["id"]] = self.state.last_number + 1
            tasks = tuple(pools.task_of(task) for task in gang["tasks"])
            evolve.evolve(self.state, GangEnqueued(number, self.pool.config.id, tasks))

    def put(self, step: Step) -> None:
        gang, before = step["gang"], (self.pool.demand, self.pool.slack_demand)
        number = self.gangs[gang["id"]] = self.state.last_number + 1
        tasks = tuple(pools.task_of(task) for task in gang["tasks"])
        for task in tasks:
            evolve.track(self.state, Run(task, self.pool.config.id, PENDING, 0))
        evolve.queue_gang(self.state, number, self.pool.config.id, tasks, step["queue"])
        self.pool.demand, self.pool.slack_demand = before

    def invalidate(self, step: Step) -> None:
        evolve.evolve(self.state, RunEnded(step["task"], step["task"] + "-1", KILLED, "killed"))

    def set_entitlement(self, step: Step) -> None:
        pools.set_entitlement(self.state, self.pool.config.id, step)

    def try_admit(self, step: Step) -> dict[str, Any]:
        gang = self.state.gangs.get(self.gangs.get(step["gang"] or "", 0))
        if gang is None or gang.queue != step["queue"]:
            return {"result": "invalid"}
        return {"result": decided(admission.try_admit(self.state, self.settings, gang), self.state)}

    def dequeue(self, step: Step) -> dict[str, Any]:
        limit, names = step["limit"], {number: name for name, number in self.gangs.items()}
        pass_ = admission.admit_in(self.state, self.settings, self.pool, min(limit, LOOKS_PER_LEAF))
        admitted: list[int] = decided(pass_, self.state)
        return {"count": len(admitted), "gangs": [names[number] for number in admitted]}

    def subtract_allocation(self, step: Step) -> None:
        held = {name: getattr(self.pool.allocation, name) for name in Allocation.__struct_fields__}
        held["total"] = subtract(held["total"], vector(step["total"]))
        self.pool.allocation = Allocation(**held)

    def compare(self, where: str, answer: dict[str, Any] | None, wanted: dict[str, Any]) -> Differences:
        for name in ("demand", "slack_demand"):
            if name in wanted:
                ours = pools.amounts(getattr(self.pool, name), wanted[name])
                yield from subset(f"{where}.{name}", ours, wanted[name])
        for name, theirs in wanted.get("allocation", {}).items():
            ours = pools.amounts(getattr(self.pool.allocation, name), theirs)
            yield from subset(f"{where}.allocation.{name}", ours, theirs)
        for name, size in wanted.get("queue_sizes", {}).items():
            yield from equal(f"{where}.queue_sizes.{name}", len(self.pool.queues[name]), size)
        for name in ("result", "count", "gangs"):
            if name in wanted:
                yield from equal(f"{where}.{name}", (answer or {}).get(name), wanted[name])
