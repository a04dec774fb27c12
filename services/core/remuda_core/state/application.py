"""Nodes, queues, applications and asks, with all that they hold. They refer to each other, so they share a module."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from .. import facts
from ..facts import Allocated
from ..limits import ALLOCATIONS_PER_NODE, FIRST_STATES, LAST_STATES
from ..rules import lifecycle
from ..rules.devices import names_of, occupied_of, shares_of, unfit_of
from ..rules.keyed import unlist
from ..rules.leaving import leaves_for
from ..rules.properties import NO_MEMORY, Memory
from ..rules.resource import Items, Resource, Sums, add, amounts_above, sums, times, total_of
from ..settings import Limit, QueueSettings
from .accounts import Account
from .budgets import Budget
from .timers import NEVER_MS


class Devices(msgspec.Struct, eq=False):
    """The devices of one resource on a node (semantics section 20)."""

    # The amount of one device.
    unit: int
    # By the name of each device, in the order of their positions: what others than allocations leave of it.
    room: dict[str, int] = {}
    # The names of devices on which nothing new is placed.
    unfit: frozenset[str] = frozenset()
    # By name: what allocations and held room take, also of devices that have left the node.
    used: dict[str, int] = {}

    def lay_out(
        self, resource: str, capacity: Resource, attributes: Mapping[str, str], occupied: int,
        on_devices: Iterable[tuple[str, int]],
    ) -> None:  # fmt: skip
        """Take the devices that the node has now. `occupied`: what others take of the resource. `on_devices`: on which
        devices that is, as far as it is known; the rest is taken from the last ones."""
        names = names_of(resource, attributes, capacity.get(resource, 0) // self.unit)
        self.room = dict.fromkeys(names, self.unit)
        self.unfit = unfit_of(resource, attributes)
        for name, amount in (*occupied_of(resource, attributes), *on_devices):
            if name in self.room:
                taken = min(amount, occupied, self.room[name])
                self.room[name] -= taken
                occupied -= taken
        for name in reversed(names):
            taken = max(0, min(self.room[name], occupied))
            self.room[name] -= taken
            occupied -= taken

    def book(self, names: str, amount: int, times: int) -> None:
        """Take the amount from these devices in equal shares; with `times` -1, give it back. `names`: as in facts."""
        if "," not in names:
            self._book(names, amount * times)
            return
        devices = names.split(",")
        for name, share in zip(devices, shares_of(amount, len(devices)), strict=True):
            self._book(name, share * times)

    def _book(self, name: str, amount: int) -> None:
        left = self.used.get(name, 0) + amount
        if left:
            self.used[name] = left
        else:
            self.used.pop(name, None)

    def free(self) -> list[int]:
        """The amounts that are free on each device, by position. Negative where more is booked than there is."""
        used = self.used
        return [room - used.get(name, 0) for name, room in self.room.items()] if used else list(self.room.values())

    def offered(self) -> list[int]:
        """The amounts that asks may take of each device, by position: nothing of a device that is unfit."""
        free = self.free()
        if self.unfit:
            free = [0 if name in self.unfit else amount for name, amount in zip(self.room, free, strict=True)]
        return [amount if amount > 0 else 0 for amount in free] if free and min(free) < 0 else free

    def names_at(self, positions: Iterable[int]) -> str:
        """The names of the devices at these positions, as facts have them."""
        names = list(self.room)
        return ",".join([names[at] for at in positions])


class PredicateClass:
    """Asks that are equal to the predicates of the RM, and its verdicts about nodes for them. All asks of the class
    have it as `PendingAsk.refused`: a container of the nodes that the RM refuses. It is False, because it holds no
    refusals of one ask alone."""

    __slots__ = (
        "accepted", "answer_by_ms", "asked", "asks", "name", "question", "refusal", "refused", "until_ms",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.asks = 0  # asks of this class that are pending or in question
        # Verdicts in force: node ID -> when it ends, in ms; NEVER_MS: when the node changes.
        self.accepted: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.refusal = ""  # the last node that was refused, and why
        self.until_ms = NEVER_MS  # when a verdict ends by time: that of the timer; NEVER_MS: none does
        # The open question: its number (0: none), the nodes in it that have not changed since, and its deadline.
        self.question = 0
        self.asked: dict[str, None] = {}
        self.answer_by_ms = 0

    def __contains__(self, node_id: object) -> bool:
        """Whether the RM refuses the node."""
        return node_id in self.refused

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[str]:
        """The refused nodes."""
        return iter(self.refused)

    @property
    def verdicts(self) -> int:
        return len(self.accepted) + len(self.refused)

    def accepts(self, node_id: str, now_ms: int) -> bool:
        """Whether the RM has accepted the node, and the verdict is in force."""
        return self.accepted.get(node_id, 0) > now_ms

    def has_verdict(self, node_id: str) -> bool:
        return node_id in self.accepted or node_id in self.refused


# (resource, required node, priority): asks of a queue that preemption treats alike.
Like = tuple[Items, str, int]


class Promise(msgspec.Struct, frozen=True):
    """A time at which a reserved node has room for its ask: as promised now and as promised first, in ms; when and why
    it changed last (0: never)."""

    promised_ms: int
    first_ms: int
    changed_ms: int = 0
    cause: str = ""


@dataclass(slots=True, eq=False)
class Node:
    """A node, and what is on it. What is available is the capacity without `occupied` and `allocated`."""

    id: str
    attributes: facts.Tags
    capacity: Resource
    # What is used beside the allocations, with the resources of `rejected`.
    occupied: Resource
    # The RM drains it, or an operator does (`drained`), or both. An operator may also drain it from a time on.
    draining: bool = False
    drained_by_rm: bool = False
    drained: Hold | None = None
    # When it leaves by its attribute; NEVER_MS: that is not there. `left`: it is drained, as the time has come.
    leaving_ms: int = NEVER_MS
    left: bool = False
    # The windows of the calendar that are about it; and those of maintenance that drain it, as they have opened.
    windows: tuple[str, ...] = ()
    in_windows: tuple[str, ...] = ()
    # When it leaves next, for which asks (`rules.leaving`).
    departures: Mapping[str, int] = field(default_factory=dict)
    # The sum of `allocations`, of `arriving`, and of what open questions to the RM hold here.
    allocated: Sums = field(default_factory=sums)
    allocations: dict[str, Allocation] = field(default_factory=dict)
    # Resources of those allocations that are bound to the node and therefore stay on it.
    bound: dict[str, int] = field(default_factory=dict)
    # The ask for which the node is reserved, and whether a preemption has reserved it.
    reservation: PendingAsk | None = None
    kept_by_preemption: bool = False
    reserved_ms: int = 0  # since when
    # When the node has room for the ask at the latest. None: that is not known.
    promise: Promise | None = None
    # The preemption for a group for which the node is kept: nothing else is placed on it.
    kept: Preemption | None = None
    # By UUID: replacements of placeholders on other nodes, whose allocations will be here. They count in `allocated`.
    arriving: dict[str, Replacement] = field(default_factory=dict)
    rejected: dict[str, RejectedAllocation] = field(default_factory=dict)  # in `occupied`, by name
    # How many more allocations it may have. Those arriving and those that the RM is asked about count.
    allocations_left: int = field(default_factory=lambda: ALLOCATIONS_PER_NODE)
    # False: guests are there, and the RM has not reported the node since it registered (`Partition.unreported`).
    reported: bool = True
    # By resource, for all that stand on devices in the partition.
    devices: dict[str, Devices] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether the node has no attribute `ready: false`."""
        return self.attributes.get("ready", "true").lower() != "false"

    @property
    def leaves_ms(self) -> int:
        """When the node is drained next, by its attribute or by an operator, in ms; NEVER_MS: that is not known."""
        by_rm, drained = NEVER_MS if self.left else self.leaving_ms, self.drained
        return min(by_rm, drained.from_ms) if drained is not None and drained.from_ms else by_rm

    def leaves_for(self, pending: PendingAsk) -> int:
        """When the node leaves for the ask, in ms; NEVER_MS: that is not known, or it does not."""
        ask = pending.ask
        return leaves_for(self.departures, pending.application.queue.path, ask.tags, ask.execution_timeout_ms)

    @property
    def is_drained(self) -> bool:
        """Whether the node has to be draining: the RM drains it, or an operator does, or it has left, or a window has
        opened."""
        return self.drained_by_rm or self.left or self.drained_by_operator or bool(self.in_windows)

    @property
    def drained_by_operator(self) -> bool:
        """Whether an operator drains the node now, and not only from a later time on."""
        return self.drained is not None and not self.drained.from_ms

    @property
    def schedulable(self) -> bool:
        """Whether the node accepts new allocations of any ask: it is ready and not draining."""
        return not self.draining and self.ready

    def takes(self, bound_to: str) -> bool:
        """Whether the node accepts new allocations of an ask that is bound to `bound_to` ("": to none). A draining node
        accepts only asks that are bound to it."""
        return self.ready and (bound_to == self.id or (not self.draining and not bound_to))

    @property
    def full(self) -> bool:
        """Whether the node has as many allocations as a node may have, and accepts no more, whatever room it has."""
        return self.allocations_left <= 0

    @property
    def preempting(self) -> bool:
        """Whether a preemption is under way on the node for the ask that it is reserved for."""
        found = self.reservation.preemption if self.reservation is not None else None
        return found is not None and found.node is self

    @property
    def candidate(self) -> bool:
        """Whether the node accepts new allocations of any ask, and is not reserved."""
        return self.reservation is None and self.kept is None and self.schedulable and not self.full

    def __lt__(self, other: Node) -> bool:
        return self.id < other.id

    def available(self) -> dict[str, int]:
        """The available amounts: capacity - occupied - allocated, for each name in any of them. They are negative after
        the capacity has shrunk."""
        return self._less(self.allocated)

    def obtainable(self) -> dict[str, int]:
        """The amounts that are available once everything has left that can leave: capacity - occupied - allocations
        bound to the node, for each name in any of them. An ask for more never runs there."""
        return self._less(self.bound)

    def _less(self, allocated: Resource) -> dict[str, int]:
        rest = dict(self.capacity)
        for taken in (self.occupied, allocated):
            for name, amount in taken.items():
                rest[name] = rest.get(name, 0) - amount
        return rest


