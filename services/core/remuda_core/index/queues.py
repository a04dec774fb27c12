"""Keep queues, applications and asks in scheduling order (semantics section 9) as facts change them.

    ParentOrder     children with pending asks, in a ranking by (priority, share, pending, name)
      LeafOrder     its ask classes, in a FitList: the best one that fits the headroom
        AskClass    asks that are equal to the rules (one leaf, one demand, the same limits); its applications' asks
                    are in a ranking
          ApplicationAsks  one application's asks in an ask class, by priority and age

A queue with nothing schedulable leaves its parent's ranking. It re-enters when an event may have unblocked it: an ask,
a release, room under a maximum, room on a node. So blocked queues cost nothing. Looking for the next ask may
tidy these structures but never changes what they say. An ask class that a limit stands in the way of is parked there by
the index until the limit gives way.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from operator import neg
from typing import Any, Final, Protocol, cast

from ..limits import LEFTOVERS
from ..rules.properties import FAIR, STATE_AWARE, sort_policy, sorts_by_priority
from ..rules.share import dominant_share, due_to_queue, raw_shares, share_list, weight
from ..state import Application, Node, Partition, PendingAsk, Queue, Tracker
from .admission import in_the_way
from .blocked import BlockedBy
from .fit_list import HIDDEN, FitList, Vector, covers
from .lazy_ranking import Entry, LazyRanking, Member
from .nodes import Demand
from .preemptors import Preemptors
from .reservations import Reservations
from .stateaware_turn import StateawareTurn

# What nearly every line has to say: one for all of them, never written to.
NOTHING: Final[Mapping[Any, int]] = {}
# More than any sum of amounts, and yet less than FitList's infinities.
UNLIMITED = 2.0**200
Rank = tuple[Any, ...]
# What may stand in an application's way beside maxima and nodes: whether it is held back, which queues and trackers
# have to have a slot for it, and which trackers room.
Admission = tuple[bool, tuple["Queue | Tracker", ...], tuple["Tracker", ...]]


class Index(Protocol):
    """What is needed here of the index that this is a part of."""

    @property
    def partition(self) -> Partition: ...
    @property
    def raw_shares(self) -> bool: ...
    @property
    def names(self) -> Mapping[str, int]: ...
    @property
    def scales(self) -> Mapping[str, int]: ...
    @property
    def no_limits(self) -> Vector: ...
    @property
    def lines(self) -> MutableMapping[PendingAsk, Any]: ...
    @property
    def gangs(self) -> Mapping[Application, Member]: ...
    @property
    def blocked(self) -> MutableMapping[Any, None]: ...
    @property
    def unexplained(self) -> dict[ApplicationAsks, None]: ...
    @property
    def parked(self) -> BlockedBy[AskClass]: ...
    @property
    def preemptors(self) -> Preemptors | None: ...
    @property
    def reservations(self) -> Reservations: ...
    def order_of(self, queue: Queue) -> ParentOrder | LeafOrder | None: ...
    def anything_fits(self, negated_headroom: Vector) -> bool: ...
    def park(self, ask_class: AskClass, limit: Queue | Tracker) -> None: ...
    def age(self, ask_class: AskClass, ask: PendingAsk) -> None: ...
    def look_again(self, ask_class: AskClass) -> None: ...
    def ask_class_opened(self, ask_class: AskClass) -> None: ...
    def ask_class_gone(self, ask_class: AskClass) -> None: ...


class QueueOrder:
    """What parents and leaves have in common: a place in the ranking above, and a headroom. `serving`: a place among
    those above that have gangs whose placeholders can be replaced, while there are any below."""

    __slots__ = (
        "above",
        "by_parents_priority",
        "dirty",
        "due",
        "entry",
        "index",
        "limited",
        "maxima",
        "parked",
        "queue",
        "serving",
        "settings",
        "stalled",
        "weight",
    )

    def __init__(self, queue: Queue, above: ParentOrder | None, index: Index) -> None:
        self.queue = queue
        self.settings = queue.settings  # those that all here follows from
        self.above = above
        self.index = index
        self.by_parents_priority = above is not None and above.by_priority
        self.weight = 0  # of all that is pending below
        self.entry: Entry | None = None
        self.dirty = False
        # (place in a vector, name, amount)
        self.maxima: tuple[tuple[int, str, int], ...] = ()
        self.limited = False
        self.read_maxima()
        self.serving: Serving | None = None
        # Who below here gave up under a headroom that this queue's maximum may have made.
        self.parked: dict[QueueOrder, None] = {}
        # Reserved nodes whose asks its maximum leaves no room for.
        self.stalled: dict[Node, None] = {}
        self.due = self._due()

    def read_maxima(self) -> None:
        """Of what no node has, nothing is used that could be too much."""
        names = self.index.names
        found = self.queue.settings.max.items()
        self.maxima = tuple((names[name], name, most) for name, most in found if name in names)
        self.limited = bool(self.maxima)

    def due_changed(self) -> bool:
        """What it is due is worked out again; whether that is something else."""
        was, self.due = self.due, self._due()
        return was != self.due

    def _due(self) -> dict[str, int]:
        return due_to_queue(self.queue.settings.guaranteed, self._fair_max(), self.index.partition.total)

    def _fair_max(self) -> dict[str, int]:
        """Per resource, the nearest maximum from here up."""
        nearest: dict[str, int] = {}
        for queue in self.queue.path_to_root:
            nearest = {**queue.settings.max, **nearest}
        return nearest

    def rank(self) -> Rank:
        queue = self.queue
        share: Any
        if self.index.raw_shares:
            share = raw_shares(queue.allocated, queue.settings.guaranteed)
        else:
            share = dominant_share(queue.allocated, self.due)
        if self.by_parents_priority:
            return (-queue.priority, share, -self.weight, queue.path)
        return (share, -queue.priority, -self.weight, queue.path)

    def total_changed(self) -> None:
        """The partition's total, by which shares are measured, is another."""
        self.due = self._due()
        self.weight = self._weight()
        if self.above is not None:
            self.above.ranking.touch(cast("ParentOrder | LeafOrder", self))
            if self.serving is not None:
                self.above.gangs.touch(self.serving)

    def _weight(self) -> int:
        """Of all that is pending below, by what the partition's total is now."""
        raise NotImplementedError

    def negated_headroom(self, outer: Vector | None) -> Vector:
        """Its headroom, max - allocated - held, no more than what the queues above leave; negated, as demands are in a
        FitList."""
        allocated, held = self.queue.allocated, self.queue.held
        negated_headroom = list(self.index.no_limits if outer is None else outer)
        for place, name, most in self.maxima:
            over = allocated.get(name, 0) - most
            if held:
                over += held.get(name, 0)
            if over > negated_headroom[place]:
                negated_headroom[place] = over
        return tuple(negated_headroom)

    def enter(self, more: int = 0) -> None:
        """There may be something to do here again: take part, all the way up. `more`: what is asked in addition."""
        order: Any = self  # a ParentOrder or a LeafOrder
        while (above := order.above) is not None:
            order.weight += more
            above.ranking.enter(order)
            if order.serving is not None:
                above.gangs.touch(order.serving)
            order = above

    def changed(self, less: int = 0) -> None:
        """Its rank changed, and that of all above. `less`: the weight of what is not asked any more."""
        order: Any = self  # a ParentOrder or a LeafOrder
        while (above := order.above) is not None:
            order.weight -= less
            above.ranking.touch(order)
            if order.serving is not None:
                above.gangs.touch(order.serving)
            order = above

    def weigh(self) -> None:
        """Other things are asked for: work the weight out anew."""
        self.changed(self.weight - self._weight())

    def released(self) -> None:
        """Something below was released: it, and whoever gave up under its maximum, may try again."""
        order: QueueOrder | None = self
        while order is not None:
            order.look_again()
            order = order.above
        self.enter()

    def look_again(self) -> None:
        """There may be more room under its maximum."""
        for gave_up in self.parked:
            gave_up.enter()
        self.parked.clear()
        if self.stalled:
            self.index.reservations.wake(self.stalled)
            self.stalled.clear()

    def park(self) -> None:
        """Gave up while some maximum on the way down limited it."""
        order: QueueOrder | None = self
        while order is not None:
            if order.limited:
                order.parked[self] = None
            order = order.above


