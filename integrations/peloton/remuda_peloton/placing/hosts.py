"""The hosts as an engine sees them: what the resource manager has told, and what the engine itself has placed since.

Hosts with the same labels are a group, with a tree of their own, so that a constraint is asked once for a group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..limits import ELSEWHERE
from ..rules.hosts import Host, HostLabel, Room, less
from .constraints import HOST_POOL, HOSTNAME, Label
from .room_tree import NONE, RoomTree


class HostView:
    """One host. `jobs`, `labels`: how many tasks there have this job, this label. `reserved_for`: the run that alone is
    placed there."""

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
        """Whether any task may be placed there, also one that needs nothing."""
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
    """`start`: from 0 to 1: engines that begin at different hosts meet less."""

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
