"""Places a gang on hosts as a whole, or says why not. Values in, placements out; no clock and no network.

PACK_HOST, and no strategy: the first host by name that has room, from where the engine begins. SPREAD_JOB: a host with
as few tasks of the job as any. A desired host goes before both, if the task fits there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from .limits import ELSEWHERE
from .rules.hosts import ROOM_KINDS, Host, HostLabel, Room, covers, lacking, less, need
from .rules.task import Task

SPREAD_JOB: Final = 2


class Wanted(msgspec.Struct, frozen=True):
    """A task, with its constraint and labels read."""

    task: Task
    constraint: Constraint | None = None
    labels: tuple[Label, ...] = ()

    @property
    def needs_tasks(self) -> bool:
        """Whether the task's place depends on the tasks that are on hosts."""
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
        """Keep the host if it is the best so far. Return whether the search may end here."""
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
    """Whether the task fits on the host when enough tasks there have ended."""
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


class HostView:
    """A host as an engine sees it. `jobs`, `labels`: the number of tasks on the host by job and by label.
    `reserved_for`: the run that alone is placed there."""

    __slots__ = ("group", "host", "jobs", "labels", "place", "reserved_for", "room", "used_ports")

    def __init__(self, host: Host, room: Room, used_ports: Iterable[int] = (), reserved_for: str = "") -> None:
        self.host, self.room, self.used_ports, self.reserved_for = host, room, set(used_ports), reserved_for
        self.jobs: Counter[str] = Counter()
        self.labels: Counter[Label] = Counter()
        self.group: Group | None = None
        self.place = 0

    def count(self, job_id: str, labels: Iterable[Label], sign: int = 1) -> None:
        self.jobs[job_id] += sign
        for label in labels:
            self.labels[label] += sign

    @property
    def is_open(self) -> bool:
        """Whether any task may be placed on the host, also a task that needs nothing."""
        return not (self.host.draining or self.reserved_for)

    @property
    def shown(self) -> Room:
        """The room that searches find."""
        return self.room if self.is_open else NONE

    def free_ports(self, count: int) -> tuple[int, ...] | None:
        """The lowest free ports, or None if there are not so many."""
        found: list[int] = []
        port, last = self.host.first_port, self.host.last_port
        while len(found) < count:
            if not port or port > last:
                return None
            if port not in self.used_ports:
                found.append(port)
            port += 1
        return tuple(found)


class Group:
    """Hosts with the same labels, by name. `start`: where searches begin, as a part of the group."""

    def __init__(self, labels: frozenset[Label], hosts: list[HostView], start: float) -> None:
        self.labels, self.hosts = labels, hosts
        self.tree = RoomTree([view.shown for view in hosts])
        self.begin_at(start)
        for place, view in enumerate(hosts):
            view.group, view.place = self, place

    def begin_at(self, start: float) -> None:
        self.start = int(start * len(self.hosts))

    def has(self, label: Label) -> int:
        return int(label in self.labels)


class Hosts:
    """The hosts that an engine knows, by name, with the engine's own placements since. Hosts with the same labels are a
    group, with a tree of their own, so that a constraint is asked once for a group. `start`: from 0 to 1: engines that
    begin at different hosts meet less."""

    def __init__(self, start: float = 0.0) -> None:
        self._start = start
        self.by_name: dict[str, HostView] = {}
        self._reserved: dict[str, str] = {}  # run: host
        self._groups: list[Group] | None = []

    @property
    def groups(self) -> list[Group]:
        if self._groups is None:
            members: dict[frozenset[Label], list[HostView]] = {}
            for name in sorted(self.by_name):
                view = self.by_name[name]
                members.setdefault(_labels(view.host), []).append(view)
            self._groups = [Group(labels, views, self._start) for labels, views in members.items()]
        return self._groups

    def put(self, view: HostView) -> bool:
        """Take over what is told of a host. Returns whether there may be room that was not there before."""
        before = self.by_name.get(view.host.hostname)
        self.by_name[view.host.hostname] = view
        self._replace(before, view)
        if view.reserved_for:
            self._reserved[view.reserved_for] = view.host.hostname
        return before is None or (before.host, before.room, before.used_ports, before.reserved_for) != (
            view.host, view.room, view.used_ports, view.reserved_for,
        )  # fmt: skip

    def reserved(self, run_id: str) -> HostView | None:
        """The host that is reserved for the run, if it takes it."""
        view = self.by_name.get(self._reserved.get(run_id, ""))
        if view is None or view.reserved_for != run_id:
            self._reserved.pop(run_id, None)
            return None
        return None if view.host.draining else view

    def _replace(self, before: HostView | None, view: HostView) -> None:
        if self._groups is None or before is None or before.group is None or before.host != view.host:
            self._groups = None
            return
        view.group, view.place = before.group, before.place
        view.group.hosts[view.place] = view
        self._show(view)

    def begin_elsewhere(self) -> None:
        """Another engine fills the hosts where searches begin."""
        self._start = (self._start + ELSEWHERE) % 1.0
        for group in self._groups or ():
            group.begin_at(self._start)

    def keep_only(self, hostnames: set[str]) -> None:
        if gone := self.by_name.keys() - hostnames:
            for name in gone:
                del self.by_name[name]
            self._groups = None

    def take(self, view: HostView, room: Room, ports: Iterable[int]) -> None:
        view.room = less(view.room, room)
        view.used_ports.update(ports)
        self._show(view)

    def give_back(self, view: HostView, room: Room, ports: Iterable[int]) -> None:
        a, b, c, d, e = room
        view.room = less(view.room, (-a, -b, -c, -d, -e))
        view.used_ports.difference_update(ports)
        self._show(view)

    def _show(self, view: HostView) -> None:
        if self._groups is not None and view.group is not None:
            view.group.tree.put(view.place, view.shown)