class Serving:
    """The part of a queue in the ranking of those with gangs to serve."""

    __slots__ = ("dirty", "entry", "order")

    def __init__(self, order: ParentOrder | LeafOrder) -> None:
        self.order = order
        self.entry: Entry | None = None
        self.dirty = False

    def rank(self) -> Rank:
        return self.order.rank()


class ParentOrder(QueueOrder):
    __slots__ = ("by_priority", "gangs", "ranking")

    def __init__(self, queue: Queue, above: ParentOrder | None, index: Index) -> None:
        super().__init__(queue, above, index)
        self.by_priority = sorts_by_priority(queue.settings.properties)
        self.ranking: LazyRanking[ParentOrder | LeafOrder] = LazyRanking()
        self.gangs: LazyRanking[Serving] = LazyRanking()

    def total_changed(self) -> None:
        for child in self.queue.children.values():
            if (order := self.index.order_of(child)) is not None:
                order.total_changed()
        super().total_changed()

    def _weight(self) -> int:
        children = (self.index.order_of(child) for child in self.queue.children.values())
        return sum(order.weight for order in children if order is not None)

    def first(self, negated_headroom: Vector | None) -> AskClass | None:
        """The ask class below whose first ask is next, of those that fit the headroom (None: there is no maximum on the
        way)."""
        if negated_headroom is not None and not self.index.anything_fits(negated_headroom):
            return None
        ranking = self.ranking
        while (child := ranking.leader or ranking.first()) is not None:
            inner = child.negated_headroom(negated_headroom) if child.limited else negated_headroom
            found = child.first(inner)
            if found is not None:
                return found
            ranking.leave(child)
            if inner is not None:
                child.park()
        return None


