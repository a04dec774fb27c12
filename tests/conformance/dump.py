"""A state of remuda in the form of the reference's REST objects, as far as they say the same (FORMAT.md section 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from remuda_core.decide.names import plain
from remuda_core.rules import lifecycle
from remuda_core.rules.limits import ANYONE, GROUP, USER, group_of
from remuda_core.rules.required_node import required_node
from remuda_core.rules.resource import total_of
from remuda_core.settings import Limit
from remuda_core.state import Allocation, Application, Node, Partition, PendingAsk, Queue, RejectedApplication, State

from .recording import Json

# The list of an ended application in the reference's answer.
OVER: Final = {lifecycle.COMPLETED: "completedApplications", lifecycle.FAILED: "completedApplications",
               lifecycle.REJECTED: "rejectedApplications"}  # fmt: skip
NOTHING_PENDING: Final = -(2**31)


class Watch:
    """Values that the state does not keep, and that are collected by watching it: the peak usage of an application, and
    which applications have been given a reservation while they were Accepted."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Application, dict[str, int]]] = {}
        self._reserved: dict[int, Application] = {}

    def look(self, state: State) -> None:
        for partition in state.partitions.values():
            for application in partition.applications.values():
                if any(pending.reservations for pending in application.asks.values()):
                    self._reserved[id(application)] = application
                _, held = self._held.setdefault(id(application), (application, {}))
                for sums in (application.allocated, application.allocated_placeholder):
                    held |= {name: max(amount, held.get(name, 0)) for name, amount in sums.items()}

    def begins(self, application: Application) -> bool:
        """Accepted, and given something: a placeholder, or once a reservation."""
        given = bool(application.allocations) or id(application) in self._reserved
        return application.state == lifecycle.ACCEPTED and given

    def highest(self, application: Application) -> dict[str, int]:
        return dict(self._held.get(id(application), (application, {}))[1])


def dump(state: State, watch: Watch) -> Json:
    return {
        "partitions": {partition.name: _partition(partition, watch) for partition in state.partitions.values()},
        "users": list(usage(state, USER)),
        "groups": list(usage(state, GROUP)),
    }


def _partition(partition: Partition, watch: Watch) -> Json:
    listed: dict[str, list[Json]] = {"applications": [], "completedApplications": [], "rejectedApplications": []}
    for application in partition.applications.values():
        listed[OVER.get(application.state, "applications")].append(_application(application, watch))
    listed["rejectedApplications"] += [_rejected(rejected) for rejected in partition.rejected.values()]
    states = Counter(application.state for application in partition.applications.values())
    return {
        "info": {
            "name": plain(partition.name),
            "state": "Draining" if partition.draining else "Active",
            "nodeSortingPolicy": {
                "type": partition.settings.node_sort,
                "resourceWeights": dict(partition.settings.resource_weights),
            },
            "totalNodes": len(partition.nodes),
            "totalContainers": len(partition.allocations),
            "applications": dict(states, total=states.total()),
            "capacity": {"capacity": dict(partition.total), "usedCapacity": dict(partition.root.allocated)},
        },
        "queues": _queue(partition.root, partition, watch),
        "nodes": [_node(node) for node in partition.nodes.values()],
        **listed,
    }


def _queue(queue: Queue, partition: Partition, watch: Watch) -> Json:
    settings = queue.settings
    running = [a for below in queue.below() for a in below.applications.values() if _runs(a)]
    said: Json = {
        "queuename": queue.path,
        "status": "Draining" if queue.draining else "Active",
        "isLeaf": queue.leaf,
        "isManaged": queue.managed,
        "parent": queue.parent.path if queue.parent else "",
        "allocatedResource": dict(queue.allocated),
        "pendingResource": dict(queue.pending),
        "preemptingResource": dict(queue.preempting),
        "allocatingAcceptedApps": [
            a.id for below in queue.below() for a in below.applications.values() if watch.begins(a)
        ],
        "guaranteedResource": dict(settings.guaranteed),
        "maxResource": dict(settings.max) if queue.parent else dict(partition.total),
        "maxRunningApps": settings.max_applications,
        "runningApps": len(running),
        "currentPriority": queue.priority if queue.priorities else NOTHING_PENDING,
        "properties": dict(settings.properties),
        "children": [_queue(child, partition, watch) for child in queue.children.values()],
    }
    if template := settings.child_template:
        said["template"] = {
            "properties": dict(template.properties),
            "guaranteedResource": dict(template.guaranteed),
            "maxResource": dict(template.max),
        }
    return said


def _runs(application: Application) -> bool:
    """It counts against `maxapplications` of its queues."""
    return application.state in (lifecycle.STARTING, lifecycle.RUNNING)


