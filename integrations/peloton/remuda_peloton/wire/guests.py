"""A pool, a task or a host of Peloton as a queue, an ask or a node of si.v1, and back. Pure.

Amounts of Peloton are cores, devices, MB and MB; those of si.v1 are thousandths of a core, devices, bytes and bytes.
The need of a task is rounded up, the capacity of a node is rounded down.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final

from remuda_proto.bounds import ID_BYTES, QUEUE_LEVELS, exceeds
from remuda_proto.constants import APP_TAG_NAMESPACE_RESOURCE_GUARANTEED, APP_TAG_NAMESPACE_RESOURCE_QUOTA
from remuda_proto.guests import prefix_of
from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.si.v1 import si_pb2 as si

from ..limits import AMOUNT, EPSILON, GUEST_AMOUNT, GUEST_QUEUE_CHARACTERS
from ..rules.hosts import Host, HostLabel
from ..rules.resources import Vector
from ..sharing import Wish

NAMES: Final = ("vcore", "gpu", "memory", "disk")  # in the order of KINDS
UNITS: Final = (1_000, 1, 2**20, 2**20)
SLACK: Final = "slack.vcore"
Amounts = Mapping[str, int]


class Unmappable(ValueError):
    """The pool or the task has no counterpart. The reason says why."""


def queue_of(root: str, path: str) -> str:
    """The queue of a pool, below the queue `root`. Raises Unmappable."""
    names = [_queue_name(name) for name in path.split("/") if name]
    queue = ".".join([root, *names])
    if queue.count(".") >= QUEUE_LEVELS:
        raise Unmappable(f"pool {path[:200]}: queue {queue[:200]} has more than {QUEUE_LEVELS} levels")
    if long := next((name for name in names if len(name) > GUEST_QUEUE_CHARACTERS), None):
        raise Unmappable(
            f"pool {path[:200]}: queue name {long[:80]}… has more than {GUEST_QUEUE_CHARACTERS} characters"
        )
    return queue


def _queue_name(name: str) -> str:
    """Names of queues have no capitals: each other character is `_` and its bytes in hexadecimal digits."""
    return "".join(c if c in _PLAIN else "".join(f"_{byte:02x}" for byte in c.encode()) for c in name)


_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


def application_of(cluster: str, pool_id: str) -> str:
    return prefix_of(cluster) + pool_id


def key_of(cluster: str, run_id: str) -> str:
    return prefix_of(cluster) + run_id


def problem_of_key(key: str) -> str:
    """Why the run cannot be an ask; empty: it can."""
    return f"the ID of the run has more than {ID_BYTES} bytes" if exceeds(key, ID_BYTES) else ""


def ask_amounts(resource: Vector, revocable: bool) -> dict[str, int]:
    """The amounts of a task's ask. A revocable task uses slack cpu in place of cpu."""
    found = {
        name: min(GUEST_AMOUNT, math.ceil(amount * unit - EPSILON))
        for name, unit, amount in zip(NAMES, UNITS, resource, strict=True)
    }
    if revocable:
        found[SLACK] = found.pop("vcore")
    return {name: amount for name, amount in found.items() if amount > 0}


def quota_tags(reservation: Vector, limit: Vector) -> dict[str, str]:
    """The quota of the pool's queue. Each kind has a maximum: si.v1 takes one that is not named for unlimited."""
    most = [min(GUEST_AMOUNT, math.floor(one * unit + EPSILON)) for one, unit in zip(limit, UNITS, strict=True)]
    least = [
        min(top, math.floor(one * unit + EPSILON)) for one, unit, top in zip(reservation, UNITS, most, strict=True)
    ]
    tags = {APP_TAG_NAMESPACE_RESOURCE_QUOTA: _resource(dict(zip(NAMES, most, strict=True)))}
    if guaranteed := {name: amount for name, amount in zip(NAMES, least, strict=True) if amount}:
        tags[APP_TAG_NAMESPACE_RESOURCE_GUARANTEED] = _resource(guaranteed)
    return tags


def _resource(amounts: Amounts) -> str:
    return json.dumps({"resources": {name: {"value": amount} for name, amount in amounts.items()}})


def vector_of(amounts: Amounts) -> Vector:
    """A resource that is not named is not there. More than AMOUNT is AMOUNT."""
    cpu, gpu, memory, disk = (
        min(AMOUNT, max(0, amounts.get(name, 0)) / unit) for name, unit in zip(NAMES, UNITS, strict=True)
    )
    return cpu, gpu, memory, disk


def host_of_node(node: Mapping[str, Any], ports: tuple[int, int]) -> Host:
    """The host that a node is. `node`: a row of the query `nodes`. The amounts that its RM uses itself are no room."""
    occupied = node["occupied"]
    amounts = {name: amount - occupied.get(name, 0) for name, amount in node["capacity"].items()}
    labels = tuple(HostLabel(key, str(value)) for key, value in sorted(node["attributes"].items()))
    first, last = ports
    return Host(
        node["id"], vector_of(amounts), max(0, amounts.get(SLACK, 0)) / 1_000, draining=node["status"] != "Schedulable",
        labels=labels, first_port=first, last_port=last,
    )  # fmt: skip


INT32 = 2**31 - 1


class HeldGang:
    """A gang that is to be placed. `until_s`: then it is reported as failed. `reason`: why a placement was refused."""

    def __init__(self, tasks: Iterable[resmgr_pb2.Task], until_s: float) -> None:
        self.tasks = {task.taskId.value: task for task in tasks}
        self.until_s = until_s
        self.reason = ""

    def keep(self, alive: Container[str]) -> None:
        """Drop the tasks whose runs the resource manager has given up or placed. `alive`: the IDs of the other runs."""
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
    """The ask for a wish. `run`: a SharedRun."""
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
        """Take the `count` lowest free ports; fewer where the host has no more."""
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
