"""Settings of queues, and their events."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from ..case import Case, event_in, queue_configs, queues_of
from ..compare import FINAL, Difference, amounts, meaningful
from ..recording import Json
from ..reference_rules import keep_quotas_that_are_removed
from .kind import Kind
from .lookups import dump_in, last_step


class TemplateMaxApplications(Kind):
    """maxapplications of a child template counts

    It limits how many applications run in each queue made from the template. YuniKorn checks the value, and ignores
    it.
    """

    golden = "differences.txt: maxapplications of a template limits each queue made from it"
    blind = True

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or path[-1] != "maxRunningApps" or difference.theirs is not None or len(path) < 5:
            return False
        return _template_limit(case, difference.step, path[-2]) == difference.ours

    def taints_from(self, case: Case) -> int | None:
        """Where theirs has more applications running in a queue than its template allows."""
        previous = 0
        for number, step in enumerate(case.their_steps):
            for path, queue in queues_of(step.get("dump")).items():
                most = _template_limit(case, number, path)
                if (
                    not queue.get("isManaged")
                    and 0 < most <= queue.get("runningApps", 0)
                    and _waits(case, number, path)
                ):
                    return previous
            if step.get("dump"):
                previous = number
        return None


def _waits(case: Case, step: int, path: str) -> bool:
    """Ours has an application that waits for its turn in this queue, and theirs runs."""
    ours, theirs = (_states(steps[step].get("dump"), path) for steps in (case.our_steps, case.their_steps))
    return any(state == "Accepted" and theirs.get(name) not in (None, "Accepted") for name, state in ours.items())


def _states(dump: Json | None, path: str) -> dict[str, str]:
    found = {}
    for partition in ((dump or {}).get("partitions") or {}).values():
        for application in partition.get("applications") or ():
            if application.get("queueName") == path:
                found[application["applicationID"]] = application["applicationState"]
    return found


def _template_limit(case: Case, step: int, path: str) -> int:
    """The setting of the nearest template above a queue that is not configured; 0: none."""
    configured = queue_configs(case.configuration_at(len(case.scenario.steps) if step == FINAL else step))
    if path in configured:
        return 0
    while "." in path:
        path = path.rpartition(".")[0]
        if path in configured and configured[path].HasField("child_template"):
            return configured[path].child_template.max_applications
    return 0


class TemplateStandsOnce(Kind):
    """A template is listed where it is configured

    A child template is listed at the queue that has it. YuniKorn lists a copy with each parent created on the way.
    """

    golden = "dynamic_queues.txt: A template is for what is placed, not for the parents on the way"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or path[-1] != "template" or difference.ours is not None or len(path) < 5:
            return False
        queues = meaningful(dump_in(case.theirs, difference.step))["partitions"][path[2]]["queues"]
        name = path[-2]
        ours = meaningful(dump_in(case.ours, difference.step))["partitions"].get(path[2], {}).get("queues", {})
        if queues[name].get("isLeaf") or queues[name].get("isManaged"):
            return False
        while "." in name:
            name = name.rpartition(".")[0]
            if queues.get(name, {}).get("isManaged"):
                same = ours.get(name, {}).get("template") == queues[name].get("template")
                return same and difference.theirs in self._templates(case, difference, name)
        return False

    def _templates(self, case: Case, difference: Difference, queue: str) -> list[Json]:
        """That theirs has listed with the configured queue so far: a copy stays what it was when it was made."""
        steps = case.theirs["steps"][: last_step(case, difference.step) + 1]
        dumps = [each["dump"] for each in steps if each.get("dump")] + [dump_in(case.theirs, difference.step)]
        listed = [meaningful(each)["partitions"].get(difference.path[2], {}).get("queues", {}) for each in dumps]
        return [each[queue]["template"] for each in listed if "template" in each.get(queue, {})]


class UpdatesMeanWhatTheySay(Kind):
    """An update applies the whole text

    Queues have the settings of the text, as if they were new. In YuniKorn removed properties keep their effect, and
    inherited ones disappear.
    """

    golden = "configurations.txt: A queue more, a queue less, and back again"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        last = len(case.scenario.steps) if difference.step == FINAL else difference.step
        updates = [number for number, _ in case.configurations() if 0 <= number <= last]
        if path[:2] != ("dump", "partitions") or not updates or "queues" not in path:
            return False
        queue, *rest = path[path.index("queues") + 1 :]
        configured = queue_configs(case.configuration_at(last)).get(queue)
        if configured is None or not rest:
            return False
        if rest[0] != "properties":
            return False
        said = dict(configured.properties)
        earlier = [queue_configs(found).get(queue) for number, found in case.configurations() if number < last]
        were = [dict(each.properties) for each in earlier if each is not None]
        ours, theirs = difference.ours, difference.theirs
        if len(rest) > 1:
            return ours == said.get(rest[1]) and (theirs is None or any(each.get(rest[1]) == theirs for each in were))
        before = {item for each in were for item in each.items()}
        return (ours or {}) == said and (theirs or {}).items() <= before | said.items()


class QuotasCanBeRemoved(Kind):
    """A quota can be removed

    In YuniKorn a queue keeps its quota if the new configuration names no maximum or guaranteed resources.
    """

    golden = "configurations.txt: A quota that is gone from the text is gone"
    reference_rules = (keep_quotas_that_are_removed,)

    def taints_from(self, case: Case) -> int | None:
        found = list(case.configurations())
        for (_, before), (step, after) in pairwise(found):
            old, new = queue_configs(before), queue_configs(after)
            for path in old.keys() & new.keys():
                for name, listed in (("max", "maxResource"), ("guaranteed", "guaranteedResource")):
                    had, has = (
                        {each: value.value for each, value in getattr(queues[path], name).resources.items()}
                        for queues in (old, new)
                    )
                    if had and not has and self._keeps(case, step, path, listed, had):
                        return step
        return None

    def _keeps(self, case: Case, step: int, path: str, listed: str, had: dict[str, int]) -> bool:
        """Theirs lists after that what it had, and ours nothing."""
        for ours, theirs in zip(case.our_steps[step:], case.their_steps[step:], strict=True):
            if ours.get("dump") and theirs.get("dump"):
                mine, other = (amounts(queues_of(each["dump"]).get(path, {}).get(listed)) for each in (ours, theirs))
                return not mine and other == amounts(had)
        return False


class QuotasAreEvents(Kind):
    """A change of a quota is an event

    Changes come by a configuration or by tags of an application. YuniKorn sends events for some of them only.
    """

    golden = "events.txt: A quota that changes by tag, or is removed, is an event"

    def explains(self, case: Case, difference: Difference) -> bool:
        event = difference.ours
        if difference.path[0] != "event" or difference.theirs is not None or event[0] != "QUEUE" or event[1] != "SET":
            return False
        tags = {"QUEUE_MAX": "namespace.resourcequota", "QUEUE_GUARANTEED": "namespace.resourceguaranteed"}
        if event[2] not in tags:
            return False
        step = case.step(difference.step)
        if step.action == "application":
            return self._is_new(case, step.number, event[3], tags[event[2]])
        before, after = (
            queue_configs(case.configuration_at(number)).get(event[3]) for number in (step.number - 1, step.number)
        )
        if step.action != "config" or before is None or after is None:
            return False
        name = "max" if event[2] == "QUEUE_MAX" else "guaranteed"
        return bool(getattr(before, name) != getattr(after, name))

    def _is_new(self, case: Case, step: int, queue: str, tag: str) -> bool:
        """An application of this step brings another quota than the one before it, to a dynamic queue."""
        if queue in queue_configs(case.configuration_at(step)):
            return False
        brought: list[tuple[int, Json | None]] = []
        for at, application in case.applications():
            name, value = application.get("applicationID", ""), (application.get("tags") or {}).get(tag)
            if at.number <= step and event_in(case.our_steps[at.number], "QUEUE", "ADD", "QUEUE_APP", queue, name):
                brought.append((at.number, amounts(json.loads(value)) if value else None))
        earlier = [value for number, value in brought if number < step and value is not None]
        return any(number == step and value is not None and [value] != earlier[-1:] for number, value in brought)


class RestoredQueueIsActive(Kind):
    """A restored queue is active

    In YuniKorn a draining queue that is configured again stays draining, and is deleted once it is empty.
    """

    golden = "configurations.txt: A queue more, a queue less, and back again"

    def explains(self, case: Case, difference: Difference) -> bool:
        path, last = difference.path, len(case.scenario.steps) if difference.step == FINAL else difference.step
        if path[0] == "event" and difference.ours is None and difference.theirs[:3] == ["QUEUE", "REMOVE", ""]:
            return self._came_back(case, last, difference.theirs[3])
        if path[0] != "dump" or "queues" not in path[:-1]:
            return False
        queue, *rest = path[path.index("queues") + 1 :]
        if rest == ["status"]:
            return (difference.ours, difference.theirs) == ("Active", "Draining") and self._came_back(case, last, queue)
        active = (difference.ours or {}).get("status") == "Active" if not rest else False
        return active and difference.theirs is None and self._came_back(case, last, queue)

    def _came_back(self, case: Case, step: int, queue: str) -> bool:
        """Configured, then not, and now again."""
        has = [queue in queue_configs(found) for number, found in case.configurations() if number <= step]
        return bool(has) and has[-1] and (True, False) in pairwise(has)


class DrainingQueueIsLimited(Kind):
    """A draining queue keeps its limits

    Work in a queue that is removed from the configuration stays under its limits. YuniKorn drops the limits at
    once.
    """

    golden = "differences.txt: A queue that drains keeps its limits"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or path[1:2] not in (("users",), ("groups",)) or difference.theirs is not None:
            return False
        listed = _queues_with_limits_alone(dict(zip(path[3:4], [difference.ours], strict=False)) or difference.ours)
        dumps = [dump_in(trace, difference.step) for trace in (case.ours, case.theirs)]
        return bool(listed) and all(
            all(queues_of(dump).get(queue, {}).get("status") == "Draining" for dump in dumps)
            and self._had(case, difference.step, queue, limits)
            for queue, limits in listed.items()
        )

    def _had(self, case: Case, step: int, queue: str, limits: Json) -> bool:
        """The last configuration that has the queue limits it like that."""
        last = last_step(case, step)
        earlier = [queue_configs(found) for number, found in case.configurations() if number <= last]
        had = next((queues[queue] for queues in reversed(earlier) if queue in queues), None)
        said = [
            (
                {name: amount.value for name, amount in limit.max_resources.resources.items()},
                limit.max_applications,
            )
            for limit in (had.limits if had is not None else ())
        ]
        return (limits.get("maxResources") or {}, limits.get("maxApplications") or 0) in said


def _queues_with_limits_alone(listed: Any) -> dict[str, Json]:
    """Of trees of users: the queues in them, with their limits; empty where one has more than that."""
    if not isinstance(listed, dict):
        return {}
    found: dict[str, Json] = {}
    for name, below in listed.items():
        if name == "root" or name.startswith("root."):
            if not isinstance(below, dict) or not below.keys() <= {"maxResources", "maxApplications"}:
                return {}
            found[name] = below
        else:
            queues = _queues_with_limits_alone(below)
            if not queues:
                return {}
            found |= queues
    return found
