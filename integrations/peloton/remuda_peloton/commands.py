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
    """Job managers enqueue gangs in a pool. The answer is an Enqueued."""

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
    """An engine takes at most `limit` gangs that are READY. `type`: the type of their tasks; 0: any type. The answer is
    a list of gangs, each a tuple of Handed."""

    limit: int
    type: int = 0


class Handed(msgspec.Struct, frozen=True):
    """A task as a client gets it, with the fields that the resource manager has added."""

    task: Task
    hostname: str
    timeout_s: float
    attempts: float
    cycles: float
    ready_for_host_reservation: bool


class FailedPlacement(msgspec.Struct, frozen=True):
    """Tasks for which an engine found no place. `tasks`: pairs of the ID of a task and the ID of its run; an empty ID
    of a run is the current run."""

    tasks: tuple[tuple[str, str], ...]
    reason: str = ""


class SharedEngine(msgspec.Struct, frozen=True):
    """The engine of the shared hosts `name`. `number`: the number of the engine's request."""

    name: str
    epoch: int
    number: int = 0


class SetPlacements(Command):
    """An engine places tasks. The answer is a list of the placements that were refused, each with a reason. `by`: the
    engine of shared hosts, which alone places on them, and on no other host; None: another engine."""

    placements: tuple[Placement, ...] = ()
    failed: tuple[FailedPlacement, ...] = ()
    by: SharedEngine | None = None


class GetPlacements(Command):
    """A job manager takes at most `limit` placements. The answer is a list of placements."""

    limit: int


class TaskEvent(msgspec.Struct, frozen=True):
    """An event about a run. `mesos_state`: a name of Mesos' TaskState; empty: an event of another type, which is only
    acknowledged."""

    offset: int
    run_id: str = ""
    mesos_state: str = ""


class NotifyTaskUpdates(Command):
    """A host manager reports events. The answer is the offset up to which events may be purged."""

    events: tuple[TaskEvent, ...]


class KillTasks(Command):
    """A job manager kills tasks. The answer is a tuple of the IDs that are not tracked."""

    task_ids: tuple[str, ...]


class GetPreemptibleTasks(Command):
    """A job manager takes at most `limit` tasks that it has to preempt. The answer is a list of Candidates."""

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
    """Create a pool. The answer is the ID of the pool, or an InvalidPool with the rule that the pool breaks."""

    pool: PoolConfig


class UpdatePool(Command):
    """Change a pool. The answer is None, or an InvalidPool. `force`: only the shape of the tree is checked."""

    pool: PoolConfig
    force: bool = False


class DeletePool(Command):
    """Delete a pool. The answer is None, or an InvalidPool: not_found, not_leaf, busy."""

    path: str


class DescribedPool(msgspec.Struct, frozen=True):
    """A pool as a file describes it. `path`: such as /a/b. `config`: the ID in it is for a new pool; name and parent
    follow from the path."""

    path: str
    config: PoolConfig


class ApplyPools(Command):
    """Replace all pools below root by the described pools. The answer is a tuple of the changes, in words, or an
    InvalidPool, whose `at` is the path of the pool with the problem."""

    pools: tuple[DescribedPool, ...]


class SetCapacity(Command):
    capacity: Vector
    slack_cpu: float = 0.0


class CalculateEntitlements(Command):
    pass


class Admit(Command):
    """One admission pass over all leaves, or the part of a pass over the leaves `pool_ids`. The answer is the number of
    gangs that were admitted. Pools that no longer exist are passed over."""

    pool_ids: tuple[str, ...] | None = None


class Preempt(Command):
    """One preemption cycle over all pools, or the part of a cycle over `pool_ids`. Pools that no longer exist are
    passed over. `most_victims`: preempt at most so many tasks. The answer is the rest of the chosen tasks, for
    `Evict`."""

    pool_ids: tuple[str, ...] | None = None
    most_victims: int | None = None


class Evict(Command):
    """Preempt tasks that `Preempt` has chosen: pairs of the ID of a task and the ID of its run."""

    victims: tuple[tuple[str, str], ...]


class DrainHosts(Command):
    """Preempt all tasks on the hosts. The answer is a tuple of the hosts that have no task."""

    hostnames: tuple[str, ...]


class RankHosts(Command):
    """Order the hosts of the shared host pool by the work that draining them would lose."""

    hostnames: tuple[str, ...]


class PutHosts(Command):
    """Add or replace hosts. The capacity is then the sum of the hosts that do not drain."""

    hosts: tuple[Host, ...]


class RemoveHosts(Command):
    hostnames: tuple[str, ...]


class ShareHosts(Command):
    """Describe shared hosts: `hosts` are new or have changed, `removed` are shared no longer. The answer is a
    SharingAnswer. `takes_over`: the engine begins, with a new epoch."""

    engine: SharedEngine
    capacity: Vector
    slack_cpu: float = 0.0
    hosts: tuple[Host, ...] = ()
    removed: tuple[str, ...] = ()
    takes_over: bool = False


class SharingAnswer(msgspec.Struct, frozen=True):
    """The answer of ShareHosts. `refused`: the reason why nothing has changed; empty: there is none. `foreign`: hosts
    that a host manager has described, and that are not shared."""

    refused: str = ""
    foreign: tuple[str, ...] = ()


class PreemptRuns(Command):
    """Preempt runs: pairs of the ID of a task and the ID of its run. Runs that have ended are passed over."""

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
    """An engine reserves hosts. The answer is a tuple of the reservations that were refused, each with a reason."""

    reservations: tuple[Reservation, ...]


class Report(msgspec.Struct, frozen=True):
    """All runs that the sender knows on one host, by hostname, or in one pool, by ID. `within`: the report is about
    runs of the pool with IDs in this range."""

    name: str
    run_ids: tuple[str, ...]
    within: Range = EVERYTHING


class Reconciled(msgspec.Struct, frozen=True):
    """The answer to a report. `now_ms`: the `as_of_ms` of the sender's next report. `ended`: runs that only the
    resource manager knew, and that it has ended."""

    now_ms: int
    unknown: tuple[str, ...]
    ended: tuple[str, ...]


class ReconcileHosts(Command):
    """A host manager's report. `as_of_ms`: the `now_ms` of an earlier answer, which the sender had before it began to
    read its runs. The answer is a Reconciled."""

    as_of_ms: int
    reports: tuple[Report, ...]


class ReconcilePools(Command):
    """A job manager's report, with `as_of_ms` and the answer as of ReconcileHosts."""

    as_of_ms: int
    reports: tuple[Report, ...]


class Tick(Command):
    """Time has passed: handle due timers."""
