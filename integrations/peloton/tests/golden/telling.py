"""The lines of facts in the scenarios of Peloton's resource manager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from remuda_peloton import facts
from remuda_peloton.facts import Fact
from remuda_peloton.rules.resources import KINDS, Vector
from remuda_peloton.rules.task import Task

ALWAYS: Final = "always"
GROUPS: Final = ("entitlements", "pools", "hosts", "time")


def amounts(vector: Vector) -> str:
    return " ".join(f"{kind}={round(value, 2):g}" for kind, value in zip(KINDS, vector, strict=True) if value) or "none"


def dequeued(fact: facts.GangDequeued) -> str:
    tasks = (f"{one.run_id} {one.state} {one.timeout_s:g}s" for one in fact.tasks)
    return f"Dequeued gang {fact.number}: {', '.join(tasks) or 'nothing is left of it'}"


def entitled(fact: facts.EntitlementsChanged) -> str:
    return "Entitled " + "; ".join(
        f"{one.pool_id} {amounts(one.entitlement)}" + (f" slack {amounts(one.slack)}" if any(one.slack) else "")
        for one in fact.pools
    )


def _run_ids(pairs: tuple[tuple[str, str], ...]) -> str:
    return " ".join(run_id for _, run_id in pairs)


def _afterwards(fact: facts.TaskRequeued | facts.GangRequeued) -> str:
    reserves = ", to reserve a host" if fact.ready_for_host_reservation else ""
    return reserves + (", counted anew" if fact.reset else "")


def runs(tasks: tuple[Task, ...]) -> str:
    return " ".join(task.mesos_id for task in tasks)


TABLE: Final[dict[type[Fact], tuple[str, Callable[[Any], str]]]] = {
    facts.PoolCreated: ("pools", lambda f: f"Pool {f.pool.id} created"),
    facts.PoolUpdated: ("pools", lambda f: f"Pool {f.pool.id} changed"),
    facts.PoolDeleted: ("pools", lambda f: f"Pool {f.pool_id} deleted"),
    facts.CapacityChanged: ("hosts", lambda f: f"Capacity {amounts(f.capacity)} slack {f.slack_cpu:g}"),
    facts.EntitlementsChanged: ("entitlements", entitled),
    facts.GangEnqueued: (ALWAYS, lambda f: f"Enqueued gang {f.number} in {f.pool_id}: {runs(f.tasks)}"),
    facts.GangReduced: (ALWAYS, lambda f: f"Reduced gang {f.number}{' in its place' if f.keeps_place else ''}"),
    facts.GangMoved: (ALWAYS, lambda f: f"Moved gang {f.number} to {f.queue}"),
    facts.GangAdmitted: (ALWAYS, lambda f: f"Admitted gang {f.number}"),
    facts.GangDequeued: (ALWAYS, dequeued),
    facts.TaskRequeued: (
        ALWAYS,
        lambda f: f"Requeued {f.run_id} {f.state} as gang {f.number}: {f.reason}{_afterwards(f)}",
    ),
    facts.GangRequeued: (
        ALWAYS,
        lambda f: f"Requeued {_run_ids(f.tasks)} {f.state} as gang {f.number}: {f.reason}{_afterwards(f)}",
    ),
    facts.HostReserved: (ALWAYS, lambda f: f"Reserved {f.hostname} for {f.run_id}"),
    facts.PlacementQueued: (
        ALWAYS,
        lambda f: f"Placed {_run_ids(f.placement.tasks)} on {f.placement.hostname}",
    ),
    facts.PlacementTaken: (ALWAYS, lambda f: f"Taken placement {f.number}"),
    facts.TaskMoved: (ALWAYS, lambda f: f"State {f.run_id} {f.state}: {f.reason}"),
    facts.RunEnded: (ALWAYS, lambda f: f"Ended {f.run_id} {f.state}: {f.reason}"),
    facts.RunRecovered: (ALWAYS, lambda f: f"Recovered {f.task.mesos_id} {f.state} in {f.pool_id}"),
    facts.CandidateQueued: (ALWAYS, lambda f: f"Candidate {f.run_id}: {f.reason}"),
    facts.CandidatesTaken: (ALWAYS, lambda f: f"Taken {f.count} candidate"),
    facts.OverAllocationCounted: (ALWAYS, lambda f: f"Over its entitlement {f.pool_id}: {f.count}"),
    facts.HostsRanked: (ALWAYS, lambda f: f"Ranked {' '.join(f.hosts)}"),
    facts.HostsShared: ("hosts", lambda f: f"Shared {f.shared.name} epoch={f.shared.epoch}"),
    facts.SharedPlaced: ("hosts", lambda f: f"SharedPlaced {f.name} {f.number}"),
    facts.HostsPut: ("hosts", lambda f: f"Hosts {' '.join(host.hostname for host in f.hosts)}"),
    facts.HostsRemoved: ("hosts", lambda f: f"Hosts removed {' '.join(f.hostnames)}"),
    facts.EventsAcknowledged: (ALWAYS, lambda f: f"Acknowledged {f.offset}"),
    facts.TimePassed: ("time", lambda f: f"Passed {f.until_ms}"),
}
