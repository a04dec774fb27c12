"""Nodes, queues and applications, and what belongs to them: asks, allocations, what is under way. Each knows the
others, so they stand in one file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from .. import facts
from ..limits import FIRST_STATES, LAST_STATES
from ..rules import lifecycle
from ..rules.resource import Items, Resource, Sums, sums, times, total_of
from ..settings import Limit, QueueSettings
from .placeholders import FreePlaceholders

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

    @property
    def ready(self) -> bool:
        """The RM does not say `ready: false`."""
        return self.attributes.get("ready", "true").lower() != "false"

    @property
    def schedulable(self) -> bool:
        """Takes new allocations of any ask: not draining, and ready."""
        return not self.draining and self.ready

    def takes(self, bound_to: str) -> bool:
        """Takes new allocations of an ask that is bound to this node ("": to none). A draining node takes those bound
        to it, and no others."""
        return self.ready and (bound_to == self.id or (not self.draining and not bound_to))

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
    # The RM was told that nothing more comes of its ask.
    ask_over: bool = False

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
    # Of the RM, whether it may be there; 0: none is open, and the placeholder's release has been asked for. When the
    # time for an answer is over; 0: not known, the question is in a snapshot of an earlier version.
    question: int = 0
    answer_by_ms: int = 0

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
    # Asked for and not allocated yet; being replaced; and those that can be replaced.
    coming: int = 0
    leaving: int = 0
    # How many of its placeholders are allocated.
    placed: int = 0
    free: FreePlaceholders[Allocation] = field(default_factory=FreePlaceholders)

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

NO_RESERVATIONS: dict[str, None] = {}  # shared, never written to


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
    reservations: dict[str, None] = NO_RESERVATIONS
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

    @property
    def has_place(self) -> bool:
        """Its place under maxima and limits is kept while others are preempted for it."""
        return self.preemption is not None and self.preemption.held


class PendingSum(msgspec.Struct, eq=False):
    """`pieces`: how many allocations are still to be made."""

    pieces: int
    amounts: Sums


class Preemption(msgspec.Struct, eq=False):
    """Under way: until the ask is allocated or goes, or it turns out not to help. Where the RM declares predicates for
    it, it begins with a `question` (0: there is none, or it has been answered)."""

    pending: PendingAsk
    node: Node
    uuids: tuple[str, ...]
    at_ms: int
    question: int = 0
    # The ask's place under maxima and limits is kept: counts in `held` of its application, queues and trackers.
    held: bool = False


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
    # The first states and the last, the present one included; so many between them are left out.
    log: list[tuple[int, str]] = field(default_factory=list)
    states_left_out: int = 0
    asks: dict[str, PendingAsk] = field(default_factory=dict)
    # Those for which nodes are reserved.
    reserving: dict[str, PendingAsk] = field(default_factory=dict)
    # What all of them want that is pending, from the first time that somebody wants to know.
    pending_sum: PendingSum | None = None
    allocations: dict[str, Allocation] = field(default_factory=dict)
    # The same by allocation key, from the first time that somebody wants to know.
    by_key: dict[str, dict[str, Allocation]] | None = None
    # How many of them have `ask_over`.
    asks_over: int = 0
    # What it holds without placeholders, and how much those hold.
    allocated: Sums = field(default_factory=sums)
    allocated_placeholder: Sums = field(default_factory=sums)
    # What is kept for its asks for which others are preempted.
    held: dict[str, int] = field(default_factory=dict)
    # How many of the allocations are placeholders; and when their time is over, 0 without any.
    placeholders: int = 0
    placeholders_until_ms: int = 0
    task_groups: dict[str, TaskGroup] = field(default_factory=dict)
    # By the UUID that the real allocation will have.
    replacements: dict[str, Replacement] = field(default_factory=dict)
    # The same by allocation key.
    replacements_by_key: dict[str, dict[str, Replacement]] = field(default_factory=dict)
    # A gang that did not come together in time and goes on as a normal application.
    resumed: bool = False
    # The highest priority of its pending asks, and how many have it; 0 without any. Of lower ones: how many have them.
    priority: int = 0
    foremost: int = 0
    lower: dict[int, int] = field(default_factory=dict)
    # From its first allocation until it is Completing, or has ended. Open claims count like allocations: the nodes that
    # are reserved for it, and the questions to the RM that have no answer yet.
    counts_as_running: bool = False
    open_claims: int = 0
    # Where limits apply to it; and of these and of its queues, those that limit how many applications run.
    trackers: tuple[Tracker, ...] = ()
    application_limits: tuple[Queue | Tracker, ...] = ()

    @property
    def terminal(self) -> bool:
        return self.state in lifecycle.TERMINAL

    def enters(self, state: str, at_ms: int) -> None:
        self.log.append((at_ms, state))
        if len(self.log) > FIRST_STATES + LAST_STATES:
            del self.log[FIRST_STATES]
            self.states_left_out += 1

    def forget_what_is_over(self) -> None:
        """It has ended and holds nothing: what it held things in is let go."""
        self.asks, self.allocations, self.by_key, self.replacements, self.lower = {}, {}, None, {}, {}
        self.reserving, self.pending_sum = {}, None
        self.asks_over = 0
        self.allocated, self.allocated_placeholder = sums(), sums()

    @property
    def pending(self) -> dict[str, int]:
        """What it asks for and has not got."""
        return total_of(times(ask.ask.resource, ask.pending) for ask in self.asks.values())

    def sum_pending(self) -> PendingSum:
        """`evolve` keeps it from the first call on."""
        if self.pending_sum is None:
            self.pending_sum = PendingSum(sum(ask.pending for ask in self.asks.values()), sums())
            self.pending_sum.amounts.update(self.pending)
        return self.pending_sum

    @property
    def priorities(self) -> dict[int, int]:
        """Priority -> how many pending asks have it."""
        return {self.priority: self.foremost, **self.lower} if self.foremost else {}

    def allocations_of(self, key: str) -> list[Allocation]:
        """Those that one ask led to."""
        if self.by_key is None:
            self.by_key = {}
            for uuid, allocation in self.allocations.items():
                self.by_key.setdefault(allocation.fact.allocation_key, {})[uuid] = allocation
        return list(self.by_key.get(key, {}).values())

    @property
    def execution_limit_ms(self) -> int:
        """How long the application may be Running; 0: for ever. Of a gang, also of one that has placeholders without a
        `placeholderAsk`, the same field is the time-out of its placeholders."""
        return 0 if self.placeholder_ask or self.task_groups else max(0, self.execution_timeout_ms)


@dataclass(slots=True, eq=False)
class Tracker:
    """What a user or group uses of a queue, all queues below it included. There as long as an application counts in
    it (`members`)."""

    queue: Queue
    kind: str
    name: str
    limit: Limit
    used: Sums = field(default_factory=sums)
    # Kept for asks for which others are preempted; no other ask takes it.
    held: dict[str, int] = field(default_factory=dict)
    running: int = 0
    members: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.name} in queue {self.queue.path}"

    def has_room(self, resource: Resource, held: Resource) -> bool:
        """`held`: what has to be left for others."""
        used = self.used
        for name, most in self.limit.max_resources.items():
            if resource.get(name, 0) > most - used[name] - (held.get(name, 0) if held else 0):
                return False
        return True

    @property
    def most_running(self) -> int:
        return self.limit.max_applications

    def has_running_slot(self) -> bool:
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
    # Kept for asks for which others are preempted; no other ask takes it.
    held: dict[str, int] = field(default_factory=dict)
    # For which asks (resource, required node, priority) nothing could be preempted, and when that was.
    refusals: dict[Like, int] = field(default_factory=dict)
    draining_since_ms: int = 0
    # Priority -> how many applications (leaf) or children with pending asks have it; and the highest, mapped by this
    # queue's policy.
    priorities: dict[int, int] = field(default_factory=dict)
    priority: int = 0
    path_to_root: tuple[Queue, ...] = ()
    # `allocated` of the path to root: what every allocation is booked in.
    ancestors_usage: tuple[Sums, ...] = ()
    # How many applications run in it and below; (kind, name) -> what that user or group uses.
    running: int = 0
    trackers: dict[tuple[str, str], Tracker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """`path_to_root`: this queue, its parent, ... root."""
        self.path_to_root = (self, *(self.parent.path_to_root if self.parent else ()))
        self.ancestors_usage = tuple(queue.allocated for queue in self.path_to_root)

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

    def has_running_slot(self) -> bool:
        return not self.settings.max_applications or self.running < self.settings.max_applications

    def below(self) -> Iterator[Queue]:
        """This queue and all below it, parents first, by name."""
        yield self
        for name in sorted(self.children):
            yield from self.children[name].below()