class Allocation(msgspec.Struct, eq=False):
    """An allocation, from the fact that makes it until its release is confirmed. The partition, its node and its
    application have it by UUID, and its resource counts in the sums of all three, of its queues and of its trackers."""

    fact: facts.Allocated
    node: Node
    application: Application
    at_ms: int
    # `PendingAsk.seq` of its ask; 0: the RM reported the allocation as running.
    asked_seq: int = 0
    asked_ms: int = 0  # when its ask came; 0: not known
    # The TerminationType with which the core has asked the RM to release it (0: it has not), when, and whether the RM
    # has failed to confirm in time.
    releasing: int = 0
    releasing_ms: int = 0
    overdue: bool = False
    by_preemption: bool = False  # others were preempted for it
    # Of a placeholder: the replacement under way.
    replacement: Replacement | None = None
    # The UUID of the placeholder that it has replaced.
    replaced: str = ""
    # The RM has released its ask: no further allocation of that ask follows.
    ask_over: bool = False
    # When it ends by its bound, or UNBOUNDED, as seen when it first counted in a budget; 0: it never did. It is seen
    # once: with other settings a state out of a snapshot would differ from the one that was saved.
    until_ms: int = 0

    @property
    def preempting(self) -> bool:
        """Whether the RM has been asked to preempt the allocation, and is not overdue."""
        return self.releasing == facts.PREEMPTED_BY_SCHEDULER and not self.overdue


