"""A partition: its nodes, queues, applications and allocations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import msgspec

from remuda_proto.bounds import shown
from remuda_proto.guests import is_guest

from .. import facts
from ..limits import KEYS_LISTED, LEFTOVERS, RESOURCE_NAMES_PER_PARTITION
from ..rules.leaving import ALL
from ..rules.prices import Prices
from ..rules.resource import Resource
from ..rules.windows import is_maintenance
from ..settings import PartitionSettings, Window
from .application import (
    Allocation,
    Application,
    Like,
    Loan,
    LoanKey,
    Node,
    PendingAsk,
    PredicateClass,
    Preemption,
    Queue,
    RejectedAllocations,
    Replacement,
)
from .runtimes import Runtimes


class RejectedApplication(msgspec.Struct):
    fact: facts.ApplicationRejected
    at_ms: int


class Occurrence(msgspec.Struct, frozen=True):
    """When a window comes next, or, if it is `open`, since and until when it does."""

    from_ms: int
    until_ms: int
    open: bool = False


class ResourceNames:
    """The resource names of a partition's nodes and maxima, whose number is bounded because the index compares nodes
    name by name. Names stay known until enough nodes or queues were removed that collecting them again pays off."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._gone = 0

    def add_names(self, *resources: Iterable[str]) -> None:
        self._known.update(*resources)

    def count_removed(self, partition: Partition) -> None:
        """Count a removed or changed node or queue, whose names may be unused now."""
        self._gone += 1
        if 4 * self._gone > len(partition.nodes) + len(partition.queues):
            self._collect(partition)

    def knows(self, resource: Resource) -> bool:
        return self._known.issuperset(resource)

    def problem_of_new_names(self, what: str, resource: Resource) -> str | None:
        """Why a resource is refused: with its names the partition has too many names. None if it is accepted."""
        known = self._known
        if self.knows(resource) or len(known.union(resource)) <= RESOURCE_NAMES_PER_PARTITION:
            return None
        name = min(resource.keys() - known)
        return (
            f"{what}: resource {shown(name)} is new, and the partition has {len(known)} names of resources, "
            f"expected at most {RESOURCE_NAMES_PER_PARTITION}"
        )

    def _collect(self, partition: Partition) -> None:
        known = self._known = set(partition.settings.resource_weights)
        self._gone = 0
        for node in partition.nodes.values():
            known.update(node.capacity, node.occupied, node.allocated)
        for node in partition.unreported.values():
            known.update(node.allocated)
        for queue in partition.queues.values():
            known.update(queue.settings.max)


