"""The state: the contents of the facts of the log, and sums over them. Only `evolve` writes it."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from .rules.admission import QUEUES, Room
from .rules.entitlement import PoolTree
from .rules.hosts import Host, Placement, SharedHosts
from .rules.lifecycle import UNPLACED
from .rules.pools import ROOT, PoolConfig
from .rules.resources import ZERO, Vector
from .rules.task import Allocation, Task, Traits, traits


class Run:
    """One run of a task. `gang`, `placement`: numbers; 0: none. `taken_in`: the number of the gang in which an engine
    has it; 0: no engine has it. `known_ms`: the time since which the run is tracked. `reserved_host`: the host that
    takes only this run; empty: none. `due_ms`: the time at which the state of the run times out; 0: never."""

    __slots__ = (
        "attempts", "cycles", "due_ms", "gang", "hostname", "known_ms", "placement", "pool_id", "ports",
        "ready_for_host_reservation", "reason", "reserved_host", "since_ms", "started_ms", "state", "taken_in", "task",
        "timeout_s",
    )  # fmt: skip

    def __init__(self, task: Task, pool_id: str, state: str, now_ms: int, reason: str = "") -> None:
        self.task = task
        self.pool_id = pool_id
        self.state = state
        self.reason = reason
        self.since_ms = self.known_ms = now_ms
        self.started_ms = 0
        self.due_ms = 0
        self.hostname = task.hostname
        self.timeout_s = 0.0
        self.attempts = task.attempts
        self.cycles = task.cycles
        self.ready_for_host_reservation = task.ready_for_host_reservation
        self.gang = 0
        self.ports: tuple[int, ...] = ()
        self.placement = 0
        self.taken_in = 0
        self.reserved_host = ""


class Pool:
    """A pool with its queues and sums. `runs`: tracked runs by the ID of their task. `reservation`, `controller_limit`:
    from the configuration."""

    def __init__(self, config: PoolConfig) -> None:
        self.children: dict[str, None] = {}
        self.queues = {name: GangQueue() for name in QUEUES}
        self.runs: dict[str, Run] = {}
        self.demand: Vector = ZERO
        self.slack_demand: Vector = ZERO
        self.allocation = Allocation()
        self.entitlement: Vector = ZERO
        self.non_slack: Vector = ZERO
        self.slack: Vector = ZERO
        self.over_count = 0
        self.configure(config)

    def configure(self, config: PoolConfig) -> None:
        self.config = config
        self.reservation = config.amounts("reservation")
        self.controller_limit = config.controller_limit()

    @property
    def is_leaf(self) -> bool:
        return not self.children and self.config.id != ROOT

    def room(self) -> Room:
        return Room(self.allocation, self.non_slack, self.slack, self.reservation, self.controller_limit)


class State:
    """`waiting`: leaves with gangs in a queue. `hosts`: runs by host and run, also those that only name the host.
    `known_hosts`: those that a host manager has described; `host_changes`: when each of them, or what runs there, has
    changed last, oldest first: derived, and of a restored state that of its restoring. `task_of`: tasks of tracked
    runs and of orphans. `taken`: the runs of gangs that engines have, by number and task; `reserved`: the runs for
    which hosts are reserved: both derived. `shared`: hosts that are nodes of another resource manager, too, by name.
    `tree`: that of `pool_tree`; None: pools have changed since. `pools_changed_ms`: when: derived, and of a restored
    state that of its restoring."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.pools: dict[str, Pool] = {ROOT: Pool(PoolConfig(ROOT, ROOT, ""))}
        self.capacity: Vector | None = None
        self.slack_cpu = 0.0
        self.tree: PoolTree | None = None
        self.pools_changed_ms = 0
        self.runs: dict[str, Run] = {}
        self.orphans: dict[str, Run] = {}
        self.task_of: dict[str, str] = {}
        self.hosts: dict[str, dict[str, Run]] = {}
        self.gangs: dict[int, Gang] = {}
        self.waiting: dict[str, None] = {}
        self.ready: dict[int, OrderedDict[int, None]] = {}
        self.ready_count = 0
        self.taken: dict[int, dict[str, Run]] = {}
        self.placements: OrderedDict[int, Placement] = OrderedDict()
        self.candidates: OrderedDict[str, tuple[str, str]] = OrderedDict()  # run: (task, reason)
        self.timers: list[tuple[int, str, str]] = []  # a heap: (due_ms, task, run)
        self.known_hosts: dict[str, Host] = {}
        self.host_changes: OrderedDict[str, int] = OrderedDict()
        self.reserved: dict[str, Run] = {}
        self.shared: dict[str, SharedHosts] = {}
        self.ranked_hosts: tuple[str, ...] = ()
        self.acknowledged = 0
        self.last_number = 0

    def host_changed(self, hostname: str) -> None:
        if hostname in self.known_hosts:
            self.host_changes[hostname] = self.now_ms
            self.host_changes.move_to_end(hostname)

    def runs_on(self, hostname: str) -> list[Run]:
        """The runs on the host, without runs that only name it."""
        return [run for run in self.hosts.get(hostname, {}).values() if run.state not in UNPLACED]

    def pools_changed(self) -> None:
        self.tree, self.pools_changed_ms = None, self.now_ms

    def pool_tree(self) -> PoolTree:
        """The tree of pools. It is kept until a pool changes: making a tree takes longer than a calculation on it."""
        if self.tree is None:
            self.tree = PoolTree(self.configs())
        return self.tree

    def configs(self) -> dict[str, PoolConfig]:
        return {pool_id: pool.config for pool_id, pool in self.pools.items()}

    def run_of(self, task_id: str, run_id: str) -> Run | None:
        """The tracked run of the task, if it is this one."""
        run = self.runs.get(task_id)
        return run if run is not None and run.task.mesos_id == run_id else None

    def taken_with(self, run: Run) -> tuple[Run, ...]:
        """The run, and those that an engine has together with it."""
        return tuple(self.taken[run.taken_in].values()) if run.taken_in else (run,)

    def members(self, gang: Gang) -> tuple[Run, ...]:
        """The runs that are still in the gang."""
        runs = (self.runs.get(task.id) for task in gang.tasks)
        return tuple(run for run in runs if run is not None and run.gang == gang.number)


class Gang(msgspec.Struct):
    """A gang that waits in a queue. `queue`: a name of rules.admission.QUEUES, or READY. A member whose run does not
    name this gang has left the gang."""

    number: int
    pool_id: str
    tasks: tuple[Task, ...]
    queue: str

    @property
    def traits(self) -> Traits:
        return traits(self.tasks)


class GangQueue:
    """A queue of numbers of gangs: higher priorities first, then the order of arrival."""

    def __init__(self) -> None:
        self._by_priority: dict[int, OrderedDict[int, None]] = {}
        self._descending: list[int] = []  # negated priorities

    def add(self, number: int, priority: int) -> None:
        gangs = self._by_priority.get(priority)
        if gangs is None:
            gangs = self._by_priority[priority] = OrderedDict()
            insort(self._descending, -priority)
        gangs[number] = None

    def remove(self, number: int, priority: int) -> None:
        gangs = self._by_priority[priority]
        del gangs[number]
        if not gangs:
            del self._by_priority[priority]
            self._descending.remove(-priority)

    def first(self) -> int | None:
        return next(iter(self), None)

    def __iter__(self) -> Iterator[int]:
        for negated in self._descending:
            yield from self._by_priority[-negated]

    def __len__(self) -> int:
        return sum(len(gangs) for gangs in self._by_priority.values())

    def __bool__(self) -> bool:
        return bool(self._descending)
