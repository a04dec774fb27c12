"""What the core knows of one resource manager. Only `evolve` writes here; everything can be rebuilt from the log.

The primary state is what the facts say. Two kinds of derived things are kept beside it and compared with rebuilt ones
by `check`: sums (`allocated`, `pending`, counts of priorities), kept by `evolve`, and the scheduling index
(`cycle.index`), which exists only where somebody schedules: a standby, a query or an auditor never pays for it. The
slots named `order`, `line`, `demand`, `group` and `gang` belong to the index. `by_key` of an application is built by
whoever first looks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from . import facts
from .rules import connection, lifecycle
from .rules.resource import Items, Resource, Sums, sums, times, total_of
from .settings import Limit, PartitionSettings, QueueSettings, Timing

if TYPE_CHECKING:
    from .cycle.gang import Gang
    from .cycle.index import Index
    from .cycle.nodes import Demand, NodeGroup
    from .cycle.order import Asks, LeafOrder, ParentOrder


# What makes asks of a queue alike to preemption: resource, required node, priority.
Like = tuple[Items, str, int]


@dataclass(slots=True, eq=False)
class Node:
    id: str
    attributes: facts.Tags
    capacity: Resource
    occupied: Resource
    draining: bool = False
    allocated: Sums = field(default_factory=sums)
    allocations: dict[str, Allocation] = field(default_factory=dict)
    # The ask it is kept for, and whether a preemption keeps it.
    reservation: PendingAsk | None = None
    kept_by_preemption: bool = False
    # uuid -> what is about to replace a placeholder on another node; counts in `allocated`.
    arriving: dict[str, Replacement] = field(default_factory=dict)
    group: NodeGroup | None = None

    @property
    def schedulable(self) -> bool:
        """Takes new allocations: not draining, and the RM does not say `ready: false`."""
        return not self.draining and self.attributes.get("ready", "true").lower() != "false"

    @property
    def candidate(self) -> bool:
        """Any ask may be placed on it."""
        return self.reservation is None and self.schedulable

    def __lt__(self, other: Node) -> bool:
        return self.id < other.id

    def available(self) -> dict[str, int]:
        """capacity - occupied - allocated, by every name one of them has; may be negative where capacity shrank."""
        rest = dict(self.capacity)
        for taken in (self.occupied, self.allocated):
            for name, amount in taken.items():
                rest[name] = rest.get(name, 0) - amount
        return rest


class Allocation(msgspec.Struct, eq=False):
    fact: facts.Allocated
    node: Node
    application: Application
    at_ms: int
    # Age of its ask; 0: the RM reported the allocation, it was never asked for here.
    asked_seq: int = 0
    # TerminationType the core has asked the RM to release it with, and when; 0: none. `overdue`: the RM has not done so
    # in time.
    releasing: int = 0
    releasing_ms: int = 0
    overdue: bool = False
    # Others had to go for it.
    by_preemption: bool = False
    # Of a placeholder: what takes its place once the RM has released it.
    replacement: Replacement | None = None
    # UUID of the placeholder whose place it took.
    replaced: str = ""

    @property
    def preempting(self) -> bool:
        """Counts as being preempted."""
        return self.releasing == facts.PREEMPTED_BY_SCHEDULER and not self.overdue


class Replacement(msgspec.Struct, eq=False):
    """A real ask that is about to take a placeholder's place (semantics section 12). `pending`: the ask as it was."""

    fact: facts.Allocated
    placeholder: Allocation
    pending: PendingAsk
    node: Node
    # Of the RM, whether it may be there; 0: none is open, and the placeholder's release has been asked for.
    question: int = 0

    @property
    def elsewhere(self) -> bool:
        """On another node than the placeholder, where its place is kept meanwhile."""
        return self.node is not self.placeholder.node


@dataclass(slots=True, eq=False)
class TaskGroup:
    """The placeholders of one task group of an application. `count` were asked for; of these `replaced` were replaced,
    and `timed_out` were given up."""

    name: str
    min_resource: Resource
    count: int = 0
    replaced: int = 0
    timed_out: int = 0
    # Asked for and not allocated yet; being replaced; and those that can be replaced, by UUID, the oldest first.
    coming: int = 0
    leaving: int = 0
    free: dict[str, Allocation] = field(default_factory=dict)

    @property
    def awaited(self) -> bool:
        """Real asks of the group are for its placeholders' places, not for any other. (No name, no group.)"""
        return bool(self.name) and (self.coming > 0 or self.leaving > 0 or bool(self.free))


