"""Which limits for users and groups an answer breaks: counted from its callbacks and the scenario alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from remuda_core.rules.limits import applying
from remuda_core.settings import Configuration, Limit, QueueSettings
from remuda_core.wire import read_configuration

from .case import Case, told
from .compare import amounts
from .recording import Json

RUNNING = ("Starting", "Running")


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
    configurations = {number: limits_of(read_configuration(found)) for number, found in case.configurations()}
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


def limits_of(configuration: Configuration) -> dict[str, tuple[Limit, ...]]:
    """By the path of the queue."""
    found: dict[str, tuple[Limit, ...]] = {}

    def walk(path: str, queue: QueueSettings) -> None:
        found[path] = queue.limits
        for child in queue.queues:
            walk(f"{path}.{child.name}", child)

    for partition in configuration.partitions:
        walk("root", partition.root)
    return found


def follow(applications: dict[str, Submitted], step: Json) -> None:
    for _, what, element in told([step], "allocation", "new", "released"):
        application = applications.get(element.get("applicationID", ""))
        if application is not None and what == "new":
            application.held[element["UUID"]] = amounts(element.get("resourcePerAlloc"))
        elif application is not None:
            application.held.pop(element.get("UUID", ""), None)
    for _, _, element in told([step], "application", "updated"):
        if element["applicationID"] in applications:
            applications[element["applicationID"]].running = element["state"] in RUNNING


def over(limits: dict[str, tuple[Limit, ...]], applications: dict[str, Submitted]) -> set[str]:
    used: dict[tuple[str, str, str], tuple[Limit, dict[str, int], list[str]]] = {}
    for name, application in applications.items():
        path, lineage = application.queue, [application.queue]
        while "." in path:
            path = path.rpartition(".")[0]
            lineage.append(path)
        levels = [limits.get(queue, ()) for queue in lineage]
        for applies in applying(levels, application.user, application.groups):
            key = (lineage[applies.level], applies.kind, applies.name)
            _, sums, running = used.setdefault(key, (applies.limit, {}, []))
            for resource in application.held.values():
                for each, amount in resource.items():
                    sums[each] = sums.get(each, 0) + amount
            if application.running:
                running.append(name)
    return {
        f"{kind} {name} in {queue}"
        for (queue, kind, name), (limit, sums, running) in used.items()
        if any(sums.get(each, 0) > most for each, most in limit.max_resources.items())
        or (limit.max_applications and len(running) > limit.max_applications)
    }
