"""Hosts as a host manager describes them, and what tasks leave of them.

A `Room` has five amounts: cpu, gpu, memory, disk, and slack cpu. A revocable task needs slack cpu in place of cpu.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ..limits import EPSILON
from .resources import KINDS, Vector
from .task import Task

Room = tuple[float, float, float, float, float]
ROOM_KINDS: Final = (*KINDS, "slack cpu")


class HostLabel(msgspec.Struct, frozen=True):
    key: str
    value: str


class Host(msgspec.Struct, frozen=True):
    """A host as a host manager describes it. `capacity`: the amounts for tasks that are not revocable. `slack_cpu`:
    cores beside the capacity, which revocable tasks use instead. Ports: from `first_port` to `last_port`; 0: none.
    `pool`: the host pool. `draining`: nothing is placed there any more. `shared_with`: the name of its SharedHosts;
    empty: none."""

    hostname: str
    capacity: Vector
    slack_cpu: float = 0.0
    pool: str = ""
    draining: bool = False
    labels: tuple[HostLabel, ...] = ()
    first_port: int = 0
    last_port: int = 0
    shared_with: str = ""

    @property
    def room(self) -> Room:
        """The room of the host without any task."""
        return (*self.capacity, self.slack_cpu)


class SharedHosts(msgspec.Struct, frozen=True):
    """Hosts that are nodes of a resource manager of si.v1, too; its core decides what is there. `name`: of the resource
    manager and its partition. `epoch`: of the engine that places there. `capacity`, `slack_cpu`: what tasks on these
    hosts may hold together. `placed`: the number of the engine's newest placements."""

    name: str
    epoch: int
    capacity: Vector
    slack_cpu: float = 0.0
    placed: int = 0


def need(task: Task) -> Room:
    cpu, gpu, memory, disk = task.resource
    return (0.0, gpu, memory, disk, cpu) if task.revocable else (cpu, gpu, memory, disk, 0.0)


def less(room: Room, taken: Room) -> Room:
    """May be negative."""
    a, b, c, d, e = room
    u, v, w, x, y = taken
    return (a - u, b - v, c - w, d - x, e - y)


def room_left(host: Host, tasks: Iterable[Task]) -> Room:
    room = host.room
    for task in tasks:
        room = less(room, need(task))
    return room


def covers(room: Room, needed: Room) -> bool:
    """Whether the room covers the need, within EPSILON. A kind of which nothing is needed may be negative."""
    return all(want <= 0 or want - have < EPSILON for want, have in zip(needed, room, strict=True))


def lacking(room: Room, needed: Room) -> list[str]:
    """The kinds of which there is not enough."""
    rows = zip(ROOM_KINDS, needed, room, strict=True)
    return [kind for kind, want, have in rows if want > 0 and want - have >= EPSILON]


class Placement(msgspec.Struct, frozen=True):
    """Tasks that an engine has placed on one host. `tasks`: pairs of the ID of a task and the ID of its run. Agent,
    ports and offer are the engine's, and passed on."""

    hostname: str
    tasks: tuple[tuple[str, str], ...]
    type: int = 0
    agent_id: str = ""
    host_offer_id: str = ""
    ports: tuple[int, ...] = ()
