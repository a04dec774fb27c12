"""The rules for limits of users and groups: within one list, and between a queue and its ancestors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from remuda_config.limits import MAX_LIMITED_NAMES
from remuda_config.problems import Finding, Path
from remuda_config.schema import LimitEntry, Queue
from remuda_proto import quantities
from remuda_proto.bounds import shown
from remuda_proto.names import BY_KIND

WILDCARD = "*"
Whom = tuple[str, str]  # ("user" | "group", name)


@dataclass(slots=True)
class TightestLimit:
    """The tightest limit of a user or group in the ancestors of a queue, with the queue that has it: for each resource,
    and for applications (0: none)."""

    resources: dict[str, tuple[int, str]] = field(default_factory=dict)
    applications: tuple[int, str] = (0, "")

    def tightened(self, limit: LimitEntry, queue: str) -> TightestLimit:
        resources = dict(self.resources)
        for name, amount in (limit.maxresources or {}).items():
            if name not in resources or amount < resources[name][0]:
                resources[name] = (amount, queue)
        applications = [most for most in (self.applications, (limit.maxapplications, queue)) if most[0]]
        return TightestLimit(resources, min(applications, key=lambda most: most[0], default=(0, "")))


TightestLimits = Mapping[Whom, TightestLimit]


def check_list(limits: list[LimitEntry], path: Path) -> Iterator[Finding]:
    """Yields the findings within the limits of one queue or partition."""
    named = sum(len(limit.users) + len(limit.groups) for limit in limits)
    if named > MAX_LIMITED_NAMES:
        yield (*path, "limits"), f"{named} users and groups, expected at most {MAX_LIMITED_NAMES}"
        return
    seen: dict[str, set[str]] = {"user": set(), "group": set()}
    for place, limit in enumerate(limits):
        here = (*path, "limits", place)
        if not limit.users and not limit.groups:
            yield here, "a limit needs at least one user or group"
        yield from _check_names("user", limit.users, seen["user"], (*here, "users"))
        yield from _check_names("group", limit.groups, seen["group"], (*here, "groups"))
        if limit.maxresources and not any(limit.maxresources.values()):
            yield (*here, "maxresources"), "at least one resource has to be above 0"
        elif not limit.maxresources and not limit.maxapplications:
            yield here, "a limit needs maxresources or maxapplications"


def _check_names(kind: str, entries: list[str], seen: set[str], path: Path) -> Iterator[Finding]:
    for place, name in enumerate(entries):
        here = (*path, place)
        if name != WILDCARD and not BY_KIND[kind].matches(name):
            yield here, f"bad {kind} name {shown(name)}: expected '*' or {BY_KIND[kind].expected}"
        elif name in seen:
            yield here, f"{kind} {shown(name)} already has a limit here"
        elif WILDCARD in seen:
            yield here, f"{kind} {shown(name)} stands after the '*', which has to be last"
        elif kind == "group" and name == WILDCARD and not seen:
            yield here, "the group '*' needs a limit of a named group before it"
        seen.add(name)


def check_against_queue(queue: Queue, path: Path) -> Iterator[Finding]:
    """Yields limits above the queue's own maximum: such a limit has no effect, so it is a mistake."""
    own_max = queue.resources.max or {}
    for place, limit in enumerate(queue.limits):
        here = (*path, "limits", place)
        for name, amount in (limit.maxresources or {}).items():
            if name in own_max and amount > own_max[name]:
                yield (
                    (*here, "maxresources", name),
                    quantities.above(name, amount, "the queue's own max", own_max[name]),
                )
        if queue.maxapplications and limit.maxapplications > queue.maxapplications:
            shown = f"{limit.maxapplications} is above the queue's own {queue.maxapplications}"
            yield (*here, "maxapplications"), shown


def check_against_ancestors(queue: Queue, path: Path, bounds: TightestLimits) -> Iterator[Finding]:
    """Yields limits that are above the limit of the same user or group in an ancestor."""
    for place, limit in enumerate(queue.limits):
        here = (*path, "limits", place)
        for whom in _whom(limit):
            if whom in bounds:
                yield from _check_bound(limit, here, whom, bounds[whom])


def _check_bound(limit: LimitEntry, here: Path, whom: Whom, bound: TightestLimit) -> Iterator[Finding]:
    who = f"{whom[0]} {shown(whom[1])}"
    for name, amount in (limit.maxresources or {}).items():
        if name in bound.resources and amount > bound.resources[name][0]:
            most, queue = bound.resources[name]
            yield (*here, "maxresources", name), quantities.above(name, amount, f"the limit of {who} in {queue}", most)
    most, queue = bound.applications
    if most and not limit.maxapplications:
        yield (*here, "maxapplications"), f"has to be set for {who}: at most {most}, the limit of {queue}"
    elif most and limit.maxapplications > most:
        yield (*here, "maxapplications"), f"{limit.maxapplications} for {who} is above the {most} of {queue}"


def tightest_below(queue: Queue, name: str, bounds: TightestLimits) -> TightestLimits:
    """Returns the tightest limits for the queues below, including the limits of this queue, whose path is `name`."""
    if not queue.limits:
        return bounds
    below = dict(bounds)
    for limit in queue.limits:
        for whom in _whom(limit):
            below[whom] = below.get(whom, TightestLimit()).tightened(limit, name)
    return below


def _whom(limit: LimitEntry) -> list[Whom]:
    return [("user", name) for name in limit.users] + [("group", name) for name in limit.groups]
