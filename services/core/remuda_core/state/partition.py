"""A partition: what nodes, queues and applications there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from remuda_proto.bounds import shown

from .. import facts
from ..limits import KEYS_LISTED, RESOURCE_NAMES_PER_PARTITION
from ..rules.resource import Resource
from ..settings import PartitionSettings
from .application import Allocation, Application, Node, PendingAsk, Preemption, Question, Queue, Replacement
from .ended import Ended


class RejectedApplication(msgspec.Struct):
    fact: facts.ApplicationRejected
    at_ms: int


class ResourceNames:
    """The resource names of a partition's nodes and maxima: the index compares nodes name by name. Made when somebody
    first wants to know. Names stay known until so many nodes or queues have gone that making them anew is worth it."""

    def __init__(self) -> None:
        self._known: set[str] | None = None
        self._gone = 0

    def add_names(self, *resources: Iterable[str]) -> None:
        if self._known is not None:
            for resource in resources:
                self._known.update(resource)

    def count_removed(self) -> None:
        """A node or a queue."""
        self._gone += 1

    def problem_of_new_names(self, partition: Partition, what: str, resource: Resource) -> str | None:
        """Why a resource cannot come: with its names there are too many. None if it can."""
        known = self._known if self._known is not None else self._make(partition)
        if known.issuperset(resource):
            return None
        if len(known.union(resource)) > RESOURCE_NAMES_PER_PARTITION and (
            4 * self._gone > len(partition.nodes) + len(partition.queues)
        ):
            known = self._make(partition)
        if len(known.union(resource)) <= RESOURCE_NAMES_PER_PARTITION:
            return None
        name = min(resource.keys() - known)
        return (
            f"{what}: resource {shown(name)} is new, and the partition has {len(known)} names of resources, "
            f"expected at most {RESOURCE_NAMES_PER_PARTITION}"
        )

    def _make(self, partition: Partition) -> set[str]:
        known = self._known = set(partition.settings.resource_weights)
        self._gone = 0
        for node in partition.nodes.values():
            known.update(node.capacity, node.occupied, node.allocated)
        for queue in partition.queues.values():
            known.update(queue.settings.max)
        return known


class KeyHolders:
    """Which applications of a partition have asks, replacements or allocations of a key: for releases that name no
    application. Made when the first of these comes. An application stays listed when it has nothing of the key any
    more; a list that has doubled is dropped, and made anew when it is needed."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, None]] | None = None
        self._size = self._most = 0

    def add_holder(self, key: str, application_id: str) -> None:
        """`evolve` names each ask that comes and each allocation that is recovered; all else follows from these."""
        if self._ids is None:
            return
        self._ids.setdefault(key, {})[application_id] = None
        self._size += 1
        if self._size > self._most:
            self._ids = None

    def of(self, key: str, applications: Mapping[str, Application]) -> list[Application]:
        """In the order of submission."""
        if self._ids is None:
            self._make(applications.values())
        assert self._ids is not None, "just made"
        found = [applications[name] for name in self._ids.get(key, ()) if name in applications]
        return sorted(found, key=lambda application: application.seq)

    def _make(self, applications: Iterable[Application]) -> None:
        self._ids = {}
        for application in applications:
            made = (allocation.fact.allocation_key for allocation in application.allocations.values())
            for key in (*application.asks, *application.replacements_by_key, *made):
                self._ids.setdefault(key, {})[application.id] = None
        self._size = sum(map(len, self._ids.values()))
        self._most = 2 * self._size + KEYS_LISTED

    def lists(self, key: str, application_id: str) -> bool:
        """True, too, where nothing is listed."""
        return self._ids is None or application_id in self._ids.get(key, ())


@dataclass(slots=True, eq=False)
class Partition:
    name: str
    settings: PartitionSettings
    root: Queue
    queues: dict[str, Queue]
    nodes: dict[str, Node] = field(default_factory=dict)
    # Terminal ones included, until they expire or their ID is used again.
    applications: dict[str, Application] = field(default_factory=dict)
    ended: Ended = field(default_factory=Ended)
    # The last rejection of an ID, the oldest first.
    rejected: dict[str, RejectedApplication] = field(default_factory=dict)
    # uuid -> allocation
    allocations: dict[str, Allocation] = field(default_factory=dict)
    holders: KeyHolders = field(default_factory=KeyHolders)
    names: ResourceNames = field(default_factory=ResourceNames)
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