class LeafOrder(QueueOrder):
    __slots__ = (
        "ask_classes",
        "by_priority",
        "closed",
        "dirty_ask_classes",
        "fair",
        "found",
        "found_under",
        "gangs",
        "lines",
        "numbers",
        "only",
        "order",
        "stateaware_turn",
    )

    def __init__(self, queue: Queue, above: ParentOrder | None, index: Index) -> None:
        super().__init__(queue, above, index)
        policy = sort_policy(queue.settings.properties)
        self.fair = policy == FAIR
        self.stateaware_turn = StateawareTurn() if policy == STATE_AWARE else None
        self.by_priority = sorts_by_priority(queue.settings.properties)
        self.ask_classes: dict[tuple[Demand, Admission], AskClass] = {}
        self.only: AskClass | None = None  # the ask class, when there is one
        self.lines: dict[Application, dict[Demand, ApplicationAsks]] = {}
        self.order: FitList[AskClass] = FitList(len(index.names))
        self.closed: FitList[AskClass] = FitList(len(index.names))  # ask classes that wait for a gap
        # Applications with placeholders that can be replaced now.
        self.gangs: LazyRanking[Member] = LazyRanking()
        # The ask class found last, and under which headroom: as long as there is no more room, no ask class before it
        # fits. None: another may have come before it.
        self.found: AskClass | None = None
        self.found_under: Vector = index.no_limits
        self.dirty_ask_classes: list[AskClass] = []
        self.numbers = 0

    def total_changed(self) -> None:
        super().total_changed()
        if self.fair:
            self.rank_applications()

    def rank_applications(self) -> None:
        """Their shares are measured by something else."""
        for application in self.lines:
            self.application_changed(application)
        for gang in self.gangs.members:
            self.gangs.touch(gang)

    def _weight(self) -> int:
        return weight(self.queue.asked, self.index.scales)

    def first(self, negated_headroom: Vector | None) -> AskClass | None:
        """The best ask class that fits the headroom and may fit a node."""
        if self.dirty_ask_classes:
            self._settle()
        only = self.only
        if only is not None:
            if not only.open or (negated_headroom is not None and not covers(only.room, negated_headroom)):
                return None
            if not only.demand.live:
                only.close()
            elif not only.limited or self._passes(only):
                return only
            return None
        negated_headroom = negated_headroom or self.index.no_limits
        ask_class = self.found
        if (
            ask_class is None
            or not covers(ask_class.room, negated_headroom)
            or not covers(negated_headroom, self.found_under)
        ):
            ask_class = self.order.first(negated_headroom)
        while ask_class is not None:
            if not ask_class.demand.live:
                ask_class.close()
            elif not ask_class.limited or self._passes(ask_class):
                self.found, self.found_under = ask_class, negated_headroom
                return ask_class
            ask_class = self.order.first(negated_headroom)
        return None

    def first_closed(self, room: Vector) -> AskClass | None:
        """The best ask class that waits for a gap and fits this one, `room`, and the headroom."""
        negated_headroom: Vector = tuple(map(neg, room))
        for queue in self.queue.path_to_root:
            if (order := self.index.order_of(queue)) is not None and order.limited:
                negated_headroom = order.negated_headroom(negated_headroom)
        if self.dirty_ask_classes:
            self._settle()
        only = self.only
        if only is not None:
            if only.open and not only.demand.live:
                only.close()
            fits = only.waits and covers(only.demand.negated, negated_headroom)
            return only if fits and (not only.limited or self._passes(only)) else None
        while (ask_class := self.order.first(negated_headroom)) is not None and not ask_class.demand.live:
            ask_class.close()  # it was not looked at since its demand closed
        while (ask_class := self.closed.first(negated_headroom)) is not None:
            if not ask_class.limited or self._passes(ask_class):
                return ask_class
        return None

    def _passes(self, ask_class: AskClass) -> bool:
        """The ask class's limits let its asks pass; if not, it is parked at one that does not."""
        limit = ask_class.in_the_way()
        if limit is not None:
            self.index.park(ask_class, limit)
        return limit is None

    def _settle(self) -> None:
        for ask_class in self.dirty_ask_classes:
            ask_class.dirty = False
            if ask_class.ranking.members and (ask_class.open or ask_class.waits) and ask_class is not self.only:
                rank = ask_class.rank_now()
                if rank != ask_class.rank and not (self.closed if ask_class.waits else self.order).move(
                    ask_class, rank
                ):
                    self.found = None
        self.dirty_ask_classes.clear()

    # What happens to asks

    def add(self, ask: PendingAsk, demand: Demand, more: int) -> None:
        """`more`: the weight of what is asked in addition."""
        application = ask.application
        lines = self.lines.setdefault(application, {})
        line = lines.get(demand)
        if line is None:
            ask_class = self._ask_class(demand, self._admission(application))
            line = lines[demand] = ApplicationAsks(application, ask_class)
            self.index.unexplained[line] = None
            ask_class.ranking.enter(line)
            if len(lines) == 1:
                self.asks(application)
        line.add(ask)
        self.index.lines[ask] = line
        self._waits_since(line.ask_class, ask)
        if self.only is None:
            line.ask_class.touch()
        self.enter(more)

    def _waits_since(self, ask_class: AskClass, ask: PendingAsk | None) -> None:
        """One more ask in an ask class: it may be the oldest."""
        if ask is not None and ask.at_ms < ask_class.since_ms:
            self.index.age(ask_class, ask)
        if not ask_class.open:
            self.index.look_again(ask_class)

    def taken(self, line: ApplicationAsks) -> None:
        """An allocation was made for the first ask of a line, or an ask went: what is first may be another."""
        ask_class = line.ask_class
        if line.head() is None:
            self._drop(line)
        if not ask_class.open:
            self.index.look_again(ask_class)
        if self.fair:
            self.application_changed(line.application)
        if self.only is None:
            ask_class.touch()

    def application_rank(self, application: Application) -> Rank:
        if self.fair:
            if self.index.raw_shares:
                shares = raw_shares(application.allocated, self.queue.settings.guaranteed)
            else:
                shares = share_list(application.allocated, self.index.partition.total)
            if self.by_priority:
                return (-application.priority, shares, application.id)
            return (shares, -application.priority, application.id)
        if self.by_priority:
            return (-application.priority, application.seq)
        return (application.seq, -application.priority)

    def application_changed(self, application: Application) -> None:
        """Its share or priority changed: another ask may be first in its ask classes."""
        gangs = self.index.gangs
        if gangs and application in gangs:
            self.gangs.touch(gangs[application])
        for line in self.lines.get(application, {}).values():
            line.ask_class.ranking.touch(line)
            line.ask_class.touch()
            if not line.ask_class.open:
                self.index.look_again(line.ask_class)

    # What stands in an application's way

    def regroup(self, application: Application) -> None:
        """Its standing is another: so are the ask classes of its lines."""
        if self.index.preemptors is not None:
            self.index.preemptors.wake_application(application)
        lines = self.lines.get(application)
        if not lines:
            return
        admission = self._admission(application)
        for demand, line in lines.items():
            old, new = line.ask_class, self._ask_class(demand, admission)
            if old is new:
                continue
            self._leave(old, line)
            line.ask_class = new
            new.ranking.enter(line)
            self._waits_since(new, line.oldest())
            if self.only is None:
                new.touch()
                old.touch()
        self.enter()

    def asks(self, application: Application) -> None:
        """It asks for something, maybe for the first time or again."""
        if self.stateaware_turn is not None:
            self.stateaware_turn.asks(application)
            self.take_stateaware_turn(self.stateaware_turn)

    def take_stateaware_turn(self, stateaware_turn: StateawareTurn) -> None:
        """It may be another's turn to start."""
        for application in stateaware_turn.settle():
            self.regroup(application)

    def holds_back(self, application: Application) -> bool:
        """It is another's turn to start."""
        return self.stateaware_turn is not None and self.stateaware_turn.hold_back(application)

    def _admission(self, application: Application) -> Admission:
        held_back = self.holds_back(application)
        if not application.trackers and not application.application_limits:
            return (held_back, (), ())
        trackers = tuple(tracker for tracker in application.trackers if tracker.limit.max_resources)
        return (held_back, () if application.runs else application.application_limits, trackers)

    def _ask_class(self, demand: Demand, admission: Admission) -> AskClass:
        return self.ask_classes.get((demand, admission)) or self._open_ask_class(demand, admission)

    def _open_ask_class(self, demand: Demand, admission: Admission) -> AskClass:
        ask_class = AskClass(self, demand, admission)
        self.ask_classes[demand, admission] = ask_class
        if self.only is not None:  # alone it was not ranked
            self.only.touch()
        self.only = ask_class if len(self.ask_classes) == 1 else None
        self.index.ask_class_opened(ask_class)
        return ask_class

    def _drop(self, line: ApplicationAsks) -> None:
        ask_class = line.ask_class
        lines = self.lines[line.application]
        del lines[ask_class.demand]
        self.index.unexplained.pop(line, None)  # not while it is looked at
        if not lines:
            del self.lines[line.application]
        self._leave(ask_class, line)

    def _leave(self, ask_class: AskClass, line: ApplicationAsks) -> None:
        """An ask class without lines is gone."""
        ask_class.ranking.leave(line)
        if not ask_class.ranking.members:
            (self.closed if ask_class.waits else self.order).remove(ask_class)
            self.found = None
            del self.ask_classes[ask_class.demand, ask_class.admission]
            self.only = next(iter(self.ask_classes.values())) if len(self.ask_classes) == 1 else None
            if len(self.dirty_ask_classes) > 2 * len(self.ask_classes) + LEFTOVERS:
                self.dirty_ask_classes = [each for each in self.dirty_ask_classes if each.ranking.members]
            self.index.ask_class_gone(ask_class)


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

    def __init__(self, leaf: LeafOrder, demand: Demand, admission: Admission) -> None:
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
        asks = line.best
        if asks and asks[0].free:  # line.head(), without the call
            return asks[0]
        ask = line.head()
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


