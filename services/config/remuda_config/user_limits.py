"""The rules for limits of users and groups, in one list and down the tree. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from remuda_config import names, quantity
from remuda_config.problems import Finding, Path
from remuda_config.schema import Limit, Queue

WILDCARD = "*"
Whom = tuple[str, str]  # ("user" | "group", name)


@dataclass(slots=True)
class Bound:
    """The tightest limit of one user or group so far, with whose it is: per resource, and applications (0: none)."""

    resources: dict[str, tuple[int, str]] = field(default_factory=dict)
    applications: tuple[int, str] = (0, "")

    def tightened(self, limit: Limit, queue: str) -> Bound:
        resources = dict(self.resources)
        for name, amount in (limit.maxresources or {}).items():
            if name not in resources or amount < resources[name][0]:
                resources[name] = (amount, queue)
        applications = [most for most in (self.applications, (limit.maxapplications, queue)) if most[0]]
        return Bound(resources, min(applications, key=lambda most: most[0], default=(0, "")))


Bounds = Mapping[Whom, Bound]


def check_list(limits: list[Limit], path: Path) -> Iterator[Finding]:
    """What can be said of the limits of one queue (or partition) alone."""
    seen: dict[str, list[str]] = {"user": [], "group": []}
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


def _check_names(kind: str, entries: list[str], seen: list[str], path: Path) -> Iterator[Finding]:
    for place, name in enumerate(entries):
        here = (*path, place)
        if name != WILDCARD and not names.BY_KIND[kind].fullmatch(name):
            yield here, f"bad {kind} name {name!r}: expected '*' or {names.SHAPE[kind]}"
        elif name in seen:
            yield here, f"{kind} {name!r} already has a limit here"
        elif WILDCARD in seen:
            yield here, f"{kind} {name!r} stands behind the '*', which has to be last"
        elif kind == "group" and name == WILDCARD and not seen:
            yield here, "the group '*' needs a limit of a named group before it"
        seen.append(name)


def check_against_queue(queue: Queue, path: Path) -> Iterator[Finding]:
    """A limit above the queue's own maximum would never hold anybody back: it is a mistake."""
    own_max = queue.resources.max or {}
    for place, limit in enumerate(queue.limits):
        here = (*path, "limits", place)
        for name, amount in (limit.maxresources or {}).items():
            if name in own_max and amount > own_max[name]:
                yield (*here, "maxresources", name), quantity.above(name, amount, "the queue's own max", own_max[name])
        if queue.maxapplications and limit.maxapplications > queue.maxapplications:
            shown = f"{limit.maxapplications} is above the queue's own {queue.maxapplications}"
            yield (*here, "maxapplications"), shown


def check_against_ancestors(queue: Queue, path: Path, bounds: Bounds) -> Iterator[Finding]:
    """Nobody gets more in a queue than in any queue around it."""
    for place, limit in enumerate(queue.limits):
        here = (*path, "limits", place)
        for whom in _whom(limit):
            if whom in bounds:
                yield from _check_bound(limit, here, whom, bounds[whom])


def _check_bound(limit: Limit, here: Path, whom: Whom, bound: Bound) -> Iterator[Finding]:
    who = f"{whom[0]} {whom[1]!r}"
    for name, amount in (limit.maxresources or {}).items():
        if name in bound.resources and amount > bound.resources[name][0]:
            most, queue = bound.resources[name]
            yield (*here, "maxresources", name), quantity.above(name, amount, f"the limit of {who} in {queue}", most)
    most, queue = bound.applications
    if most and not limit.maxapplications:
        yield (*here, "maxapplications"), f"has to be set for {who}: at most {most}, the limit of {queue}"
    elif most and limit.maxapplications > most:
        yield (*here, "maxapplications"), f"{limit.maxapplications} for {who} is above the {most} of {queue}"


def carried(queue: Queue, name: str, bounds: Bounds) -> Bounds:
    """The bounds for the queues below, with what this queue (its full path is `name`) adds."""
    if not queue.limits:
        return bounds
    below = dict(bounds)
    for limit in queue.limits:
        for whom in _whom(limit):
            below[whom] = below.get(whom, Bound()).tightened(limit, name)
    return below


def _whom(limit: Limit) -> list[Whom]:
    return [("user", name) for name in limit.users] + [("group", name) for name in limit.groups]
