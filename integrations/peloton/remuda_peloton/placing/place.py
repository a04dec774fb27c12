"""Places a gang as a whole, or says why not.

PACK_HOST, and no strategy: the first host by name that has room, from where the engine begins. SPREAD_JOB: a host with
as few tasks of the job as any. A desired host goes before both, if the task fits there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from ..rules.hosts import ROOM_KINDS, Room, covers, lacking, need
from ..rules.task import Task
from .constraints import Constraint, Label, needs_tasks, of_group, satisfied
from .hosts import Group, Hosts, HostView, label_count

SPREAD_JOB: Final = 2


class Wanted(msgspec.Struct, frozen=True):
    """A task, with its constraint and labels read."""

    task: Task
    constraint: Constraint | None = None
    labels: tuple[Label, ...] = ()

    @property
    def needs_tasks(self) -> bool:
        """Whether its place depends on the tasks that are on hosts."""
        return self.task.placement_strategy == SPREAD_JOB or needs_tasks(self.constraint)


class Placed(msgspec.Struct, frozen=True):
    wanted: Wanted
    hostname: str
    ports: tuple[int, ...]


def place_gang(hosts: Hosts, gang: Sequence[Wanted]) -> tuple[list[Placed], str]:
    """The placements of all tasks, which are taken from the hosts; or none, and the reason."""
    placed: list[Placed] = []
    for wanted in gang:
        view = _find(hosts, wanted)
        if view is None:
            reason = _why_not(hosts, wanted)
            for one in placed:
                give_back(hosts, one)
            return [], reason
        placed.append(_take(hosts, view, wanted))
    return placed, ""


def host_to_reserve(hosts: Hosts, wanted: Wanted) -> HostView | None:
    """The host where least has to end until the task fits; None: it never fits on one that is not reserved. Looks at
    all hosts."""
    needed, best, least = need(wanted.task), None, math.inf
    for group in hosts.groups:
        if not _may_be(group, wanted.constraint):
            continue
        for view in group.hosts:
            if not (view.is_open and _could_take(view, needed, wanted)):
                continue
            short = sum(
                max(0.0, want - have) / whole
                for want, have, whole in zip(needed, view.room, view.host.room, strict=True)
                if whole
            )
            if short < least:
                best, least = view, short
    return best


def give_back(hosts: Hosts, placed: Placed) -> None:
    """The placement is not made."""
    view = hosts.by_name.get(placed.hostname)
    if view is not None:
        hosts.give_back(view, need(placed.wanted.task), placed.ports)
        view.count(placed.wanted.task.job_id, placed.wanted.labels, -1)


def _take(hosts: Hosts, view: HostView, wanted: Wanted) -> Placed:
    ports = view.free_ports(wanted.task.num_ports) or ()
    hosts.take(view, need(wanted.task), ports)
    view.count(wanted.task.job_id, wanted.labels)
    return Placed(wanted, view.host.hostname, ports)


def _find(hosts: Hosts, wanted: Wanted) -> HostView | None:
    task, needed = wanted.task, need(wanted.task)
    reserved = hosts.reserved(task.mesos_id)
    if reserved is not None and covers(reserved.room, needed) and _accepts(reserved, wanted):
        return reserved
    groups = [group for group in hosts.groups if _may_be(group, wanted.constraint)]
    desired = hosts.by_name.get(task.desired_host) if task.desired_host else None
    if desired is not None and desired.group in groups and _takes(desired, needed, wanted):
        return desired
    if task.placement_strategy == SPREAD_JOB:
        return _fewest_of_job(groups, wanted, needed)
    for group in groups:
        place = group.tree.next(needed, group.start, _acceptor(group, wanted))
        if place is not None:
            return group.hosts[place]
    return None


def _fewest_of_job(groups: list[Group], wanted: Wanted, needed: Room) -> HostView | None:
    """Looks at the hosts that have tasks of the job, and at one that has none."""
    best: HostView | None = None

    def better(view: HostView) -> bool:
        """Whether the search may end here."""
        nonlocal best
        if not _accepts(view, wanted):
            return False
        count = view.jobs[wanted.task.job_id]
        if best is None or count < best.jobs[wanted.task.job_id]:
            best = view
        return count == 0

    for group in groups:
        if group.tree.next(needed, group.start, _looks(group, better)) is not None:
            break
    return best


def _looks(group: Group, looks: Callable[[HostView], bool]) -> Callable[[int], bool]:
    return lambda place: group.hosts[place].is_open and looks(group.hosts[place])


def _acceptor(group: Group, wanted: Wanted) -> Callable[[int], bool]:
    return _looks(group, lambda view: _accepts(view, wanted))


def _takes(view: HostView, needed: Room, wanted: Wanted) -> bool:
    return view.is_open and covers(view.room, needed) and _accepts(view, wanted)


def _accepts(view: HostView, wanted: Wanted) -> bool:
    if wanted.task.num_ports and view.free_ports(wanted.task.num_ports) is None:
        return False
    return wanted.constraint is None or satisfied(
        wanted.constraint, lambda label: label_count(view, label), lambda label: view.labels[label]
    )


def _could_take(view: HostView, needed: Room, wanted: Wanted) -> bool:
    """Whether the task fits there when enough has ended."""
    host, ports = view.host, wanted.task.num_ports
    has_ports = not ports or (host.first_port and host.last_port - host.first_port + 1 >= ports)
    constraint = wanted.constraint
    return (
        bool(has_ports)
        and covers(host.room, needed)
        and (
            constraint is None
            or satisfied(constraint, lambda label: label_count(view, label), lambda label: view.labels[label])
        )
    )


def _may_be(group: Group, constraint: Constraint | None) -> bool:
    """False: no host of the group satisfies the constraint."""
    return constraint is None or not of_group(constraint) or satisfied(constraint, group.has, lambda _: 0)


def _why_not(hosts: Hosts, wanted: Wanted) -> str:
    """Grows with the number of groups, not of hosts."""
    if not hosts.by_name:
        return "there are no hosts"
    groups = [group for group in hosts.groups if _may_be(group, wanted.constraint)]
    if not groups:
        return f"none of {len(hosts.by_name)} hosts satisfies the constraint"
    needed = need(wanted.task)
    most = tuple(max(amounts) for amounts in zip(*(group.tree.most for group in groups), strict=True))
    short = lacking(most, needed)
    count = sum(group.tree.size for group in groups)
    if short:
        amounts = ", ".join(
            f"{wants:g} {kind} (most free: {max(0.0, have):g})"
            for kind, wants, have in zip(ROOM_KINDS, needed, most, strict=True)
            if kind in short
        )
        return f"none of {count} hosts has {amounts}"
    return f"none of {count} hosts has enough of every kind, the ports, and satisfies the constraint"