class Question(msgspec.Struct, eq=False):
    """What is held until the RM answers."""

    fact: facts.PredicateAsked
    node: Node
    application: Application


NO_NODES: frozenset[str] = frozenset()


class PendingAsk(msgspec.Struct, eq=False):
    """`pending` of the ask's allocations are still to be made; a node is reserved for some of them, the others are
    `free`. `seq`: age, smaller is older."""

    ask: facts.Ask
    application: Application
    pending: int
    free: int
    seq: int
    at_ms: int
    # IDs of the nodes reserved for it, the oldest reservation first.
    reservations: tuple[str, ...] = ()
    line: Asks | None = None
    demand: Demand | None = None
    # So many more are held until the RM answers.
    asked: int = 0
    # IDs of the nodes the RM has refused it; why and when it was the last.
    refused: frozenset[str] = NO_NODES
    refusal: str = ""
    refused_at_ms: int = 0
    # Why it waits (Constraint.key), and since when; None: nobody was told yet.
    waiting: dict[tuple[str, str, str], int] | None = None
    # When others were preempted for it; 0: not yet.
    preempted_at_ms: int = 0
    preemption: Preemption | None = None


class Preemption(msgspec.Struct, eq=False):
    """Under way: until the ask is allocated or goes, or it turns out not to help. Where the RM declares predicates for
    it, it begins with a `question` (0: there is none, or it has been answered)."""

    pending: PendingAsk
    node: Node
    uuids: tuple[str, ...]
    at_ms: int
    question: int = 0


@dataclass(slots=True, eq=False)
class Application:
    id: str
    queue: Queue
    user: str
    groups: tuple[str, ...]
    tags: facts.Tags
    # Order of submission.
    seq: int
    at_ms: int
    execution_timeout_ms: int = 0
    placeholder_ask: Resource = field(default_factory=dict)
    gang_scheduling_style: str = ""
    state: str = lifecycle.NEW
    state_at_ms: int = 0
    log: list[tuple[int, str]] = field(default_factory=list)
    asks: dict[str, PendingAsk] = field(default_factory=dict)
    allocations: dict[str, Allocation] = field(default_factory=dict)
    # The same by allocation key, from the first time that somebody wants to know.
    by_key: dict[str, dict[str, Allocation]] | None = None
    # What it holds without placeholders, and how much those hold.
    allocated: Sums = field(default_factory=sums)
    allocated_placeholder: Sums = field(default_factory=sums)
    # How many of the allocations are placeholders; and when their time is over, 0 without any.
    placeholders: int = 0
    placeholders_until_ms: int = 0
    task_groups: dict[str, TaskGroup] = field(default_factory=dict)
    # By the UUID that the real allocation will have.
    replacements: dict[str, Replacement] = field(default_factory=dict)
    # A gang that did not come together in time and goes on as a normal application.
    resumed: bool = False
    gang: Gang | None = None
    # The highest priority of its pending asks, and how many have it; 0 without any. Of lower ones: how many have them.
    priority: int = 0
    foremost: int = 0
    lower: dict[int, int] = field(default_factory=dict)
    # It counts as a running application: from its first allocation until it is Completing, or has ended. `claims`: as
    # many nodes are reserved for it, and questions to the RM open; they count like allocations.
    runs: bool = False
    claims: int = 0
    # Where limits apply to it; and of these and of its queues, those that limit how many applications run.
    trackers: tuple[Tracker, ...] = ()
    gates: tuple[Queue | Tracker, ...] = ()

    @property
    def terminal(self) -> bool:
        return self.state in lifecycle.TERMINAL

    @property
    def pending(self) -> dict[str, int]:
        """What it asks for and has not got."""
        return total_of(times(ask.ask.resource, ask.pending) for ask in self.asks.values())

    @property
    def priorities(self) -> dict[int, int]:
        """Priority -> how many pending asks have it."""
        return {self.priority: self.foremost, **self.lower} if self.foremost else {}

    @property
    def reserving(self) -> bool:
        """A gang that has not come together yet."""
        return self.state == lifecycle.ACCEPTED and not self.resumed and any(self.placeholder_ask.values())

    def allocations_of(self, key: str) -> list[Allocation]:
        """Those that one ask led to."""
        if self.by_key is None:
            self.by_key = {}
            for uuid, allocation in self.allocations.items():
                self.by_key.setdefault(allocation.fact.allocation_key, {})[uuid] = allocation
        return list(self.by_key.get(key, {}).values())

    @property
    def execution_limit_ms(self) -> int:
        """How long it may be Running; 0: for ever. Of a gang the same field is how long it may take to come
        together."""
        return 0 if self.placeholder_ask else max(0, self.execution_timeout_ms)


