"""Gangs that an engine of shared hosts has: why they can never be placed there, their asks, and their placements.
Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from remuda_proto.guests import prefix_of
from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.si.v1 import si_pb2 as si

from ..sharing.compare import Wish
from .guest_mapping import SLACK, Unmappable, application_of, ask_amounts, key_of, problem_of_key, queue_of, quota_tags

INT32 = 2**31 - 1


class HeldGang:
    """A gang that is to be placed. `until_s`: then it is reported as failed. `reason`: why a placement was refused."""

    def __init__(self, tasks: Iterable[resmgr_pb2.Task], until_s: float) -> None:
        self.tasks = {task.taskId.value: task for task in tasks}
        self.until_s = until_s
        self.reason = ""

    def keep(self, alive: Container[str]) -> None:
        """`alive`: IDs of runs. The resource manager has given up the others, or placed them."""
        self.tasks = {run_id: task for run_id, task in self.tasks.items() if run_id in alive}


class Names:
    """Names of one cluster in the partition. `queue`: below it are those of pools."""

    def __init__(self, cluster: str, queue: str) -> None:
        self.cluster, self.queue = cluster, queue

    def wish(self, run: Any, hostname: str) -> Wish:
        return Wish(key_of(self.cluster, run.run_id), application_of(self.cluster, run.pool_id), hostname)

    def run_id(self, key: str) -> str:
        return key.removeprefix(prefix_of(self.cluster))

    def application(self, pool: Any) -> tuple[str, str, Mapping[str, str]]:
        """The ID, the queue and the tags. Raises Unmappable."""
        tags = quota_tags(tuple(pool.reservation), tuple(pool.limit))
        return application_of(self.cluster, pool.pool_id), queue_of(self.queue, pool.path), tags


def ask_of(wish: Wish, run: Any) -> si.AllocationAsk:
    """`run`: a SharedRun."""
    ask = si.AllocationAsk(
        allocationKey=wish.key, applicationID=wish.application, maxAllocations=1, priority=min(INT32, run.priority)
    )
    for name, amount in ask_amounts(tuple(run.resource), run.revocable).items():
        ask.resourceAsk.resources[name].value = amount
    ask.preemptionPolicy.allowPreemptSelf, ask.preemptionPolicy.allowPreemptOther = run.preemptible, True
    if wish.hostname:
        ask.tags["si/requiredNode"] = wish.hostname
        ask.tags["remuda/boundPreemptible"] = "true"  # it is there already, and may be preempted as before
    return ask


def why_never(
    names: Names, gang: HeldGang, runs: Mapping[str, Any], pools: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]],
    ports: tuple[int, int],
) -> str:  # fmt: skip
    """Why the gang cannot be placed on these nodes, whatever is free; empty: it can."""
    for run_id, task in gang.tasks.items():
        run = runs[run_id]
        if problem := problem_of_key(key_of(names.cluster, run_id)):
            return problem
        pool = pools.get(run.pool_id)
        if pool is None:
            return f"pool {run.pool_id} is no leaf any more"
        try:
            names.application(pool)
        except Unmappable as error:
            return str(error)
        if task.HasField("constraint"):
            return "shared hosts take no task with a constraint: the core of si.v1 knows none"
        if not ask_amounts(tuple(run.resource), run.revocable):
            return "the task needs nothing, and si.v1 has no ask for nothing"
        if run.revocable and not any(node["capacity"].get(SLACK) for node in nodes):
            return f"the task is revocable, and no node reports {SLACK}"
        if task.numPorts > (ports[1] - ports[0] + 1 if ports[1] else 0):
            return f"the task needs {task.numPorts} ports: see the setting placement.ports"
    return ""


class FreePorts:
    """The lowest ports that no run uses on its host."""

    def __init__(self, ports: tuple[int, int], runs: Iterable[Any]) -> None:
        self._ports = ports
        self._used: dict[str, set[int]] = {}
        for run in runs:
            if run.ports:
                self._used.setdefault(run.hostname, set()).update(run.ports)

    def take(self, hostname: str, count: int) -> list[int]:
        """Fewer than `count`: there are no more."""
        used = self._used.setdefault(hostname, set())
        first, last = self._ports
        found: list[int] = []
        for port in range(first, last + 1) if count else ():
            if len(found) == count:
                break
            if port not in used:
                found.append(port)
        used.update(found)
        return found


def placement(task: resmgr_pb2.Task, hostname: str, ports: Sequence[int]) -> resmgr_pb2.Placement:
    message = resmgr_pb2.Placement(hostname=hostname, ports=ports, type=task.type)
    one = message.taskIDs.add(mesosTaskID=mesos.TaskID(value=task.taskId.value))
    one.pelotonTaskID.value = task.id.value
    return message
