"""Commands: what the resource manager is asked to do, and what it answers. Values; `wire` reads them from RPCs."""

from __future__ import annotations

from typing import Final

import msgspec

from .rules.hosts import Host, Placement
from .rules.pools import PoolConfig
from .rules.ranges import EVERYTHING, Range
from .rules.resources import Vector
from .rules.task import Task

INTERNAL: Final = "INTERNAL"
ALREADY_EXIST: Final = "ALREADY_EXIST"
GANG_FAILED: Final = "FAILED_DUE_TO_GANG_FAILED"

REVOKE_RESOURCES: Final = "PREEMPTION_REASON_REVOKE_RESOURCES"
HOST_MAINTENANCE: Final = "PREEMPTION_REASON_HOST_MAINTENANCE"


class Command(msgspec.Struct, frozen=True):
    pass


class EnqueueGangs(Command):
    """Answered with Enqueued."""

    pool_id: str
    gangs: tuple[tuple[Task, ...], ...]
    reason: str = ""


class TaskFailure(msgspec.Struct, frozen=True):
    task: Task
    code: str
    message: str


class Enqueued(msgspec.Struct, frozen=True):
    pool_found: bool
    failures: tuple[TaskFailure, ...] = ()


class DequeueGangs(Command):
    """`type`: 0: any. Answered with gangs, each a tuple of Handed."""

    limit: int
    type: int = 0


class Handed(msgspec.Struct, frozen=True):
    """A task as it is given to a client: with what the resource manager has added."""

    task: Task
    hostname: str
    timeout_s: float
    attempts: float
    cycles: float
    ready_for_host_reservation: bool


class FailedPlacement(msgspec.Struct, frozen=True):
    """`tasks`: pairs of a task's ID and its run's; an empty run is the current one."""

    tasks: tuple[tuple[str, str], ...]
    reason: str = ""


class SharedEngine(msgspec.Struct, frozen=True):
    """The engine of the shared hosts `name`. `number`: of its request."""

    name: str
    epoch: int
    number: int = 0


class SetPlacements(Command):
    """Answered with the placements that were refused, each with a reason. `by`: the engine of shared hosts, which alone
    places there, and nowhere else; None: another engine."""

    placements: tuple[Placement, ...] = ()
    failed: tuple[FailedPlacement, ...] = ()
    by: SharedEngine | None = None


class GetPlacements(Command):
    """Answered with placements."""

    limit: int


class TaskEvent(msgspec.Struct, frozen=True):
    """`mesos_state`: a name of Mesos' TaskState. Empty: an event of another type, which is only acknowledged."""

    offset: int
    run_id: str = ""
    mesos_state: str = ""


class NotifyTaskUpdates(Command):
    """Answered with the offset up to which events may be purged."""

    events: tuple[TaskEvent, ...]


class KillTasks(Command):
    """Answered with the IDs that are not tracked."""

    task_ids: tuple[str, ...]


class GetPreemptibleTasks(Command):
    """Answered with Candidates."""

    limit: int


class Candidate(msgspec.Struct, frozen=True):
    task_id: str
    run_id: str
    reason: str


class StateUpdate(msgspec.Struct, frozen=True):
    task_id: str
    run_id: str
    state: str


class UpdateTasksState(Command):
    updates: tuple[StateUpdate, ...]


class CreatePool(Command):
    """Answered with the ID of the pool, or the InvalidPool that says which rule it breaks."""

    pool: PoolConfig


class UpdatePool(Command):
    """Answered with None, or an InvalidPool. `force`: only the shape of the tree is checked."""

    pool: PoolConfig
    force: bool = False


class DeletePool(Command):
    """Answered with None, or an InvalidPool: not_found, not_leaf, busy."""

    path: str


class DescribedPool(msgspec.Struct, frozen=True):
    """`path`: /a/b. `config`: its ID is for a new pool; name and parent follow from the path."""

    path: str
    config: PoolConfig