class RejectedApplication(msgspec.Struct):
    fact: facts.ApplicationRejected
    at_ms: int


@dataclass(slots=True, eq=False)
class Tracker:
    """What a user or group uses of a queue, all queues below it included. There as long as an application counts in
    it (`members`)."""

    queue: Queue
    kind: str
    name: str
    limit: Limit
    used: Sums = field(default_factory=sums)
    running: int = 0
    members: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.name} in queue {self.queue.path}"

    def has_room(self, resource: Resource) -> bool:
        used = self.used
        for name, most in self.limit.max_resources.items():
            if resource.get(name, 0) > most - used[name]:
                return False
        return True

    @property
    def most_running(self) -> int:
        return self.limit.max_applications

    def has_slot(self) -> bool:
        return not self.limit.max_applications or self.running < self.limit.max_applications


@dataclass(slots=True, eq=False)
class Queue:
    path: str
    parent: Queue | None
    leaf: bool
    managed: bool
    settings: QueueSettings
    children: dict[str, Queue] = field(default_factory=dict)
    applications: dict[str, Application] = field(default_factory=dict)
    allocated: Sums = field(default_factory=sums)
    # What its own applications ask for and have not got.
    asked: Sums = field(default_factory=sums)
    # Of what is allocated, what the RM has been asked to release by preemption.
    preempting: dict[str, int] = field(default_factory=dict)
    # For which asks (resource, required node, priority) nothing could be preempted, and when that was.
    refusals: dict[Like, int] = field(default_factory=dict)
    draining_since_ms: int = 0
    # Priority -> how many applications (leaf) or children with pending asks have it; and the highest, mapped by this
    # queue's policy.
    priorities: dict[int, int] = field(default_factory=dict)
    priority: int = 0
    lineage: tuple[Queue, ...] = ()
    # `allocated` of the lineage: what every allocation is booked in.
    books: tuple[Sums, ...] = ()
    order: LeafOrder | ParentOrder | None = None
    # How many applications run in it and below; (kind, name) -> what that user or group uses.
    running: int = 0
    trackers: dict[tuple[str, str], Tracker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """`lineage`: this queue, its parent, ... root."""
        self.lineage = (self, *(self.parent.lineage if self.parent else ()))
        self.books = tuple(queue.allocated for queue in self.lineage)

    @property
    def draining(self) -> bool:
        return self.draining_since_ms > 0

    @property
    def name(self) -> str:
        return self.settings.name

    def __str__(self) -> str:
        return f"queue {self.path}"

    @property
    def pending(self) -> dict[str, int]:
        """What is asked for in it and below, and not allocated."""
        return total_of((self.asked, *(child.pending for child in self.children.values())))

    @property
    def most_running(self) -> int:
        return self.settings.max_applications

    def has_slot(self) -> bool:
        return not self.settings.max_applications or self.running < self.settings.max_applications

    def below(self) -> Iterator[Queue]:
        """This queue and all below it, parents first, by name."""
        yield self
        for name in sorted(self.children):
            yield from self.children[name].below()


@dataclass(slots=True, eq=False)
class Partition:
    name: str
    settings: PartitionSettings
    root: Queue
    queues: dict[str, Queue]
    nodes: dict[str, Node] = field(default_factory=dict)
    # Terminal ones included, until they expire or their ID is used again.
    applications: dict[str, Application] = field(default_factory=dict)
    # The last rejection of an ID, the oldest first.
    rejected: dict[str, RejectedApplication] = field(default_factory=dict)
    # uuid -> allocation
    allocations: dict[str, Allocation] = field(default_factory=dict)
    # Those the RM has not answered, by number.
    questions: dict[int, Question] = field(default_factory=dict)
    # Replacements the RM is asked about, by the number of the question.
    replacements_asked: dict[int, Replacement] = field(default_factory=dict)
    # Asks with refused nodes.
    refused: dict[PendingAsk, None] = field(default_factory=dict)
    # Sum of the nodes' capacities.
    total: dict[str, int] = field(default_factory=dict)
    draining: bool = False
    # (application, allocation key) -> preemption for that ask
    preemptions: dict[tuple[str, str], Preemption] = field(default_factory=dict)
    # When an attempt to preempt last led nowhere.
    preemption_refused_ms: int = 0
    # The configuration wants the rules of that version (semantics section 18).
    yunikorn_1_4: bool = False
    index: Index | None = None


# Longer than anything lasts.
NEVER_MS = 2**62

# The last group of a UUID, 12 digits.
FIRST_UUID = 100_000_000_001


class Alarm(NamedTuple):
    """Something is to happen to an application, or to what `key` names in it, unless it has changed by then."""

    at_ms: int
    kind: str
    partition: str
    application_id: str
    key: str


class Timers:
    """What is to happen by itself, and when; an alarm that no longer means anything is found out when it is due
    (`decide.expire`). The alarms follow from the facts, so they survive a restart. Many are set for the same
    millisecond: they are put in order when it comes, not before."""

    def __init__(self) -> None:
        self._times: list[int] = []  # a heap
        # Of each time the alarms, as plain tuples: quicker to make, and as keys the same.
        self._at: dict[int, dict[tuple[int, str, str, str, str], None]] = {}

    def set(self, at_ms: int, kind: str, partition: str, application_id: str, key: str = "") -> None:
        alarms = self._at.get(at_ms)
        if alarms is None:
            alarms = self._at[at_ms] = {}
            heappush(self._times, at_ms)
        alarms[at_ms, kind, partition, application_id, key] = None

    def cancel(self, alarm: Alarm) -> None:
        """Nothing if it is not set."""
        alarms = self._at.get(alarm.at_ms, {})
        alarms.pop(alarm, None)
        if not alarms:
            self._at.pop(alarm.at_ms, None)
            if len(self._times) > 2 * len(self._at) + 64:
                self._times = sorted(self._at)

    def next_ms(self) -> int | None:
        """When the earliest alarm is due."""
        while self._times and self._times[0] not in self._at:
            heappop(self._times)
        return self._times[0] if self._times else None

    def due(self, now_ms: int) -> Iterator[Alarm]:
        """The earliest first; each is given out once."""
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            yield from map(Alarm._make, sorted(self._at.pop(at_ms)))

    def __iter__(self) -> Iterator[Alarm]:
        """All that is set, in no order."""
        for alarms in self._at.values():
            yield from map(Alarm._make, alarms)


@dataclass(slots=True, eq=False)
class State:
    """All of one RM, at the position `inbox_seq` of its inbox and `request_seq`/`request_part` of its requests."""

    rm_id: str
    registration: int = 0
    # None: never, or not any more.
    registered: facts.RmRegistered | None = None
    rm_state: str = connection.INIT
    configuration: facts.ConfigurationApplied | None = None
    timing: Timing = field(default_factory=Timing)
    partitions: dict[str, Partition] = field(default_factory=dict)
    now_ms: int = 0
    inbox_seq: int = 0
    request_seq: int = 0
    request_part: int = 0
    next_seq: int = 0
    next_allocation: int = 0
    next_question: int = 1
    timers: Timers = field(default_factory=Timers)
    # Of RmRegistered, and what every allocation begins with in it; see `next_uuid`.
    life: int = 0
    uuid_prefix: str = ""

    def __post_init__(self) -> None:
        self.begin_life(0)

    def begin_life(self, life: int) -> None:
        self.life = life
        digest = sha256(f"{self.rm_id} {life}".encode() if life else self.rm_id.encode()).hexdigest()
        self.uuid_prefix = f"{digest[:8]}-{digest[8:12]}-8{digest[12:15]}-a{digest[15:18]}-"

    @property
    def yunikorn_1_4(self) -> bool:
        """The configuration wants the rules of that version (semantics section 18)."""
        return self.configuration is not None and self.configuration.compatibility == "yunikorn-1.4"

    @property
    def reservation_delay_ms(self) -> int:
        """How long an ask waits before it may reserve a node; for ever where the RM wants no reservations."""
        extra = self.registered.extra_config if self.registered is not None else {}
        return NEVER_MS if extra.get("reservation.disabled", "").lower() == "true" else self.timing.reservation_delay_ms

    @property
    def predicates(self) -> bool:
        """Whether the RM is asked before anything is placed."""
        return self._declares("predicates")

    @property
    def preemption_predicates(self) -> bool:
        """Whether the RM is asked before anything is preempted."""
        return self._declares("preemption_predicates")

    def _declares(self, name: str) -> bool:
        return self.registered is not None and self.registered.extra_config.get(name, "").lower() == "true"

    def next_uuid(self) -> str:
        """Of the next allocation: derived, never drawn. A UUID of version 8 (RFC 9562), from the rmID, the life and a
        number that is not used twice in it."""
        return self.uuid_prefix + str(FIRST_UUID + self.next_allocation)

    def partition_name(self, plain: str) -> str:
        return f"[{self.rm_id}]{plain}"
