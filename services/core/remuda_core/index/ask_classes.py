"""Ask classes: the asks of a leaf queue that are equal to the rules, of whichever application.

AskClass             asks of one leaf and one demand, under the same limits; its applications' asks are in a ranking
  ApplicationAsks    one application's asks in an ask class, by priority and age
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from ..state import Application, PendingAsk, Queue, Tracker
from .admission import in_the_way
from .asks_by_turn import AsksByTurn
from .blocked import BlockedBy
from .fit_list import HIDDEN, FitList, Rank, Vector
from .lazy_ranking import Entry, LazyRanking
from .node_groups import Demand

# Shared empty mapping. Never mutated.
NOTHING: Final[Mapping[Any, int]] = {}
# What may stand in an application's way beside maxima and nodes: whether it is held back, which queues and trackers
# have to have a slot for it, and which trackers room.
Admission = tuple[bool, tuple["Queue | Tracker", ...], tuple["Tracker", ...]]


class LeafIndex(Protocol):
    """The index, as ask classes see it."""

    @property
    def parked(self) -> BlockedBy[AskClass]: ...


class Leaf(Protocol):
    """The leaf queue of an ask class: a `LeafOrder`."""

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
    def order(self) -> FitList[AskClass]: ...
    @property
    def closed(self) -> FitList[AskClass]: ...
    @property
    def dirty_ask_classes(self) -> list[AskClass]: ...
    def application_rank(self, application: Application) -> Rank: ...
    def taken(self, line: ApplicationAsks) -> None: ...
    def enter(self, more: int = 0) -> None: ...
    def changed(self, less: int = 0) -> None: ...


class AskClass:
    __slots__ = (
        "admission",
        "aged",
        "demand",
        "dirty",
        "leaf",
        "limited",
        "number",
        "open",
        "rank",
        "ranking",
        "room",
        "since_ms",
        "waits",
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
        self.open = not held_back
        self.waits = False  # for a gap: closed, and nothing but room on a node may be in its way
        # Since when its oldest ask waits, as far as that is known, and whether that is long enough to reserve a node.
        self.since_ms: float = float("inf")
        self.aged = False
        self.rank: Rank | None = None
        self.room: Vector = demand.negated if self.open else HIDDEN

    def touch(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.leaf.dirty_ask_classes.append(self)

    def rank_now(self) -> Rank:
        """That of its first line, and of the first ask in it: an application may have a line in another ask class too.
        The number keeps it apart from what a closed ask class ranked before: an ask may have moved on from there."""
        ask = self.first()
        return (*self.leaf.application_rank(ask.application), -ask.ask.priority, ask.seq, self.number)

    def first(self) -> PendingAsk:
        line = self.ranking.leader or self.ranking.first()
        assert line is not None, "an ask class without lines is gone"
        ask = line.first_ask()
        assert ask is not None, "a line without asks is gone"
        return ask

    def in_the_way(self) -> Queue | Tracker | None:
        """What has no slot or no room for its asks; None: they may be allocated."""
        _, application_limits, trackers = self.admission
        return in_the_way(application_limits, trackers, self.demand.resource)

    def close(self) -> None:
        """No node fits: out of the way until one may."""
        self.open = False
        self.leaf.found = None
        demand = self.demand
        demand.closed_ask_classes[self] = None
        if demand.choosy or not demand.possible:
            self.room = HIDDEN
            return
        rank = self.rank
        self.leaf.order.remove(self)
        self.waits = True
        if rank is not None:
            self.leaf.closed.put(self, rank)

    def wait_no_more(self) -> None:
        if self.waits:
            self.leaf.closed.remove(self)
            self.waits = False

    def reopen(self) -> None:
        self.wait_no_more()
        if self.admission[0] or self in self.leaf.index.parked:
            return  # it waits for something else
        self.open = True
        self.room = self.demand.negated
        self.leaf.found = None
        if self.ranking.members:
            self.touch()
            self.leaf.enter()


class ApplicationAsks(AsksByTurn):
    """One application's asks in an ask class."""

    __slots__ = ("announced", "application", "ask_class", "dirty", "entry", "looked_at", "told")

    def __init__(self, application: Application, ask_class: AskClass) -> None:
        super().__init__()
        self.application = application
        self.ask_class = ask_class
        # Why it waited (Constraint.key of the first), and when somebody was last told so.
        self.told: Mapping[tuple[str, str, str], int] = NOTHING
        # By priority: the age of the last ask that was told to be outstanding; and what there was to look at then.
        self.announced: Mapping[int, int] = NOTHING
        self.looked_at: tuple[int, int] = (0, 0)
        self.entry: Entry | None = None
        self.dirty = False

    def was_told(self, why: tuple[str, str, str], now_ms: int) -> None:
        """That it waits for this reason."""
        self.told = {**self.told, why: now_ms}

    def was_announced(self, ask: PendingAsk) -> None:
        """That it is outstanding. What is said of priorities that are not there any more is forgotten."""
        there = {priority: self.announced[priority] for priority, _ in self.by_priority() if priority in self.announced}
        self.announced = {**there, ask.ask.priority: ask.seq}

    def unannounced(self, looks: int, most: int) -> list[PendingAsk]:
        """Of the first asks those that came after the last announced, and of which nothing was told; `looks` counts
        pieces. Where there were no more than that, it is not looked again until other asks come."""
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
        """That of its application: an ask class has one line of each."""
        return self.ask_class.leaf.application_rank(self.application)
