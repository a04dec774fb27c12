"""The asks of a leaf queue, grouped as the scheduling rules see them.

    AskClass           asks of one leaf and one demand, under the same limits; its applications are in a ranking
      ApplicationAsks  the asks of one application in an ask class
        PriorityFifo   asks by priority and age

A search looks at ask classes, never at single asks: thousands of equal asks cost as much as one.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Protocol

from ..costs import cost_of_gang
from ..limits import LEFTOVERS
from ..state import Application, Budget, PendingAsk, Queue, Tracker
from .demands import FREED, RESERVING
from .limits import BlockedBy, Limit, in_the_way
from .node_groups import Demand
from .ordered import Entry, LazyRanking, Rank
from .trees import BitTree
from .users import UserRanking


class PriorityFifo:
    """Asks by priority from high to low, then by age (semantics section 9). Only asks with free repeats count.

    Mostly asks come in the order of their age and have one priority; then all operations are O(1). A withdrawn ask has
    no free repeats. It stays until it comes to the front, or until withdrawn asks outnumber the others. So the first
    ask of `best` has free repeats, and `best` is empty only if no ask is left."""

    __slots__ = ("best", "lower", "priority", "tidy_at", "withdrawn")

    def __init__(self) -> None:
        # The asks of the highest priority by age, and this priority.
        self.best: deque[PendingAsk] = deque()
        self.priority = 0
        # The asks of each lower priority by age. None or empty: all asks have one priority.
        self.lower: dict[int, deque[PendingAsk]] | None = None
        # How many asks are withdrawn, and at how many to check whether they are too many.
        self.withdrawn = 0
        self.tidy_at = LEFTOVERS

    def add_ask(self, ask: PendingAsk) -> None:
        asks = self.best if ask.ask.priority == self.priority else self._of_priority(ask.ask.priority)
        if asks and asks[-1].seq > ask.seq:
            insort(asks, ask, key=lambda pending: pending.seq)
        else:
            asks.append(ask)

    def _of_priority(self, priority: int) -> deque[PendingAsk]:
        """The asks of a priority that is not the highest so far."""
        lower = self.lower = self.lower or {}
        if priority < self.priority and (self.best or lower):
            return lower.setdefault(priority, deque())
        if self.best:
            lower[self.priority] = self.best
            self.best = deque()
        self.priority = priority
        return self.best

    def remove_ask(self, ask: PendingAsk) -> None:
        """Remove an ask that is here. O(1) for the first ask, else O(asks)."""
        best = self.best
        if best[0] is ask:
            best.popleft()
            if not best or not best[0].free:
                self._advance()
        elif ask.ask.priority == self.priority or self.lower is None:
            best.remove(ask)
        else:
            asks = self.lower[ask.ask.priority]
            asks.remove(ask)
            if not asks:
                del self.lower[ask.ask.priority]

    def count_withdrawn(self) -> None:
        """Count an ask that was withdrawn: its `free` is 0 now."""
        self.withdrawn += 1
        if not self.best[0].free:
            self._advance()
        if self.withdrawn >= self.tidy_at:
            self._tidy()

    def _tidy(self) -> None:
        lower = self.lower or {}
        there = len(self.best) + sum(map(len, lower.values()))
        if 2 * self.withdrawn > there:
            self.best = deque(ask for ask in self.best if ask.free)
            kept = {priority: deque(ask for ask in asks if ask.free) for priority, asks in lower.items()}
            self.lower = {priority: asks for priority, asks in kept.items() if asks} or None
            there -= self.withdrawn
            self.withdrawn = 0
        self.tidy_at = max(LEFTOVERS, there // 2 + 1)

    def remove_keys(self, moving: set[str]) -> None:
        """Remove the asks with these allocation keys, and those that were withdrawn. O(asks)."""
        waiting = [ask for _, asks in self.by_priority() for ask in asks if ask.free]
        self.best = deque()
        self.lower = None
        self.withdrawn = 0
        for ask in waiting:
            if ask.ask.allocation_key not in moving:
                self.add_ask(ask)

    def by_priority(self) -> Iterator[tuple[int, deque[PendingAsk]]]:
        """(priority, its asks by age), from the highest priority to the lowest. Includes withdrawn asks."""
        yield self.priority, self.best
        if self.lower:
            yield from sorted(self.lower.items(), reverse=True)

    def count(self) -> int:
        """The number of asks with free repeats. O(asks)."""
        return sum(1 for _, asks in self.by_priority() for ask in asks if ask.free)

    def oldest_ask(self) -> PendingAsk | None:
        """The ask with free repeats that was submitted first; None if there is none. O(priorities), amortised."""
        first = (next((ask for ask in asks if ask.free), None) for _, asks in self.by_priority())
        return min((ask for ask in first if ask is not None), key=lambda ask: ask.at_ms, default=None)

    def first_ask(self) -> PendingAsk | None:
        """The ask that is next; None if there is none."""
        return self.best[0] if self.best else None

    def _advance(self) -> None:
        """Drop asks without free repeats from the front."""
        asks = self.best
        while True:
            while asks:
                if asks[0].free:
                    return
                asks.popleft()
                self.withdrawn -= 1
            if not self.lower:
                return
            self.priority = max(self.lower)
            self.best = asks = self.lower.pop(self.priority)


# Shared empty mapping. Never mutated.
NOTHING: Final[Mapping[Any, int]] = {}
# The constraints on the asks of an application besides maxima and nodes: whether its queue is held or another
# application has the turn to start; the queues and trackers that must have a running slot for it; the trackers and the
# budgets that must have room for its asks; and the application itself where its asks are placeholders that budgets
# admit together.
Admission = tuple[
    bool, tuple["Queue | Tracker", ...], tuple["Tracker", ...], tuple["Budget", ...], "Application | None"
]


class LeafIndex(Protocol):
    """The index of the partition, as ask classes see it."""

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
    def new_ranking(self) -> LazyRanking[Any] | UserRanking[Any]: ...
    def member_rank(self, application: Application) -> Rank: ...
    def application_rank(self, application: Application) -> Rank: ...
    def taken(self, line: ApplicationAsks) -> None: ...
    def enter(self, more: int = 0, bits: int = 0) -> None: ...
    def changed(self, less: int = 0) -> None: ...


@dataclass(slots=True, eq=False)
class AskClass:
    """The asks of one leaf and one demand whose applications are under the same limits. It exists while it has asks."""

    leaf: Leaf
    demand: Demand
    admission: Admission
    # Whether its applications are under limits; else only maxima and nodes constrain it.
    limited: bool = field(init=False)
    # The asks of each application, by the rank of the application.
    ranking: LazyRanking[ApplicationAsks] | UserRanking[ApplicationAsks] = field(init=False)
    # Distinguishes ask classes of the same rank. Grows with each ask class of the leaf.
    number: int = field(init=False)
    # The rank in the order of the leaf has to be computed again. None: the class is not in the order, because it is
    # hidden, alone in the leaf, or was not ranked yet.
    dirty: bool = False
    rank: Rank | None = None
    # Its application's turn, a held queue or a limit keeps it from being scheduled.
    hidden: bool = field(init=False)
    # The time of its oldest ask, as far as it is known, and whether that ask is old enough to reserve a node.
    since_ms: float = inf
    aged: bool = False
    # Under which time it is listed among the ask classes that wait to be old enough. None: it is not.
    aging_since_ms: int | None = None
    # What keeps its asks from reserving one more node (`ReservedNodes.waiting`). None: nothing is known to.
    waits_for: Hashable | None = None
    # Its first ask may not reserve a node yet.
    aside: bool = False
    # Its demand is closed, and a search has come across it because another demand with the same number is open.
    passed_over: bool = False
    # The bits of its demand in the states in which a search has to look at it. 0 while it is hidden.
    bits: int = 0

    def __post_init__(self) -> None:
        self.ranking = self.leaf.new_ranking()
        self.hidden, application_limits, trackers, budgets, _ = self.admission
        self.limited = bool(application_limits or trackers or budgets)
        self.leaf.numbers += 1
        self.number = self.leaf.numbers
        self._set_bits()

    def touch(self) -> None:
        """Note that its rank may have changed."""
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
        """The ask that is next."""
        line = self.ranking.leader or self.ranking.first()
        assert line is not None, "an ask class without lines is gone"
        return line.best[0]  # a line without asks is gone

    def in_the_way(self) -> Limit | None:
        """The limit that has no slot or no room for its asks; None if there is no such limit."""
        _, application_limits, trackers, budgets, gang = self.admission
        if not budgets:
            return in_the_way(application_limits, trackers, self.demand.quota)
        cost = self.demand.cost if gang is None else cost_of_gang(gang, self.demand.cost_bound_ms)
        return in_the_way(application_limits, trackers, self.demand.quota, budgets, cost)

    def admits(self) -> bool:
        """Whether the demand of the class is open, or is reserving and its first ask may reserve a node."""
        demand = self.demand
        return demand.open or (demand.reserving and self.aged and not self.aside)

    def hide(self) -> None:
        """Leave the order of the leaf."""
        self.hidden = True
        self.bits = 0
        if self.rank is not None:
            self.leaf.order.remove(self.rank)
            self.leaf.found = None
            self.rank = None

    def show(self) -> None:
        """Return to the order of the leaf, because a limit has room or a slot again."""
        if self.admission[0] or self in self.leaf.index.parked:
            return  # its application's turn or a limit keeps it back
        self.hidden = False
        self._set_bits()
        if self.ranking.members:
            self.touch()
            self.leaf.enter(0, self.bits)

    def set_aside(self) -> None:
        """Note that its first ask may not reserve a node yet. Its demand, or a change of its asks, has it considered
        again."""
        self.aside = True
        self.demand.set_aside[self] = None
        self._set_bits()

    def pass_over(self) -> None:
        """Note that a search has come across it because of another demand. Its demand has it considered again when it
        opens."""
        if not self.demand.open and not self.passed_over:
            self.passed_over = True
            self.demand.set_aside[self] = None
            self._set_bits()

    def consider(self) -> None:
        """Let searches look at it: its demand is open, or its first ask may reserve a node, perhaps."""
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


class ApplicationAsks(PriorityFifo):
    """One application's asks in an ask class, and what was reported about why they wait."""

    __slots__ = ("announced", "application", "ask_class", "dirty", "entry", "looked_at", "reported")

    def __init__(self, application: Application, ask_class: AskClass) -> None:
        super().__init__()
        self.application = application
        self.ask_class = ask_class
        # When each reason to wait was last reported, in ms, by Constraint.key.
        self.reported: Mapping[tuple[str, str, str], int] = NOTHING
        # By priority: the age of the last ask that was announced as outstanding. And what there was to announce when
        # `unannounced` last found all of it.
        self.announced: Mapping[int, int] = NOTHING
        self.looked_at: tuple[int, int] = (0, 0)
        self.entry: Entry | None = None
        self.dirty = False

    def was_reported(self, why: tuple[str, str, str], now_ms: int) -> None:
        """Note that the reason why the asks wait was reported."""
        self.reported = {**self.reported, why: now_ms}

    def was_announced(self, ask: PendingAsk) -> None:
        """Note that the ask was announced as outstanding. Priorities without asks are forgotten."""
        there = {priority: self.announced[priority] for priority, _ in self.by_priority() if priority in self.announced}
        self.announced = {**there, ask.ask.priority: ask.seq}

    def unannounced(self, looks: int, most: int) -> list[PendingAsk]:
        """Returns at most `most` asks that were not announced yet, and of which no reason to wait was reported.
        `looks`: how many pending repeats to look at. If there are no more than `most`, later calls return none until
        other asks come."""
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
        return self.ask_class.leaf.member_rank(self.application)
