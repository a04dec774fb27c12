"""Ask classes: asks of a leaf queue that are equal to the scheduling rules, of all its applications.

AskClass             asks of one leaf and one demand, under the same limits; its applications' asks are in a ranking
  ApplicationAsks    one application's asks in an ask class, by priority and age
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, Protocol

from ..state import Application, PendingAsk, Queue, Tracker
from .admission import in_the_way
from .asks_by_turn import AsksByTurn
from .bit_tree import BitTree
from .blocked import BlockedBy
from .demand_bits import FREED, RESERVING
from .fit_list import Rank
from .lazy_ranking import Entry, LazyRanking
from .node_groups import Demand

# Shared empty mapping. Never mutated.
NOTHING: Final[Mapping[Any, int]] = {}
# The constraints on the asks of an application besides maxima and nodes: whether its queue is held or another
# application has the turn to start; the queues and trackers that must have a running slot for it; the trackers that
# must have room for its asks.
Admission = tuple[bool, tuple["Queue | Tracker", ...], tuple["Tracker", ...]]


class LeafIndex(Protocol):
    """The partition's index, as ask classes see it."""

    @property
    def parked(self) -> BlockedBy[AskClass]: ...


class Leaf(Protocol):
    """The leaf queue of an ask class. `LeafOrder` is the implementation."""

    numbers: int
    found: AskClass | None

    @property
    def index(self) -> LeafIndex: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def fair(self) -> bool: ...
    @property
    def only(self) -> AskClass | None: ...
    @property
    def order(self) -> BitTree[AskClass]: ...
    @property
    def dirty_ask_classes(self) -> list[AskClass]: ...
    def application_rank(self, application: Application) -> Rank: ...
    def taken(self, line: ApplicationAsks) -> None: ...
    def enter(self, more: int = 0, bits: int = 0) -> None: ...
    def changed(self, less: int = 0) -> None: ...


