"""Facts: what the resource manager has decided. Values, named in the past tense. `evolve` applies them.

A run is named by its task's ID and its own (Peloton: mesos task ID). `number` names a gang or a placement.
`due_ms`: when the new state times out, in ms; 0: never.
"""

from __future__ import annotations

import msgspec

from .rules.hosts import Host, Placement, SharedHosts
from .rules.pools import PoolConfig
from .rules.resources import Vector
from .rules.task import Task


class Fact(msgspec.Struct, frozen=True, tag=True):
    pass


class PoolCreated(Fact):
    pool: PoolConfig


class PoolUpdated(Fact):
    pool: PoolConfig


class PoolDeleted(Fact):
    pool_id: str


class CapacityChanged(Fact):
    """The capacity of all hosts, and the cores of it that are slack."""

    capacity: Vector
    slack_cpu: float


class Entitlement(msgspec.Struct, frozen=True):
    pool_id: str
    entitlement: Vector
    non_slack: Vector
    slack: Vector


class EntitlementsChanged(Fact):
    """Entitlements that differ from those before. One calculation may give several of these facts."""

    pools: tuple[Entitlement, ...]


class GangEnqueued(Fact):
    """The tasks are PENDING, in the pending queue of the pool. Runs of them that were held are orphans."""

    number: int
    pool_id: str
    tasks: tuple[Task, ...]
    reason: str = ""


class GangReduced(Fact):
    """Members that have ended are taken out of the gang. `keeps_place`: the others keep their place; else they go to
    the end of their queue."""

    number: int
    keeps_place: bool = False


class GangMoved(Fact):
    """The gang steps aside into another queue of its pool."""

    number: int
    queue: str


class GangAdmitted(Fact):
    """The tasks are READY, and hold their allocation."""

    number: int


class TaskDequeued(msgspec.Struct, frozen=True):
    task_id: str
    run_id: str
    state: str
    due_ms: int
    timeout_s: float
    attempts: float
    cycles: float


class GangDequeued(Fact):
    """An engine has the gang: its tasks are PLACING or RESERVED. Members that it has lost are not listed."""

    number: int
    tasks: tuple[TaskDequeued, ...]


class TaskRequeued(Fact):
    """The task goes back, alone, READY into the ready queue or PENDING into the pending queue, as the gang `number`.
    `reset`: its counters begin again."""

    task_id: str
    run_id: str
    state: str
    number: int
    reason: str
    ready_for_host_reservation: bool = False
    reset: bool = False


class GangRequeued(Fact):
    """The tasks go back together, as the gang `number`: from a ready queue, or from an engine. Else like
    TaskRequeued."""

    tasks: tuple[tuple[str, str], ...]
    state: str
    number: int
    reason: str
    ready_for_host_reservation: bool = False
    reset: bool = False


class HostReserved(Fact):
    """The host takes no other run, as long as this one is RESERVED. A former reservation of the run ends."""

    hostname: str
    task_id: str
    run_id: str


class PlacementQueued(Fact):
    """The tasks are PLACED, and the placement waits for a job manager."""

    number: int
    placement: Placement
    due_ms: int = 0


class PlacementTaken(Fact):
    """A job manager has the placement. The tasks that are still PLACED by it are LAUNCHING."""

    number: int
    due_ms: int


class TaskMoved(Fact):
    task_id: str
    run_id: str
    state: str
    reason: str
    due_ms: int = 0


class RunEnded(Fact):
    """The run has ended in a terminal state, or was killed, and holds nothing any more."""

    task_id: str
    run_id: str
    state: str
    reason: str


class RunRecovered(Fact):
    """A host manager has reported a run that was not known."""

    task: Task
    pool_id: str
    state: str
    started_ms: int = 0


class CandidateQueued(Fact):
    """The run waits to be preempted by its job manager. `reason`: a name of PreemptionReason."""

    task_id: str
    run_id: str
    reason: str


class CandidatesTaken(Fact):
    """The first `count` candidates have been given to a job manager, or were dropped."""

    count: int


class OverAllocationCounted(Fact):
    """The pool has held more than its entitlement in `count` preemption cycles, one after the other."""

    pool_id: str
    count: int


class HostsRanked(Fact):
    hosts: tuple[str, ...]


class HostsPut(Fact):
    """Hosts are new, or replace those of the same name."""

    hosts: tuple[Host, ...]


class HostsRemoved(Fact):
    hostnames: tuple[str, ...]


class HostsShared(Fact):
    """An engine describes hosts that are shared, and places there from now on."""

    shared: SharedHosts


class SharedPlaced(Fact):
    """The engine of shared hosts has set placements. `number`: its own."""

    name: str
    number: int


class EventsAcknowledged(Fact):
    offset: int


class TimePassed(Fact):
    """All timers due at `until_ms` have been handled."""

    until_ms: int


def kinds() -> tuple[type[Fact], ...]:
    return tuple(Fact.__subclasses__())