def _application(application: Application, watch: Watch) -> Json:
    return {
        "applicationID": application.id,
        "applicationState": application.state,
        "queueName": application.queue.path,
        "user": application.user,
        "groups": list(application.groups),
        "stateLog": [{"applicationState": state} for _, state in application.log if state != lifecycle.NEW],
        "usedResource": dict(application.allocated),
        "maxUsedResource": watch.highest(application),
        "pendingResource": dict(application.pending),
        "reservations": [
            f"{node_id}|{pending.ask.allocation_key}"
            for pending in application.asks.values()
            for node_id in pending.reservations
        ],
        "requests": [_ask(pending) for pending in application.asks.values() if pending.pending > 0],
        "allocations": [_allocation(allocation) for allocation in application.allocations.values()],
        "placeholderData": [
            {
                "taskGroupName": group.name,
                "count": group.count,
                "minResource": dict(group.min_resource),
                "replaced": group.replaced,
                "timedout": group.timed_out,
            }
            for group in application.task_groups.values()
            if group.count
        ],
    }


def _rejected(application: RejectedApplication) -> Json:
    fact = application.fact
    return {
        "applicationID": fact.application_id,
        "applicationState": lifecycle.REJECTED,
        "user": fact.user,
        "groups": list(fact.groups),
        "stateLog": [{"applicationState": lifecycle.REJECTED}],
    }


def _ask(pending: PendingAsk) -> Json:
    ask = pending.ask
    return {
        "allocationKey": ask.allocation_key,
        "applicationId": ask.application_id,
        "pendingCount": pending.pending,
        "priority": str(ask.priority),
        "resource": dict(ask.resource),
        "placeholder": ask.placeholder,
        "taskGroupName": ask.task_group,
        "requiredNodeId": required_node(ask.tags) or "",
    }


def _allocation(allocation: Allocation) -> Json:
    fact = allocation.fact
    return {
        "allocationKey": fact.allocation_key,
        "applicationId": fact.application_id,
        "nodeId": fact.node_id,
        "uuid": fact.uuid,
        "priority": str(fact.priority),
        "resource": dict(fact.resource),
        "placeholder": fact.placeholder,
        "taskGroupName": fact.task_group,
    }


def _node(node: Node) -> Json:
    return {
        "nodeID": node.id,
        "capacity": dict(node.capacity),
        "occupied": dict(node.occupied),
        "allocated": dict(node.allocated),
        "available": node.available(),
        "utilized": {
            name: int(node.allocated.get(name, 0) / whole * 100) for name, whole in node.capacity.items() if whole > 0
        },
        "schedulable": not node.draining,
        "reservations": _reservations(node),
        "allocations": [_allocation(allocation) for allocation in node.allocations.values()],
    }


def _reservations(node: Node) -> list[str]:
    pending = node.reservation
    return [] if pending is None else [f"{pending.application.id}|{pending.ask.allocation_key}"]


# Usage and limits of users and groups


def usage(state: State, kind: str) -> Iterator[Json]:
    """One tree for each user (or group) that uses something or that a limit names. (The limit for every other user is
    in no tree of the reference.)"""
    held: dict[str, dict[str, Json]] = {}

    def at(name: str, queue: Queue) -> Json:
        found: Json = {}
        for each in reversed(queue.path_to_root):
            found = held.setdefault(name, {}).setdefault(each.path, _usage(each.path))
        return found

    for partition in state.partitions.values():
        for application in partition.applications.values():
            name = application.user if kind == USER else _group(application)
            counts = application.allocations or _runs(application)
            for queue in application.queue.path_to_root if counts and name else ():
                used = at(name, queue)
                used["runningApplications"].append(application.id)
                _add(
                    used["resourceUsage"]["Resources"],
                    total_of(a.fact.resource for a in application.allocations.values()),
                )
        for queue in partition.root.below():
            for limit in queue.settings.limits:
                for name in limit.users if kind == USER else limit.groups:
                    if name != ANYONE or kind == GROUP:
                        _limit(at(name, queue), limit)
    for name, queues in held.items():
        yield {f"{kind}Name": name, "queues": _tree(queues, "root")}


def _limit(used: Json, limit: Limit) -> None:
    used["maxResources"] = {"Resources": dict(limit.max_resources)}
    used["maxApplications"] = limit.max_applications


def _group(application: Application) -> str:
    """The group whose use an application counts as; "": none that a limit names."""
    levels = [queue.settings.limits for queue in application.queue.path_to_root]
    if not any(limit.groups for limits in levels for limit in limits):
        return ""
    group = group_of(levels, application.groups)
    named = any(group in limit.groups for limits in levels for limit in limits)
    return group if named else ""


def _usage(path: str) -> Json:
    return {"queuePath": path, "resourceUsage": {"Resources": {}}, "runningApplications": []}


def _add(to: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, 0) + amount


def _tree(queues: Mapping[str, Json], path: str) -> Json:
    below = [_tree(queues, child) for child in queues if child.rpartition(".")[0] == path]
    return {**queues[path], "children": below}
