"""Which ask classes fit what a reserved node has left until its ask starts (semantics section 22).

Hole        what a reserved node has: so much for a time, so much for longer
Windows     the holes of reserved nodes, and which nodes have to be looked at again
Candidates  all ask classes of a partition with backfill, found by what they need and for how long at most
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from operator import neg
from typing import Any, Final

from .. import facts
from ..state import Node, Partition
from .asks import AskClass
from .node_groups import Demand
from .ordered import FitList, Rank, Vector, covers


@dataclass(slots=True, frozen=True)
class Hole:
    """The room of a reserved node: `available` for an allocation that ends by `until_ms`, `spare` for any other (None:
    no room)."""

    node: Node
    until_ms: int
    available: Vector
    spare: Vector | None

    def fits(self, demand: Demand, lasts_ms: float, now_ms: int) -> bool:
        """Whether an allocation that begins now and lasts so long has room without delay for the ask of the node."""
        if not covers(self.available, demand.need):
            return False
        return lasts_ms <= self.until_ms - now_ms or (self.spare is not None and covers(self.spare, demand.need))


# Facts that change nothing on a node.
_ELSEWHERE: Final = frozenset((
    facts.QueueAdded, facts.QueueChanged, facts.QueueDraining, facts.QueueDrainOverdue, facts.QueueRestored,
    facts.QueueRemoved, facts.QueueHeld, facts.QueueResumed, facts.ApplicationAccepted, facts.ApplicationRejected,
    facts.RejectionForgotten, facts.ApplicationStateChanged, facts.ApplicationRemoved, facts.ApplicationMoved,
    facts.AskAccepted, facts.AskChanged, facts.AskRejected, facts.AskReleased, facts.AskWaiting, facts.AskOutstanding,
    facts.AllocationRejected, facts.WorkMeasured, facts.RefusalsForgotten, facts.PredicatesAsked,
    facts.PredicatesAnswered, facts.VerdictsExpired, facts.PreemptionRefused, facts.QuotaExceeded,
    facts.QuotaExcessEnded,
))  # fmt: skip


class Windows:
    """The holes of reserved nodes. A node is looked at when a fact has changed something there, or when a time has
    come that was noted with its hole."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        # By the ID of the node: holes that a candidate fits, and holes that none fits, as far as is known.
        self.live: dict[str, Hole] = {}
        self.idle: dict[str, Hole] = {}
        # The nodes to look at; and whether these are all reserved nodes.
        self.changed: dict[str, None] = {}
        self.all_changed = True
        # When to look at a node though nothing has changed there, by its ID; and the same as a heap.
        self.again_ms: dict[str, int] = {}
        self._due: list[tuple[int, str]] = []

    def follow(self, fact: Any) -> None:
        """Note the nodes that a fact has changed. One that is not known to change certain nodes changes all."""
        node_ids = self._nodes_of(fact)
        if node_ids is None:
            self.all_changed = True
        else:
            for node_id in node_ids:
                self.changed[node_id] = None

    def _nodes_of(self, fact: Any) -> Iterable[str] | None:
        match fact:
            case facts.PreemptionStarted():
                return None
            case facts.NodeReserved() | facts.NodeUnreserved():
                return (fact.node_id, *self._of_gang(fact.application_id))
            case facts.AllocationRecovered() | facts.GuestKept() | facts.ExistingAllocationRejected():
                return (fact.allocation.node_id,)
            case facts.ReleaseRequested() | facts.ReleaseIgnored() | facts.DevicesAssigned():
                allocation = self._partition.allocations.get(fact.uuid)
                return (allocation.node.id,) if allocation is not None else ()
        if (node_id := getattr(fact, "node_id", None)) is not None:
            return (node_id,)
        return () if type(fact) in _ELSEWHERE else None

    def _of_gang(self, application_id: str) -> Iterator[str]:
        """The nodes that are reserved for placeholders of the application, which start together."""
        application = self._partition.applications.get(application_id)
        for one in application.reserving.values() if application is not None else ():
            if one.ask.placeholder:
                yield from one.reservations

    def is_due(self, now_ms: int) -> bool:
        """Whether the time of a node has come."""
        self._take_due(now_ms)
        return bool(self.changed)

    def _take_due(self, now_ms: int) -> None:
        while self._due and self._due[0][0] <= now_ms:
            at_ms, node_id = heappop(self._due)
            if self.again_ms.get(node_id) == at_ms:
                self.changed[node_id] = None

    def stale(self, reserved: Container[Node], every: Iterable[Node], now_ms: int) -> list[Node]:
        """The reserved nodes to look at, by ID. `every`: all that are reserved. Placeholders of an application start
        together, so the nodes of all of them are looked at."""
        self._take_due(now_ms)
        found: dict[Node, None] = {}
        if self.all_changed:
            for known in (self.live, self.idle, self.again_ms, self._due):
                known.clear()
            found = dict.fromkeys(every)
        for node_id in self.changed:
            self._forget(node_id)
            node = self._partition.nodes.get(node_id)
            if node is None or node not in reserved:
                continue
            found[node] = None
            pending = node.reservation
            if pending is not None and pending.ask.placeholder:
                found |= dict.fromkeys(self._partition.nodes[one] for one in self._of_gang(pending.application.id))
        self.changed.clear()
        self.all_changed = False
        return sorted(found)

    def put(self, node: Node, hole: Hole | None, again_ms: int, candidates: Candidates, now_ms: int) -> None:
        """Note what was found on a node, and when to look again though nothing changes there."""
        self.changed.pop(node.id, None)
        self._forget(node.id)
        self.again_ms[node.id] = again_ms
        heappush(self._due, (again_ms, node.id))
        if hole is not None:
            is_live = next(candidates.fitting(hole, now_ms), None) is not None
            (self.live if is_live else self.idle)[node.id] = hole

    def rouse(self, candidates: Iterable[AskClass], now_ms: int) -> None:
        """New candidates have come: idle holes that they fit are live."""
        for ask_class in candidates:
            demand = ask_class.demand
            for node_id in [one for one, hole in self.idle.items() if hole.fits(demand, demand.bound, now_ms)]:
                self.live[node_id] = self.idle.pop(node_id)

    def _forget(self, node_id: str) -> None:
        for known in (self.live, self.idle, self.again_ms):
            known.pop(node_id, None)
        if len(self._due) > 2 * len(self.again_ms) + 64:
            self._due = sorted((at_ms, one) for one, at_ms in self.again_ms.items())