class AskClass:
    __slots__ = (
        "admission",
        "aged",
        "aging_since_ms",
        "aside",
        "bits",
        "demand",
        "dirty",
        "hidden",
        "leaf",
        "limited",
        "number",
        "passed_over",
        "rank",
        "ranking",
        "since_ms",
        "waits_for",
    )

    def __init__(self, leaf: Leaf, demand: Demand, admission: Admission) -> None:
        self.leaf = leaf
        self.demand = demand
        self.admission = admission
        held_back, application_limits, trackers = admission
        self.limited = bool(application_limits or trackers)
        self.ranking: LazyRanking[ApplicationAsks] = LazyRanking()
        leaf.numbers += 1
        self.number = leaf.numbers
        self.dirty = False
        self.hidden = held_back  # its application's turn or a limit keeps it from being scheduled
        # The time of its oldest ask, as far as it is known, and whether that ask is old enough to reserve a node.
        self.since_ms: float = float("inf")
        self.aged = False
        self.aging_since_ms: int | None = None  # where it stands among those that wait to be old enough
        self.waits_for: Hashable | None = None  # what keeps its asks from reserving one more node (`KeptNodes`)
        self.aside = False  # its first ask may not reserve a node yet
        self.passed_over = False  # its demand is closed, and another one with its number is open
        # The states of its demand in which it is to be looked at.
        self.bits = 0
        self.rank: Rank | None = None  # in the leaf's order; None: not in it
        self._set_bits()

    def touch(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.leaf.dirty_ask_classes.append(self)

    def rank_now(self) -> Rank:
        """The rank of its first application, then of that application's first ask. An application may have asks in
        several ask classes. The number makes ranks unique: an ask class that is not settled keeps its old rank,
        which may be that of an ask that is in this one now."""
        ask = self.first()
        return (*self.leaf.application_rank(ask.application), -ask.ask.priority, ask.seq, self.number)

    def first(self) -> PendingAsk:
        line = self.ranking.leader or self.ranking.first()
        assert line is not None, "an ask class without lines is gone"
        return line.best[0]  # a line without asks is gone

    def in_the_way(self) -> Queue | Tracker | None:
        """The limit that has no slot or no room for its asks; None if there is no such limit."""
        _, application_limits, trackers = self.admission
        return in_the_way(application_limits, trackers, self.demand.resource)

    def admits(self) -> bool:
        """Whether its demand is open, or is reserving and its first ask may reserve a node."""
        demand = self.demand
        return demand.open or (demand.reserving and self.aged and not self.aside)

    def hide(self) -> None:
        """Leave the leaf's order."""
        self.hidden = True
        self.bits = 0
        if self.rank is not None:
            self.leaf.order.remove(self.rank)
            self.leaf.found = None
            self.rank = None

    def show(self) -> None:
        """Its limit has room or a slot again."""
        if self.admission[0] or self in self.leaf.index.parked:
            return  # its application's turn or a limit keeps it back
        self.hidden = False
        self._set_bits()
        if self.ranking.members:
            self.touch()
            self.leaf.enter(0, self.bits)

    def set_aside(self) -> None:
        """Its first ask may not reserve a node yet. Its demand, or a change of its asks, has it considered again."""
        self.aside = True
        self.demand.set_aside[self] = None
        self._set_bits()

    def pass_over(self) -> None:
        """A search has come across it because of another demand. Its demand has it considered again when it opens."""
        if not self.demand.open and not self.passed_over:
            self.passed_over = True
            self.demand.set_aside[self] = None
            self._set_bits()

    def consider(self) -> None:
        """Its demand is open, or its first ask may reserve a node, perhaps."""
        self.aside = self.passed_over = False
        self.demand.set_aside.pop(self, None)
        self._set_bits()
        if self.bits and self.ranking.members:
            self.leaf.enter(0, self.bits)

    def _set_bits(self) -> None:
        bit = self.demand.bit
        bits = bit << FREED if self.passed_over else bit | bit << FREED
        if self.aged and not self.aside:
            bits |= bit << RESERVING
        self.bits = 0 if self.hidden else bits
        if self.rank is not None:
            self.leaf.order.set_bits(self.rank, self.bits)
            self.leaf.found = None


class ApplicationAsks(AsksByTurn):
    """One application's asks in an ask class, and what was reported about why they wait."""

    __slots__ = ("announced", "application", "ask_class", "dirty", "entry", "looked_at", "reported")

    def __init__(self, application: Application, ask_class: AskClass) -> None:
        super().__init__()
        self.application = application
        self.ask_class = ask_class
        # Constraint.key of each reason that was reported -> when it was last reported, in ms.
        self.reported: Mapping[tuple[str, str, str], int] = NOTHING
        # By priority: the age of the last ask that was announced as outstanding; and what there was to announce then.
        self.announced: Mapping[int, int] = NOTHING
        self.looked_at: tuple[int, int] = (0, 0)
        self.entry: Entry | None = None
        self.dirty = False

    def was_reported(self, why: tuple[str, str, str], now_ms: int) -> None:
        """The reason why it waits was reported."""
        self.reported = {**self.reported, why: now_ms}

    def was_announced(self, ask: PendingAsk) -> None:
        """The ask was announced as outstanding. Priorities without asks are forgotten."""
        there = {priority: self.announced[priority] for priority, _ in self.by_priority() if priority in self.announced}
        self.announced = {**there, ask.ask.priority: ask.seq}

    def unannounced(self, looks: int, most: int) -> list[PendingAsk]:
        """At most `most` asks that were not announced yet, and of which no reason to wait was reported. `looks`: how
        many pending repeats to look at. If there are no more than `most`, later calls return none until other asks
        come."""
        there_is = (max(asks[-1].seq for _, asks in self.by_priority() if asks), looks)
        if self.looked_at == there_is:
            return []
        found = list(self._unannounced(looks))
        if len(found) <= most:
            self.looked_at = there_is
        return found[:most]

    def _unannounced(self, looks: int) -> Iterator[PendingAsk]:
        for priority, asks in self.by_priority():
            announced = self.announced.get(priority, 0)
            for ask in asks:
                if looks <= 0:
                    return
                looks -= ask.free
                if ask.free and ask.seq > announced and not ask.waiting:
                    yield ask

    def rank(self) -> Rank:
        """The rank of its application, which has one entry in each ask class."""
        return self.ask_class.leaf.application_rank(self.application)