class KeyHolders:
    """Applications by allocation key, for releases that name no application: those that have asks, replacements or
    allocations of the key. Built before the first such release (`evolve.booking`). An application stays listed when it
    no longer has anything of the key. When the list has doubled it is dropped, and built again when it is next
    needed."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, None]] | None = None
        self._size = self._most = 0

    def add_holder(self, key: str, application_id: str) -> None:
        """List the application of an accepted ask or a recovered allocation. Replacements and other allocations have
        the key of an ask."""
        if self._ids is None:
            return
        self._ids.setdefault(key, {})[application_id] = None
        self._size += 1
        if self._size > self._most:
            self._ids = None

    def of(self, key: str, applications: Mapping[str, Application]) -> list[Application]:
        """The applications that hold the key, and some that held it, in the order of submission. All applications until
        their keys are listed."""
        names = applications if self._ids is None else self._ids.get(key, ())
        found = [applications[name] for name in names if name in applications]
        return sorted(found, key=lambda application: application.seq)

    def list_keys(self, applications: Mapping[str, Application]) -> None:
        if self._ids is not None:
            return
        self._ids = {}
        for application in applications.values():
            made = (allocation.fact.allocation_key for allocation in application.allocations.values())
            for key in (*application.asks, *application.replacements_by_key, *made):
                self._ids.setdefault(key, {})[application.id] = None
        self._size = sum(map(len, self._ids.values()))
        self._most = 2 * self._size + KEYS_LISTED

    def lists(self, key: str, application_id: str) -> bool:
        """Whether the application is listed under the key, or the list is not built."""
        return self._ids is None or application_id in self._ids.get(key, ())


class Ended:
    """The applications of a partition that have ended, by the time at which they ended. The oldest are removed first.
    In the heap removed applications stay until they reach the front, or outnumber the others."""

    __slots__ = ("_heap", "_there")

    def __init__(self) -> None:
        # (at_ms, seq, application): the same order live and after a restart.
        self._heap: list[tuple[int, int, Application]] = []
        self._there: dict[Application, None] = {}

    def __len__(self) -> int:
        return len(self._there)

    def __contains__(self, application: Application) -> bool:
        return application in self._there

    def add_application(self, application: Application) -> None:
        self._there[application] = None
        heappush(self._heap, (application.state_at_ms, application.seq, application))

    def discard_application(self, application: Application) -> None:
        """Remove the application. Does nothing if it is not here."""
        self._there.pop(application, None)
        if len(self._heap) > 2 * len(self._there) + LEFTOVERS:
            self._heap = [entry for entry in self._heap if entry[-1] in self._there]
            heapify(self._heap)

    def first(self) -> Application:
        """The application that ended first. There must be one."""
        while self._heap[0][-1] not in self._there:
            heappop(self._heap)
        return self._heap[0][-1]


@dataclass(slots=True, eq=False)
class Partition:
    name: str
    settings: PartitionSettings
    root: Queue
    queues: dict[str, Queue]
    nodes: dict[str, Node] = field(default_factory=dict)
    # In place of nodes with guests that the RM has not reported since it registered. Nothing is placed there.
    unreported: dict[str, Node] = field(default_factory=dict)
    # Includes ended applications until they expire or their ID is used again.
    applications: dict[str, Application] = field(default_factory=dict)
    ended: Ended = field(default_factory=Ended)
    # The last rejection of each application ID, oldest first.
    rejected: dict[str, RejectedApplication] = field(default_factory=dict)
    # uuid -> allocation
    allocations: dict[str, Allocation] = field(default_factory=dict)
    rejected_allocations: RejectedAllocations = field(default_factory=RejectedAllocations)
    holders: KeyHolders = field(default_factory=KeyHolders)
    names: ResourceNames = field(default_factory=ResourceNames)
    # Questions that the RM has not answered, by number.
    questions: dict[int, Question] = field(default_factory=dict)
    # Replacements the RM is asked about, by the number of the question.
    replacements_asked: dict[int, Replacement] = field(default_factory=dict)
    # Asks for which the RM has refused nodes.
    refused: dict[PendingAsk, None] = field(default_factory=dict)
    # Of an RM that answers in batches: the classes of asks by name, those of them without asks, the open questions by
    # number, and how many verdicts the classes hold.
    batch_predicates: bool = False
    predicate_classes: dict[str, PredicateClass] = field(default_factory=dict)
    idle_classes: dict[str, PredicateClass] = field(default_factory=dict)
    class_questions: dict[int, PredicateClass] = field(default_factory=dict)
    verdicts: int = 0
    # The last node of the last question about a class: the next question goes on behind it.
    last_asked: str = ""
    # As many questions about classes were open as may be: no further one before half of them are answered.
    questions_paused: bool = False
    # How long allocations of users ran, in a partition with backfill.
    runtimes: Runtimes = field(default_factory=Runtimes)
    # The IDs of the nodes that leave at a known time, for whichever asks.
    leaving: dict[str, None] = field(default_factory=dict)
    # By name: the windows of the calendar that come again, or are open.
    windows: dict[str, Occurrence] = field(default_factory=dict)
    # For which asks nodes may leave by the calendar. Empty: it is not about nodes.
    calendar_audiences: tuple[str, ...] = ()
    # Sums of the nodes' capacities, and of what others occupy of them.
    total: dict[str, int] = field(default_factory=dict)
    occupied: dict[str, int] = field(default_factory=dict)
    draining: bool = False
    # (application, allocation key) -> preemption for that ask
    preemptions: dict[tuple[str, str], Preemption] = field(default_factory=dict)
    # When preemption last found no plan; 0: never.
    preemption_refused_ms: int = 0
    # (queue, asks of it) that were refused preemption while nodes are set aside for other asks: their refusals in
    # `Queue.refusals` hold until one of these nodes no longer is.
    set_aside: dict[tuple[str, Like], None] = field(default_factory=dict)
    # What work on devices is like, and since when; None: not measured yet. And the prices that follow from it, of a
    # partition with the node sort policy `fragmentation`.
    work: facts.WorkMeasured | None = None
    measured_ms: int = 0
    prices: Prices | None = None
    # The domain that others avoid for a group that has waited for one, and since when; None: there is none.
    avoided: facts.DomainAvoided | None = None
    avoided_ms: int = 0
    # Loans between queues of all partitions: those of the state.
    loans: dict[LoanKey, Loan] = field(default_factory=dict)
    # The rules of Apache YuniKorn 1.4 hold (semantics section 18).
    yunikorn_1_4: bool = False

    def is_shut_by(self, window: Window) -> bool:
        """Whether nodes of the window are drained by it: it is one of maintenance, and open."""
        known = self.windows.get(window.name)
        return known is not None and known.open and is_maintenance(window)

    @property
    def audiences(self) -> tuple[str, ...]:
        """The kinds of asks for which nodes may leave, in order. Empty: no node leaves."""
        return self.calendar_audiences or ((ALL,) if self.leaving else ())

    def named(self, application_id: str, key: str) -> list[Application]:
        """The applications that a release names: one by its ID, or, without an ID, all that may hold the key, but no
        guests, which name theirs."""
        if application_id:
            found = self.applications.get(application_id)
            return [found] if found is not None else []
        return [one for one in self.holders.of(key, self.applications) if not is_guest(one.id)] if key else []


class Question(msgspec.Struct, eq=False):
    """A question to the RM whether an ask may start on a node. The resources are booked until it is answered."""

    fact: facts.PredicateAsked
    node: Node
    application: Application
    # As of an allocation.
    until_ms: int = 0