class Replacement(msgspec.Struct, eq=False):
    """A real ask is replacing a placeholder (semantics section 12). `fact`: the allocation to be. `pending`: the ask
    when the replacement started; the application may no longer have it."""

    fact: facts.Allocated
    placeholder: Allocation
    pending: PendingAsk
    node: Node
    # The open question whether the RM's predicates accept the node; 0: none, and the RM has been asked to release the
    # placeholder. `answer_by_ms` is 0 for a question in a snapshot of an earlier version.
    question: int = 0
    answer_by_ms: int = 0

    @property
    def elsewhere(self) -> bool:
        """Whether the allocation will be on another node than the placeholder, or on other devices. Its resources are
        held there."""
        return self.node is not self.placeholder.node or self.fact.devices != self.placeholder.fact.devices


class Placeholder(Protocol):
    """The fields of an allocation that determine the order of placeholders."""

    fact: Allocated
    at_ms: int
    asked_seq: int


P = TypeVar("P", bound=Placeholder)

# (at_ms, allocated by the core, uuid). The core's UUIDs of one millisecond are in the order of allocation.
_Key = tuple[int, bool, str]


def _key(placeholder: Placeholder) -> _Key:
    return placeholder.at_ms, placeholder.asked_seq > 0, placeholder.fact.uuid