class ApplyPools(Command):
    """All pools below root. Answered with what has changed, in words, or with an InvalidPool, whose `at` is the path of
    the pool that it is about."""

    pools: tuple[DescribedPool, ...]


class SetCapacity(Command):
    capacity: Vector
    slack_cpu: float = 0.0


class CalculateEntitlements(Command):
    pass


class Admit(Command):
    """One admission pass over all leaves, or the part of one: over these. Answered with the number of gangs that were
    admitted. Pools that are gone are passed over."""

    pool_ids: tuple[str, ...] | None = None


class Preempt(Command):
    """A preemption cycle, over all pools, or the part of one: over these. Pools that are gone are passed over.
    `most_victims`: preempt so many tasks. Answered with the others that were chosen, for `Evict`."""

    pool_ids: tuple[str, ...] | None = None
    most_victims: int | None = None


class Evict(Command):
    """Preempt tasks that `Preempt` has chosen: each with its ID and that of its run."""

    victims: tuple[tuple[str, str], ...]


class DrainHosts(Command):
    """Preempt all tasks on these hosts. Answered with the hosts that have none."""

    hostnames: tuple[str, ...]


class RankHosts(Command):
    """Order the hosts by what draining them would cost. `hostnames`: those of the shared host pool."""

    hostnames: tuple[str, ...]


class PutHosts(Command):
    """Add or replace hosts. The capacity is then the sum of the hosts that do not drain."""

    hosts: tuple[Host, ...]


class RemoveHosts(Command):
    hostnames: tuple[str, ...]


class ShareHosts(Command):
    """Describe hosts that are shared: those that are new or have changed, and those that are none any more. Answered
    with SharingAnswer. `takes_over`: the engine begins, with a new epoch."""

    engine: SharedEngine
    capacity: Vector
    slack_cpu: float = 0.0
    hosts: tuple[Host, ...] = ()
    removed: tuple[str, ...] = ()
    takes_over: bool = False


class SharingAnswer(msgspec.Struct, frozen=True):
    """`refused`: why nothing has changed. `foreign`: hosts that a host manager has described."""

    refused: str = ""
    foreign: tuple[str, ...] = ()


class PreemptRuns(Command):
    """Preempt these runs: each with its task's ID and its own. Those that have ended are passed over."""

    runs: tuple[tuple[str, str], ...]
    maintenance: bool = False


class RecoveredRun(msgspec.Struct, frozen=True):
    task: Task
    pool_id: str
    state: str
    started_ms: int = 0


class RecoverRuns(Command):
    """A host manager reports runs. Runs that are known are left as they are."""

    runs: tuple[RecoveredRun, ...]


class Reservation(msgspec.Struct, frozen=True):
    hostname: str
    task_id: str
    run_id: str


class ReserveHosts(Command):
    """Answered with the reservations that were refused, each with a reason."""

    reservations: tuple[Reservation, ...]


class Report(msgspec.Struct, frozen=True):
    """All runs that the sender knows of one host, by hostname, or of one pool, by ID. `within`: those of the pool whose
    IDs are in this range."""

    name: str
    run_ids: tuple[str, ...]
    within: Range = EVERYTHING


class Reconciled(msgspec.Struct, frozen=True):
    """`now_ms`: the `as_of_ms` of the sender's next report. `ended`: runs that were known here alone."""

    now_ms: int
    unknown: tuple[str, ...]
    ended: tuple[str, ...]


class ReconcileHosts(Command):
    """A host manager's report. `as_of_ms`: an earlier `now_ms`, which the sender had before it began to read what it
    knows. Answered with Reconciled."""

    as_of_ms: int
    reports: tuple[Report, ...]


class ReconcilePools(Command):
    """A job manager's report. Else like ReconcileHosts."""

    as_of_ms: int
    reports: tuple[Report, ...]


class Tick(Command):
    """Time has passed: handle due timers."""
