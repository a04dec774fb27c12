"""The story of a task, a run, a gang or a pool: what the facts of the log say about it, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import facts
from .explain import GANG
from .rules.resources import KINDS, Vector

Words = Callable[[Any], str]

# Facts about one gang: its number names it.
OF_GANGS: Final[dict[type[facts.Fact], Words]] = {
    facts.GangReduced: lambda f: (
        f"gang/{f.number} has lost members; the others "
        f"{'keep their place' if f.keeps_place else 'go to the end of the queue'}"
    ),
    facts.GangMoved: lambda f: f"gang/{f.number} steps aside into the queue {f.queue}",
    facts.GangAdmitted: lambda f: f"gang/{f.number} is admitted: READY",
    facts.GangDequeued: lambda f: f"gang/{f.number} is with an engine: {_states(f.tasks)}",
}
# Facts about one run.
OF_RUNS: Final[dict[type[facts.Fact], Words]] = {
    facts.TaskRequeued: lambda f: f"{f.run_id} is {_again(f)}",
    facts.TaskMoved: lambda f: f"{f.run_id} is {f.state}: {f.reason}",
    facts.RunEnded: lambda f: f"{f.run_id} has ended, {f.state}: {f.reason}",
    facts.HostReserved: lambda f: f"{f.hostname} is reserved for {f.run_id}",
    facts.CandidateQueued: lambda f: f"{f.run_id} is to be preempted: {f.reason}",
}
OF_POOLS: Final[dict[type[facts.Fact], Words]] = {
    facts.PoolCreated: lambda f: f"pool {f.pool.name} is created below {f.pool.parent}: {_limits(f.pool)}",
    facts.PoolUpdated: lambda f: f"pool {f.pool.name} is changed: {_limits(f.pool)}",
    facts.PoolDeleted: lambda f: "the pool is deleted",
    facts.OverAllocationCounted: lambda f: (
        f"it holds more than its entitlement, in {f.count} cycles one after the other"
        if f.count
        else "cycles above its entitlement are counted anew"
    ),
}


class Story:
    """Picks the facts about one thing, and puts them into words. `sought`: the ID of a task, a run or a pool, or GANG
    and a number. `name_of`: names a pool, given its ID. Give it all facts, in order."""

    def __init__(self, sought: str, name_of: Callable[[str], str] = str) -> None:
        self._id, self._name_of = sought, name_of
        number = sought.removeprefix(GANG)
        self._gangs = {int(number)} if sought.startswith(GANG) and number.isdecimal() else set[int]()
        self._follows_gangs = not self._gangs
        self._placements: set[int] = set()

    def line_of(self, fact: facts.Fact) -> str | None:
        """The fact in words; None: it is not about the thing that is sought."""
        kind = type(fact)
        if isinstance(fact, facts.GangEnqueued):
            return self._enqueued(fact) if self._is_of_gang(fact) else None
        if (words := OF_GANGS.get(kind)) is not None:
            return words(fact) if self._is_of_gang(fact) else None
        if (words := OF_RUNS.get(kind)) is not None:
            return words(fact) if self._is_of_run(fact) else None
        if (words := OF_POOLS.get(kind)) is not None:
            return words(fact) if self._id == _pool_id(fact) else None
        if isinstance(fact, facts.EntitlementsChanged):
            return next((_entitled(one) for one in fact.pools if one.pool_id == self._id), None)
        if isinstance(fact, facts.RunRecovered) and self._id in (fact.task.id, fact.task.mesos_id):
            return f"{fact.task.mesos_id} is recovered: {fact.state}{_on(fact.task.hostname)}"
        if isinstance(fact, facts.GangRequeued) and self._names_any(fact.tasks):
            self._gangs = {fact.number}
            return f"{_tasks(len(fact.tasks))} together, {_again(fact)}"
        if isinstance(fact, facts.PlacementQueued) and self._names_any(fact.placement.tasks):
            self._placements.add(fact.number)
            return f"placed{_on(fact.placement.hostname)}"
        if isinstance(fact, facts.PlacementTaken) and fact.number in self._placements:
            return "a job manager has the placement: LAUNCHING"
        return None

    def _enqueued(self, fact: facts.GangEnqueued) -> str:
        where = f"PENDING in pool {self._name_of(fact.pool_id)}"
        return f"gang/{fact.number} of {_tasks(len(fact.tasks))} is {where}{_because(fact.reason)}"

    def _is_of_gang(self, fact: Any) -> bool:
        """A task's gang is the newest that it is in."""
        if isinstance(fact, facts.GangEnqueued) and self._names_any(
            tuple((one.id, one.mesos_id) for one in fact.tasks)
        ):
            self._gangs = {fact.number}
        if isinstance(fact, facts.GangDequeued) and self._follows_gangs:
            return self._names_any(tuple((one.task_id, one.run_id) for one in fact.tasks))
        return fact.number in self._gangs

    def _is_of_run(self, fact: Any) -> bool:
        if not self._names_any(((fact.task_id, fact.run_id),)):
            return False
        if isinstance(fact, facts.TaskRequeued):
            self._gangs = {fact.number}
        elif isinstance(fact, facts.RunEnded):
            self._gangs = set()
        return True

    def _names_any(self, pairs: tuple[tuple[str, str], ...]) -> bool:
        return self._follows_gangs and any(self._id in pair for pair in pairs)


def _pool_id(fact: Any) -> str:
    found: str = fact.pool.id if hasattr(fact, "pool") else fact.pool_id
    return found


def _again(fact: facts.TaskRequeued | facts.GangRequeued) -> str:
    reserves = ", for the reservation of a host" if fact.ready_for_host_reservation else ""
    return f"{fact.state} again as gang/{fact.number}: {fact.reason}{reserves}"


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _on(hostname: str) -> str:
    return f" on {hostname}" if hostname else ""


def _states(tasks: tuple[facts.TaskDequeued, ...]) -> str:
    if not tasks:
        return "no task of it is left"
    one = tasks[0]
    return f"{_tasks(len(tasks))} {one.state} for {one.timeout_s:g} s, attempt {one.attempts:g} of cycle {one.cycles:g}"


def _amounts(vector: Vector) -> str:
    return ", ".join(f"{kind} {amount:g}" for kind, amount in zip(KINDS, vector, strict=True) if amount) or "nothing"


def _entitled(one: facts.Entitlement) -> str:
    slack = f"; slack {_amounts(one.slack)}" if any(one.slack) else ""
    return f"its entitlement is {_amounts(one.entitlement)}{slack}"


def _limits(pool: Any) -> str:
    parts = [f"{one.kind} {one.reservation:g} to {one.limit:g}, share {one.share:g}" for one in pool.resources]
    return "; ".join(parts) or "no resources"