def label_count(view: HostView, label: Label) -> int:
    """How often the host itself has a label: its name and its host pool are labels, too."""
    if label[0] == HOSTNAME:
        return int(label[1] == view.host.hostname)
    return view.group.has(label) if view.group is not None else int(label in _labels(view.host))


def _labels(host: Host) -> frozenset[Label]:
    pool = (HostLabel(HOST_POOL, host.pool),) if host.pool else ()
    return frozenset((one.key, one.value) for one in (*host.labels, *pool) if one.key != HOSTNAME)


NONE: Final[Room] = (float("-inf"),) * 5


class RoomTree:
    def __init__(self, rooms: Sequence[Room]) -> None:
        self.size = len(rooms)
        self._leaves = 1 << max(0, self.size - 1).bit_length()
        self._most: list[Room] = [NONE] * (2 * self._leaves)
        self._most[self._leaves : self._leaves + self.size] = rooms
        for branch in range(self._leaves - 1, 0, -1):
            self._join(branch)

    @property
    def most(self) -> Room:
        """The most of each kind that a host has."""
        return self._most[1]

    def put(self, place: int, room: Room) -> None:
        branch = self._leaves + place
        self._most[branch] = room
        while branch > 1:
            branch //= 2
            before = self._most[branch]
            self._join(branch)
            if self._most[branch] == before:
                break

    def next(self, needed: Room, start: int, accept: Callable[[int], bool]) -> int | None:
        """The first place from `start` on, and then from 0, that has room and is accepted."""
        found = self._within(needed, start, self.size, accept)
        return found if found is not None or start == 0 else self._within(needed, 0, start, accept)

    def _within(self, needed: Room, start: int, end: int, accept: Callable[[int], bool]) -> int | None:
        leaves, most = self._leaves, self._most
        open_branches = [(1, 0, leaves)]
        while open_branches:
            branch, low, high = open_branches.pop()
            if high <= start or low >= end or not covers(most[branch], needed):
                continue
            if branch >= leaves:
                if accept(low):
                    return low
                continue
            middle = (low + high) // 2
            open_branches.append((2 * branch + 1, middle, high))
            open_branches.append((2 * branch, low, middle))
        return None

    def _join(self, branch: int) -> None:
        a, b = self._most[2 * branch], self._most[2 * branch + 1]
        self._most[branch] = a if b is NONE else (
            max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]), max(a[4], b[4])
        )  # fmt: skip


HOSTNAME: Final = "hostname"
HOST_POOL: Final = "host_pool"
LESS, EQUAL, GREATER = "<", "=", ">"
ALL, ANY = "all", "any"

Label = tuple[str, str]
Count = Callable[[Label], int]


class LabelConstraint(msgspec.Struct, frozen=True):
    """A constraint that compares with `requirement` how often a label occurs: on a host 0 or 1 times, on tasks as often
    as tasks on the host have it. `of_tasks`: the labels of tasks count, not the labels of the host. `condition`: LESS,
    EQUAL, GREATER."""

    label: Label
    condition: str
    requirement: int
    of_tasks: bool = False


class Combined(msgspec.Struct, frozen=True):
    """A combination of constraints. `kind`: ALL or ANY of the constraints must be satisfied."""

    kind: str
    constraints: tuple[Constraint, ...]


Constraint = LabelConstraint | Combined
UNREADABLE: Final = Combined(ANY, ())  # which no host satisfies


def satisfied(constraint: Constraint, host_labels: Count, task_labels: Count) -> bool:
    if isinstance(constraint, Combined):
        each = (satisfied(one, host_labels, task_labels) for one in constraint.constraints)
        return all(each) if constraint.kind == ALL else any(each)
    count = (task_labels if constraint.of_tasks else host_labels)(constraint.label)
    if constraint.condition == LESS:
        return count < constraint.requirement
    return count > constraint.requirement if constraint.condition == GREATER else count == constraint.requirement


def of_group(constraint: Constraint) -> bool:
    """Whether all hosts with the same labels satisfy the constraint, or none: it asks neither for a hostname nor for
    tasks."""
    if isinstance(constraint, Combined):
        return all(of_group(one) for one in constraint.constraints)
    return not constraint.of_tasks and constraint.label[0] != HOSTNAME


def needs_tasks(constraint: Constraint | None) -> bool:
    if isinstance(constraint, Combined):
        return any(needs_tasks(one) for one in constraint.constraints)
    return constraint is not None and constraint.of_tasks