class FreePlaceholders(Generic[P]):
    """The placeholders of a task group that real asks can replace, by age (semantics section 12). A placeholder whose
    replacement is cancelled returns to its old position."""

    __slots__ = ("_by_uuid", "_order")

    def __init__(self, placeholders: Iterable[P] = ()) -> None:
        self._by_uuid: dict[str, P] = {}
        self._order: list[_Key] = []
        for placeholder in placeholders:
            self.add_placeholder(placeholder)

    def add_placeholder(self, placeholder: P) -> None:
        key = _key(placeholder)
        self._by_uuid[placeholder.fact.uuid] = placeholder
        if not self._order or self._order[-1] < key:
            self._order.append(key)
        else:
            insort(self._order, key)

    def discard_placeholder(self, uuid: str) -> bool:
        """Remove the placeholder. Returns whether it was here."""
        placeholder = self._by_uuid.pop(uuid, None)
        if placeholder is not None:
            del self._order[bisect_left(self._order, _key(placeholder))]
        return placeholder is not None

    def __iter__(self) -> Iterator[P]:
        for _, _, uuid in self._order:
            yield self._by_uuid[uuid]

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._by_uuid

    def uuids(self) -> tuple[str, ...]:
        return tuple(uuid for _, _, uuid in self._order)


@dataclass(slots=True, eq=False)
class TaskGroup:
    """Placeholders of a task group. Of `count` that were asked for, `replaced` were replaced, `timed_out` were not."""

    name: str
    min_resource: Resource
    count: int = 0
    replaced: int = 0
    timed_out: int = 0
    # Placeholders that are asked for and not allocated; that are being replaced.
    coming: int = 0
    leaving: int = 0
    # Placeholders that are allocated; and those of them that a real ask may replace.
    placed: int = 0
    free: FreePlaceholders[Allocation] = field(default_factory=FreePlaceholders)

    @property
    def awaited(self) -> bool:
        """Whether real asks of the group wait for a placeholder to replace. False for the group without a name."""
        return bool(self.name) and (self.coming > 0 or self.leaving > 0 or bool(self.free))


NO_NODES: frozenset[str] = frozenset()
# Shared by asks that are spared nothing. Never mutated.
NO_SPARED: Mapping[str, int] = {}
# Nodes that are not offered to an ask: those that the RM has refused for it, or for its class.
Refusals = frozenset[str] | PredicateClass
NO_RESERVATIONS: dict[str, None] = {}  # shared, never written to


class PendingAsk(msgspec.Struct, eq=False):
    """An ask with `pending` allocations to be made: some with a reserved node, others `free`. `seq`: its age."""

    ask: facts.Ask
    application: Application
    pending: int
    free: int
    seq: int
    at_ms: int
    # IDs of the nodes reserved for it, the oldest reservation first.
    reservations: dict[str, None] = NO_RESERVATIONS
    # Further allocations, held by open questions to the RM; not counted in `pending`.
    asked: int = 0
    # IDs of nodes that the RM's predicates have refused, or the class of the ask where the RM answers in batches; the
    # reason and the time of the last refusal for the ask alone.
    refused: Refusals = NO_NODES
    refusal: str = ""
    refused_at_ms: int = 0
    # Since when each constraint (Constraint.key) has been in its way, in ms; None: no AskWaiting yet.
    waiting: dict[tuple[str, str, str], int] | None = None
    # The last REASONS_KEPT constraints that are over, the latest last.
    past: tuple[PastConstraint, ...] = ()
    # When preemption for it last started; 0: never.
    preempted_at_ms: int = 0
    # Allocations that the RM spares this ask, by UUID, and until when.
    spared: Mapping[str, int] = NO_SPARED
    preemption: Preemption | None = None
    # When a reservation for it timed out last, and on which node; 0: never.
    timed_out_ms: int = 0
    timed_out_on: str = ""
    # How long an allocation of it is expected to run, in ms; 0: not known. It orders, and decides nothing.
    expected_ms: int = 0

    @property
    def waits_since_ms(self) -> int:
        """The time since which the ask has waited to reserve a node, in ms. After a time-out it waits anew, and others
        have that pass."""
        return self.timed_out_ms + 1 if self.timed_out_ms else self.at_ms

    @property
    def has_place(self) -> bool:
        """Whether a preemption holds the resources of the ask, and of nothing else, under maxima and limits."""
        return self.preemption is not None and self.preemption.held and not self.preemption.nodes


