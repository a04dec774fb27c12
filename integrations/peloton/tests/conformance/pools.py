"""Pools, tasks and vectors of the tables as values of ours."""

from __future__ import annotations

from typing import Any

from remuda_peloton import evolve
from remuda_peloton.facts import CapacityChanged, Entitlement, EntitlementsChanged, PoolCreated
from remuda_peloton.rules.lifecycle import PENDING, READY
from remuda_peloton.rules.pools import ROOT, KindConfig, PoolConfig, complete
from remuda_peloton.rules.resources import Vector, vector
from remuda_peloton.rules.task import Task
from remuda_peloton.settings import Settings
from remuda_peloton.state import Run, State


def pool_config(given: dict[str, Any]) -> PoolConfig:
    resources = given.get("resources", {})
    listed = resources if isinstance(resources, list) else [{"kind": kind, **one} for kind, one in resources.items()]
    return PoolConfig(
        id=given.get("id", ""),
        name=given.get("name", given.get("id", "")),
        parent=given.get("parent") or "",
        resources=tuple(KindConfig(**{"share": 1.0, **one}) for one in listed),
        policy=given.get("policy", "PriorityFIFO"),
        controller_limit_percent=given.get("controller_limit_percent"),
        slack_limit_percent=given.get("slack_limit_percent"),
    )


def state_with(pools: list[dict[str, Any]]) -> State:
    """A state with these pools; parents are listed before their children."""
    state = State()
    for given in pools:
        if given["id"] != ROOT:
            evolve.evolve(state, PoolCreated(complete(pool_config(given))))
    return state


def set_capacity(state: State, capacity: dict[str, float], slack: dict[str, float]) -> None:
    evolve.evolve(state, CapacityChanged(vector(capacity), slack.get("cpu", 0.0)))


def set_entitlement(state: State, pool_id: str, given: dict[str, Any]) -> None:
    non_slack, slack = vector(given.get("non_slack", {})), vector(given.get("slack", {}))
    evolve.evolve(state, EntitlementsChanged((Entitlement(pool_id, non_slack, non_slack, slack),)))


def task_of(given: dict[str, Any]) -> Task:
    return Task(
        id=given["id"],
        mesos_id=given["id"] + "-1",
        resource=vector(given.get("resource", {})),
        priority=given.get("priority", 0),
        preemptible=given.get("preemptible", False),
        revocable=given.get("revocable", False),
        controller=given.get("controller", False),
    )


def run_of(given: dict[str, Any], pool_id: str) -> Run:
    run = Run(task_of(given), pool_id, given["state"], 0)
    run.started_ms = int(given.get("started_at", 0))
    return run


def settings_of(given: dict[str, Any]) -> Settings:
    return Settings(**given)


def amounts(held: Vector, kinds: dict[str, float]) -> dict[str, float]:
    """The amounts of the kinds that are asserted."""
    places = {"cpu": 0, "gpu": 1, "memory": 2, "disk": 3}
    return {kind: held[places[kind]] for kind in kinds}


def track_as_it_is(state: State, run: Run) -> None:
    """Track a run in the state that it has, as if it had come there; READY in the ready queue."""
    evolve.track(state, run)
    if run.state == READY:
        evolve.make_ready(state, state.last_number + 1, run.pool_id, (run,))


def move(state: State, run: Run, to: str) -> None:
    """A step of a path, with the queue that belongs to the state."""
    if to == run.state:
        return
    if run.gang and to != READY:
        leave_queue(state, run)
    if to == PENDING:
        evolve.enter(state, run, to, 0, "driven")
        evolve.queue_gang(state, state.last_number + 1, run.pool_id, (run.task,), "pending")
    elif to == READY:
        if run.gang:
            leave_queue(state, run)
        evolve.enter(state, run, to, 0, "driven")
        evolve.make_ready(state, state.last_number + 1, run.pool_id, (run,))
    else:
        evolve.enter(state, run, to, 0, "driven")


def leave_queue(state: State, run: Run) -> None:
    """Take a gang of one task out of the queue in which it waits."""
    gang = state.gangs[run.gang]
    if gang.queue == READY:
        evolve.leave_ready(state, gang.number)
    else:
        evolve.unqueue(state, gang, [])
    run.gang = 0