class Asks:
    """By priority, then by age. Asks mostly come in the order of their age, and all have one priority; those that were
    withdrawn stay until they come to the front, or outnumber the others."""

    __slots__ = ("best", "lower", "priority", "tidy_at", "withdrawn")

    def __init__(self) -> None:
        self.best: deque[PendingAsk] = deque()  # the ones of the highest priority, and which that is
        self.priority = 0
        self.lower: dict[int, deque[PendingAsk]] | None = None
        self.withdrawn = 0
        self.tidy_at = LEFTOVERS  # at how many withdrawn ones to look whether they are too many

    def add(self, ask: PendingAsk) -> None:
        asks = self.best if ask.ask.priority == self.priority else self._another(ask.ask.priority)
        if asks and asks[-1].seq > ask.seq:
            insort(asks, ask, key=lambda pending: pending.seq)
        else:
            asks.append(ask)

    def _another(self, priority: int) -> deque[PendingAsk]:
        """Those of another priority than the best had so far."""
        lower = self.lower = self.lower or {}
        if priority < self.priority and (self.best or lower):
            return lower.setdefault(priority, deque())
        if self.best:
            lower[self.priority] = self.best
            self.best = deque()
        self.priority = priority
        return self.best

    def remove(self, ask: PendingAsk) -> None:
        """It waits no more, or elsewhere. Mostly it is the first."""
        best = self.best
        if best and best[0] is ask:
            best.popleft()
        elif ask.ask.priority == self.priority or self.lower is None:
            best.remove(ask)
        else:
            asks = self.lower[ask.ask.priority]
            asks.remove(ask)
            if not asks:
                del self.lower[ask.ask.priority]

    def withdraw(self) -> None:
        """One of them is not asked any more: its `free` is 0."""
        self.withdrawn += 1
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

    def leave(self, moving: set[str]) -> None:
        """Those with these keys wait elsewhere from now on."""
        waiting = [ask for _, asks in self.by_turn() for ask in asks if ask.free]
        self.best = deque()
        self.lower = None
        self.withdrawn = 0
        for ask in waiting:
            if ask.ask.allocation_key not in moving:
                self.add(ask)

    def by_turn(self) -> Iterator[tuple[int, deque[PendingAsk]]]:
        """The asks of each priority, from high to low."""
        yield self.priority, self.best
        if self.lower:
            yield from sorted(self.lower.items(), reverse=True)

    def count(self) -> int:
        """How many asks wait in it."""
        return sum(1 for _, asks in self.by_turn() for ask in asks if ask.free)

    def oldest(self) -> PendingAsk | None:
        first = (next((ask for ask in asks if ask.free), None) for _, asks in self.by_turn())
        return min((ask for ask in first if ask is not None), key=lambda ask: ask.at_ms, default=None)

    def head(self) -> PendingAsk | None:
        asks = self.best
        while True:
            while asks:
                if asks[0].free:
                    return asks[0]
                asks.popleft()
                self.withdrawn -= 1
            if not self.lower:
                return None
            self.priority = max(self.lower)
            self.best = asks = self.lower.pop(self.priority)


class ApplicationAsks(Asks):
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
        there = {priority: self.announced[priority] for priority, _ in self.by_turn() if priority in self.announced}
        self.announced = {**there, ask.ask.priority: ask.seq}

    def unannounced(self, looks: int, most: int) -> list[PendingAsk]:
        """Of the first asks those that came after the last announced, and of which nothing was told; `looks` counts
        pieces. Where there were no more than that, it is not looked again until other asks come."""
        there_is = (max(asks[-1].seq for _, asks in self.by_turn() if asks), looks)
        if self.looked_at == there_is:
            return []
        found = list(self._unannounced(looks))
        if len(found) <= most:
            self.looked_at = there_is
        return found[:most]

    def _unannounced(self, looks: int) -> Iterator[PendingAsk]:
        for priority, asks in self.by_turn():
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