class Preemption(msgspec.Struct, eq=False):
    """A preemption under way. `uuids`: the victims. `question`: open question to the RM about the plan; 0: none.

    For a group: `nodes` are kept for `members`, so many allocations of each ask, which are yet to come; while the RM is
    asked, none are kept. `pending` is one of these asks. `domain`: where, for people."""

    pending: PendingAsk
    node: Node
    uuids: tuple[str, ...]
    at_ms: int
    question: int = 0
    nodes: tuple[Node, ...] = ()
    members: dict[PendingAsk, int] = msgspec.field(default_factory=dict)
    domain: str = ""
    # The ask's resources are held under maxima and limits: they count in `held` of its application, queues, trackers.
    held: bool = False

    @property
    def resource(self) -> Resource:
        """The resources that are allocated once the preemption has made room."""
        return asked_together(self.members) if self.members else self.pending.ask.resource


def asked_together(members: Mapping[PendingAsk, int]) -> Resource:
    """The resources that so many repeats of these asks want together."""
    total: dict[str, int] = {}
    for ask, count in members.items():
        add(total, ask.ask.resource, count)
    return total


@dataclass(slots=True, eq=False)
class Application:
    """An application, from its acceptance until the record of its end expires. One that has ended holds nothing."""

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
    # (at_ms, state): the first FIRST_STATES and the last LAST_STATES entries, and how many between them were dropped.
    log: list[tuple[int, str]] = field(default_factory=list)
    states_left_out: int = 0
    asks: dict[str, PendingAsk] = field(default_factory=dict)
    # Asks with reserved nodes, by allocation key.
    reserving: dict[str, PendingAsk] = field(default_factory=dict)
    # The sum of pending allocations. None until a query needs it (`evolve.booking`).
    pending_sum: PendingSum | None = None
    allocations: dict[str, Allocation] = field(default_factory=dict)
    # The same by allocation key and UUID. None until an ask without pending allocations is released (`evolve.booking`).
    by_key: dict[str, dict[str, Allocation]] | None = None
    # The number of allocations with `ask_over`.
    asks_over: int = 0
    # Resources of its real allocations, and of its placeholders.
    allocated: Sums = field(default_factory=sums)
    allocated_placeholder: Sums = field(default_factory=sums)
    # The most that either of them was when an allocation went. None: none has gone.
    peak: dict[str, int] | None = None
    # Resources held for its asks by preemptions under way.
    held: dict[str, int] = field(default_factory=dict)
    # Numbers of allocated and pending placeholders, and when they time out (0: none was allocated, or none is left).
    placeholders: int = 0
    placeholders_coming: int = 0
    placeholders_until_ms: int = 0
    task_groups: dict[str, TaskGroup] = field(default_factory=dict)
    # By the UUID of the allocation to be.
    replacements: dict[str, Replacement] = field(default_factory=dict)
    replacements_by_key: dict[str, dict[str, Replacement]] = field(default_factory=dict)  # the same by allocation key
    # A Soft gang whose placeholders timed out: it continues as a normal application.
    resumed: bool = False
    # The highest priority of its pending asks (0 without any) and how many have it; the count of each lower priority.
    priority: int = 0
    foremost: int = 0
    lower: dict[int, int] = field(default_factory=dict)
    # From its first allocation until it is Completing, or has ended. Open claims count like allocations: the nodes that
    # are reserved for it, and the questions to the RM that have no answer yet.
    counts_as_running: bool = False
    open_claims: int = 0
    # Trackers in which it is counted; and those trackers and queues that limit how many applications run.
    trackers: tuple[Tracker, ...] = ()
    application_limits: tuple[Queue | Tracker, ...] = ()
    # The account of its user in the queue, or its own; and beside it those of its queues, in all of which it books.
    account: Account | None = None
    accounts: tuple[Account | Budget, ...] = ()

    @property
    def terminal(self) -> bool:
        return self.state in lifecycle.TERMINAL

    @property
    def quotas(self) -> tuple[Queue | Tracker, ...]:
        """The quotas that bound the application's amounts: its queues from the leaf up, and the trackers in which it
        counts."""
        return (*self.queue.path_to_root, *self.trackers)

    def enters(self, state: str, at_ms: int) -> None:
        self.log.append((at_ms, state))
        if len(self.log) > FIRST_STATES + LAST_STATES:
            del self.log[FIRST_STATES]
            self.states_left_out += 1

    def forget_what_is_over(self) -> None:
        """Free the containers of an application that has ended and holds nothing."""
        self.asks, self.allocations, self.by_key, self.replacements, self.lower = {}, {}, None, {}, {}
        self.reserving, self.pending_sum = {}, None
        self.asks_over = 0
        self.allocated, self.allocated_placeholder = sums(), sums()

    @property
    def pending(self) -> dict[str, int]:
        """The sum of the pending allocations of the application."""
        return total_of(times(ask.ask.resource, ask.pending) for ask in self.asks.values())

    @property
    def priorities(self) -> dict[int, int]:
        """The number of pending asks of each priority."""
        return {self.priority: self.foremost, **self.lower} if self.foremost else {}

    def allocations_of(self, key: str) -> list[Allocation]:
        """The allocations of one allocation key. O(allocations) until they are listed by key."""
        if self.by_key is None:
            return [allocation for allocation in self.allocations.values() if allocation.fact.allocation_key == key]
        return list(self.by_key.get(key, {}).values())

    @property
    def execution_limit_ms(self) -> int:
        """The time that the application may be Running, in ms; 0: unlimited. For a gang, also one whose placeholders
        come without a `placeholderAsk`, the same field of the request is the time-out of its placeholders."""
        return 0 if self.placeholder_ask or self.task_groups else max(0, self.execution_timeout_ms)