@dataclass(slots=True, eq=False)
class Candidate:
    """An ask class in the list. Its room is what it needs, negated, and for how long."""

    ask_class: AskClass
    room: Vector
    rank: Rank | None = None


class Candidates:
    """The ask classes of a partition by what they need and for how long. O(log n) for each one that is found."""

    def __init__(self, width: int) -> None:
        self._list: FitList[Candidate] = FitList(width + 1)
        self._of: dict[AskClass, Candidate] = {}
        self._number = 0
        # Something has changed since the last look: an ask may fit a hole.
        self.changed = True
        # The ask classes that have come since the last look.
        self.new: dict[AskClass, None] = {}

    def __contains__(self, ask_class: AskClass) -> bool:
        return ask_class in self._of

    def __len__(self) -> int:
        return len(self._of)

    def add_class(self, ask_class: AskClass) -> None:
        """Groups of asks are left out: they start together, or on nodes that no one waits for."""
        demand = ask_class.demand
        if demand.group_of_asks is not None or not demand.possible:
            return
        self._number += 1
        lasts_ms = demand.bound
        candidate = self._of[ask_class] = Candidate(ask_class, (*map(neg, demand.need), -lasts_ms))
        self._list.put(candidate, (demand.expectation, self._number))
        self.new[ask_class] = None

    def remove_class(self, ask_class: AskClass) -> None:
        """Does nothing if it is not listed."""
        candidate = self._of.pop(ask_class, None)
        if candidate is not None:
            self._list.remove(candidate)
            self.new.pop(ask_class, None)

    def fitting(self, hole: Hole, now_ms: int) -> Iterator[AskClass]:
        """The ask classes that fit the hole, those that are expected to run shortest first of each kind: those that end
        in time, then those that fit what is spare. Some are in both."""
        yield from self._with_room((*hole.available, now_ms - hole.until_ms))
        if hole.spare is not None:
            least = tuple(map(min, hole.available, hole.spare))
            yield from self._with_room((*least, -inf))

    def _with_room(self, room: Vector) -> Iterator[AskClass]:
        need = (*map(neg, room[:-1]), room[-1])
        start: Rank = ()
        while (found := self._list.first(need, start)) is not None:
            assert found.rank is not None, "what was found is listed"
            start = (*found.rank, 0)  # right behind it
            yield found.ask_class
