"""Which limits for users and groups an answer breaks: counted from its callbacks and the scenario alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from remuda_proto.remuda.v1 import config_pb2

from .case import Case, queue_configs, received
from .compare import amounts
from .recording import Json

RUNNING = ("Starting", "Running")
USER, GROUP, ANYONE = "user", "group", "*"
Limit = config_pb2.Limit
Limits = dict[str, list[Limit]]  # by the path of the queue


@dataclass
class Submitted:
    user: str
    groups: tuple[str, ...]
    queue: str
    running: bool = False
    held: dict[str, dict[str, int]] = field(default_factory=dict)


def broken(case: Case, steps: list[Json]) -> Iterator[tuple[int, str]]:
    """(step, limit) wherever more is used after a step than a limit allows."""
    queues = placed(case)
    applications: dict[str, Submitted] = {}
    configurations = {number: limits_of(found) for number, found in case.configurations()}
    limits = configurations.get(-1, {})
    for number, step in enumerate(steps):
        limits = configurations.get(number, limits)
        for submitted in case.scenario.steps[number].argument.get("new") or () if step["op"] == "application" else ():
            name, ugi = submitted.get("applicationID", ""), submitted.get("ugi") or {}
            if name in queues:
                groups = tuple(ugi.get("groups") or ())
                applications[name] = Submitted(ugi.get("user", ""), groups, queues[name])
        follow(applications, step)
        for name in sorted(over(limits, applications)):
            yield number, name


def placed(case: Case) -> dict[str, str]:
    """Application -> queue, as the dumps of both say."""
    found: dict[str, str] = {}
    for trace in (case.theirs, case.ours):
        for dump in [trace.get("final"), *(step.get("dump") for step in trace["steps"])]:
            for partition in ((dump or {}).get("partitions") or {}).values():
                for name in ("applications", "completedApplications"):
                    found |= {each["applicationID"]: each["queueName"] for each in partition.get(name) or ()}
    return found


def limits_of(configuration: config_pb2.Configuration) -> Limits:
    return {path: list(queue.limits) for path, queue in queue_configs(configuration).items()}


def applying(limits: Limits, path: str, user: str, groups: tuple[str, ...]) -> Iterator[tuple[str, str, str, Limit]]:
    """(queue, user or group, whose sum it bounds, limit): what an application in the queue of this path has to keep to.
    (Written out of the specification, so that ours is not its own judge.)"""
    levels = levels_of(limits, path)
    for queue, level in levels:
        named = [limit for limit in level if user in limit.users] or [limit for limit in level if ANYONE in limit.users]
        yield from ((queue, USER, user, limit) for limit in named[:1])
    group = group_of(levels, groups)
    for queue, level in levels if groups else ():
        for name in (group, ANYONE):
            limit = next((limit for limit in level if name in limit.groups), None)
            if limit is not None:
                yield queue, GROUP, name, limit
                break


def levels_of(limits: Limits, path: str) -> list[tuple[str, list[Limit]]]:
    """(queue, its limits) from this queue up to root."""
    parts = path.split(".")
    above = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return [(queue, limits.get(queue, [])) for queue in above]


def group_of(levels: list[tuple[str, list[Limit]]], groups: Collection[str]) -> str:
    """From the leaf upwards, the first group that a limit names and that is among these; `*` for none."""
    listed = (name for _, level in levels for limit in level for name in limit.groups)
    return next((name for name in listed if name in groups and name != ANYONE), ANYONE)


def follow(applications: dict[str, Submitted], step: Json) -> None:
    for _, what, element in received([step], "allocation", "new", "released"):
        application = applications.get(element.get("applicationID", ""))
        if application is not None and what == "new":
            application.held[element["UUID"]] = amounts(element.get("resourcePerAlloc"))
        elif application is not None:
            application.held.pop(element.get("UUID", ""), None)
    for _, _, element in received([step], "application", "updated"):
        if element["applicationID"] in applications:
            applications[element["applicationID"]].running = element["state"] in RUNNING


def over(limits: Limits, applications: dict[str, Submitted]) -> set[str]:
    used: dict[tuple[str, str, str], tuple[Limit, dict[str, int], list[str]]] = {}
    for name, application in applications.items():
        for queue, kind, whose, limit in applying(limits, application.queue, application.user, application.groups):
            _, sums, running = used.setdefault((queue, kind, whose), (limit, {}, []))
            for resource in application.held.values():
                for each, amount in resource.items():
                    sums[each] = sums.get(each, 0) + amount
            if application.running:
                running.append(name)
    return {
        f"{kind} {name} in {queue}"
        for (queue, kind, name), (limit, sums, running) in used.items()
        if any(sums.get(each, 0) > most.value for each, most in limit.max_resources.resources.items())
        or (limit.max_applications and len(running) > limit.max_applications)
    }