@dataclass(slots=True, eq=False)
class Tracker:
    """The resources that a user or group uses of a queue and all queues below it. Exists while at least one application
    is counted in it (`members`)."""

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

    @property
    def most(self) -> Resource:
        return self.limit.max_resources

    @property
    def most_running(self) -> int:
        return self.limit.max_applications

    def has_running_slot(self) -> bool:
        return not self.limit.max_applications or self.running < self.limit.max_applications


@dataclass(slots=True, eq=False)
class Queue:
    """A queue. Applications are in leaf queues; a queue below a leaf is draining and has no part in scheduling."""

    path: str
    parent: Queue | None
    leaf: bool
    managed: bool
    settings: QueueSettings
    children: dict[str, Queue] = field(default_factory=dict)
    applications: dict[str, Application] = field(default_factory=dict)
    # The sum of the allocations of all applications in the queue and below.
    allocated: Sums = field(default_factory=sums)
    # Resources of pending allocations of its own applications.
    asked: Sums = field(default_factory=sums)
    # The part of `allocated` that is being preempted.
    preempting: dict[str, int] = field(default_factory=dict)
    # Kept for asks for which others are preempted; no other ask takes it.
    held: dict[str, int] = field(default_factory=dict)
    refusals: dict[Like, int] = field(default_factory=dict)  # when preemption last found no plan for asks of each kind
    draining_since_ms: int = 0
    drain_report_ms: int = 0  # when it is next reported that it still drains; 0: never
    hold: Hold | None = None  # an operator holds it: nothing is allocated or started in it and below
    excess: QuotaExcess | None = None
    # How many applications (leaf) or child queues with pending asks have each priority; and the highest of them, mapped
    # by this queue's offset and fence.
    priorities: dict[int, int] = field(default_factory=dict)
    priority: int = 0
    path_to_root: tuple[Queue, ...] = ()
    # `allocated` of each queue on the path to root.
    ancestors_usage: tuple[Sums, ...] = ()
    # Running applications in it and below; trackers by kind and name of the user or group.
    running: int = 0
    trackers: dict[tuple[str, str], Tracker] = field(default_factory=dict)
    # How it ranks what is below it; its account, and those of its parents beside it (`evolve.accounts`).
    memory: Memory = NO_MEMORY
    account: Account | None = None
    # Also the budgets, which are settled with them.
    accounts: tuple[Account | Budget, ...] = ()
    # Its budget and those of its parents.
    budgets: tuple[Budget, ...] = ()

    def __post_init__(self) -> None:
        """Set `path_to_root`: this queue, its parent, … root."""
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
        """The sum of the pending allocations in the queue and below."""
        return total_of((self.asked, *(child.pending for child in self.children.values())))

    @property
    def most(self) -> Resource:
        return self.settings.max

    @property
    def used(self) -> Sums:
        return self.allocated

    @property
    def most_running(self) -> int:
        return self.settings.max_applications

    def has_running_slot(self) -> bool:
        return not self.settings.max_applications or self.running < self.settings.max_applications

    def due_of(self, total: Resource) -> dict[str, int]:
        """The divisor of each resource for the share of the queue: its guaranteed amount, else its maximum (its own, or
        the nearest ancestor's), else the total of the partition."""
        nearest: dict[str, int] = {}
        for queue in reversed(self.path_to_root):
            nearest.update(queue.settings.max)
        return {**total, **nearest, **self.settings.guaranteed}

    def below(self) -> Iterator[Queue]:
        """This queue and all queues below it, parents first, by name."""
        yield self
        for name in sorted(self.children):
            yield from self.children[name].below()


class RejectedAllocation(msgspec.Struct, eq=False):
    """An allocation that the RM has reported with its node, and that could not be booked (semantics section 14). It
    runs on the node `fact.node_id`, so its resource counts as occupied there. `name`: as in
    ExistingAllocationRejected."""

    name: str
    fact: Allocated
    reason: str


class RejectedAllocations:
    """The rejected allocations of a partition, by their name and node, and by their application."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[str, RejectedAllocation]] = {}
        self.by_application: dict[str, dict[RejectedAllocation, None]] = {}
        self.count = 0

    def add(self, one: RejectedAllocation) -> None:
        self.count += 1
        self.by_name.setdefault(one.name, {})[one.fact.node_id] = one
        self.by_application.setdefault(one.fact.application_id, {})[one] = None

    def remove(self, one: RejectedAllocation) -> None:
        self.count -= 1
        unlist(self.by_name, one.name, one.fact.node_id)
        unlist(self.by_application, one.fact.application_id, one)

    def of_application(self, application_id: str) -> list[RejectedAllocation]:
        return list(self.by_application.get(application_id, ()))

    def named(self, name: str, application_id: str) -> list[RejectedAllocation]:
        """The first rejected allocation of this name, as a release names it. Without `application_id`: of any
        application."""
        found = self.by_name.get(name, {}).values()
        return [one for one in found if application_id in ("", one.fact.application_id)][:1]


def with_rejected(occupied: Resource, rejected: Iterable[RejectedAllocation], times: int = 1) -> Resource:
    """`occupied` and the resources of the rejected allocations; without them, if `times` is -1."""
    total = dict(occupied)
    add(total, total_of(one.fact.resource for one in rejected), times)
    return total


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operator holds a queue, or drains a node, since `at_ms`. `from_ms`: the node is to be drained from this time
    on, and is not yet; 0: it is drained."""

    operator: str
    reason: str
    at_ms: int
    from_ms: int = 0


class LoanKey(NamedTuple):
    """Which queue lends to which: the paths of both."""

    partition: str
    lender: str
    borrower: str


class Loan(msgspec.Struct, frozen=True):
    """Amounts of the maximum, or of the guarantee, that a queue has lent until a time, and who has arranged it."""

    amounts: Resource
    guaranteed: bool
    until_ms: int
    operator: str
    reason: str
    at_ms: int


class PendingSum(msgspec.Struct, eq=False):
    """The pending allocations of an application: their number and their resources."""

    pieces: int
    amounts: Sums


class PastConstraint(NamedTuple):
    """A constraint (Constraint.key) that was in the way of an ask from `since_ms` until it was reported to be over."""

    key: tuple[str, str, str]
    since_ms: int
    ended_ms: int


class QuotaExcess(msgspec.Struct, frozen=True):
    """A queue uses more than its maximum, and gives back what is above it after a delay.

    `since_ms`: when the queue exceeded its maximum. `max` and `delay_ms`: those that set the clock; with others it
    starts again. `preempt_at_ms`: when allocations are preempted, or are preempted next."""

    since_ms: int
    max: Resource
    delay_ms: int
    preempt_at_ms: int


def to_give_back(queue: Queue) -> dict[str, int]:
    """The amounts above the maximum that quota preemption will take from the queue."""
    return amounts_above(queue.allocated, queue.settings.max) if queue.excess is not None else {}
