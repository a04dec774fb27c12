"""Who is next: the order of queues, applications and asks (semantics section 9), kept as things change.

    ParentOrder     children with pending asks, in a contest by (priority, share, pending, name)
      LeafOrder     its lanes, in a FitList: the best one that fits the headroom
        Lane        asks that are the same to the rules (one leaf, one demand, the same limits in their way); its
                    applications' lines in a contest
          Line      one application's asks in a lane, by priority and age

Whoever finds nothing to do leaves the contest above and comes back when something changed that may help: an ask, a
release, room under a maximum, room on a node. So what waits costs nothing while it waits. Looking for the next ask may
tidy these structures but never changes what they say. A lane that a limit stands in the way of is parked there by the
index until the limit gives way.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator, Mapping
from operator import neg
from typing import TYPE_CHECKING, Any, Final, cast

from ..rules.properties import FAIR, STATE_AWARE, sort_policy, sorts_by_priority
from ..rules.share import dominant_share, due_to_queue, raw_shares, share_list, weight
from .admission import in_the_way
from .contest import Contest, Entry
from .fit_list import HIDDEN, FitList, Vector, covers
from .turns import Turns

if TYPE_CHECKING:
    from ..state import Application, Node, PendingAsk, Queue, Tracker
    from .gang import Gang
    from .index import Index
    from .nodes import Demand

# What nearly every line has to say: one for all of them, never written to.
NOTHING: Final[Mapping[Any, int]] = {}
# More than any sum of amounts, and yet less than FitList's infinities.
UNLIMITED = 2.0**200
Rank = tuple[Any, ...]
# What may stand in an application's way beside maxima and nodes: whether it is held back, which queues and trackers
# have to have a slot for it, and which trackers room.
Standing = tuple[bool, tuple["Queue | Tracker", ...], tuple["Tracker", ...]]


class QueueOrder:
    """What parents and leaves have in common: a place in the contest above, and a headroom. `serving`: a place among
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
        "stalled",
        "weight",
    )

    def __init__(self, queue: Queue, above: ParentOrder | None, index: Index) -> None:
        self.queue = queue
        self.above = above
        self.index = index
        self.by_parents_priority = above is not None and above.by_priority
        self.weight = 0  # of all that is pending below
        self.entry: Entry | None = None
        self.dirty = False
        self.limited = bool(queue.settings.max)
        # (place in a vector, name, amount)
        self.maxima = tuple((index.names[name], name, most) for name, most in queue.settings.max.items())
        self.serving: Serving | None = None
        # Who below here gave up under a headroom that this queue's maximum may have made.
        self.parked: dict[QueueOrder, None] = {}
        # Reserved nodes whose asks its maximum leaves no room for.
        self.stalled: dict[Node, None] = {}
        self.due = self._due()

    def _due(self) -> dict[str, int]:
        return due_to_queue(self.queue.settings.guaranteed, self._fair_max(), self.index.partition.total)

    def _fair_max(self) -> dict[str, int]:
        """Per resource, the nearest maximum from here up."""
        nearest: dict[str, int] = {}
        for queue in self.queue.lineage:
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
            self.above.contest.touch(cast("ParentOrder | LeafOrder", self))
            if self.serving is not None:
                self.above.gangs.touch(self.serving)

    def _weight(self) -> int:
        """Of all that is pending below, by what the partition's total is now."""
        raise NotImplementedError

    def bar(self, outer: Vector | None) -> Vector:
        """Its headroom, max - allocated, no more than what the queues above leave; negated, as demands are in a
        FitList."""
        allocated = self.queue.allocated
        bar = list(self.index.no_limits if outer is None else outer)
        for place, name, most in self.maxima:
            over = allocated.get(name, 0) - most
            if over > bar[place]:
                bar[place] = over
        return tuple(bar)

    def enter(self, more: int = 0) -> None:
        """There may be something to do here again: take part, all the way up. `more`: what is asked in addition."""
        order: Any = self  # a ParentOrder or a LeafOrder
        while (above := order.above) is not None:
            order.weight += more
            above.contest.enter(order)
            if order.serving is not None:
                above.gangs.touch(order.serving)
            order = above

    def changed(self, less: int = 0) -> None:
        """Its rank changed, and that of all above. `less`: the weight of what is not asked any more."""
        order: Any = self  # a ParentOrder or a LeafOrder
        while (above := order.above) is not None:
            order.weight -= less
            above.contest.touch(order)
            if order.serving is not None:
                above.gangs.touch(order.serving)
            order = above

    def released(self) -> None:
        """Something below was released: it, and whoever gave up under its maximum, may try again."""
        order: QueueOrder | None = self
        while order is not None:
            for gave_up in order.parked:
                gave_up.enter()
            order.parked.clear()
            if order.stalled:
                self.index.reservations.wake(order.stalled)
                order.stalled.clear()
            order = order.above
        self.enter()

    def park(self) -> None:
        """Gave up while some maximum on the way down limited it."""
        order: QueueOrder | None = self
        while order is not None:
            if order.limited:
                order.parked[self] = None
            order = order.above


class Serving:
    """The part of a queue in the contest of those with gangs to serve."""

    __slots__ = ("dirty", "entry", "order")

    def __init__(self, order: ParentOrder | LeafOrder) -> None:
        self.order = order
        self.entry: Entry | None = None
        self.dirty = False

    def rank(self) -> Rank:
        return self.order.rank()


class ParentOrder(QueueOrder):
    __slots__ = ("by_priority", "contest", "gangs")

    def __init__(self, queue: Queue, above: ParentOrder | None, index: Index) -> None:
        super().__init__(queue, above, index)
        self.by_priority = sorts_by_priority(queue.settings.properties)
        self.contest: Contest[ParentOrder | LeafOrder] = Contest()
        self.gangs: Contest[Serving] = Contest()

    def total_changed(self) -> None:
        for child in self.queue.children.values():
            if child.order is not None:
                child.order.total_changed()
        super().total_changed()

    def _weight(self) -> int:
        return sum(child.order.weight for child in self.queue.children.values() if child.order is not None)

    def first(self, bar: Vector | None) -> PendingAsk | None:
        """The next ask below that fits the headroom (None: there is no maximum on the way)."""
        if bar is not None and not self.index.anything_fits(bar):
            return None
        contest = self.contest
        while (child := contest.leader or contest.first()) is not None:
            inner = child.bar(bar) if child.limited else bar
            found = child.first(inner)
            if found is not None:
                return found
            contest.leave(child)
            if inner is not None:
                child.park()
        return None


class LeafOrder(QueueOrder):
    __slots__ = (
        "by_priority",
        "closed",
        "dirty_lanes",
        "fair",
        "found",
        "found_under",
        "gangs",
        "lanes",
        "lines",
        "numbers",
        "only",
        "order",
        "turns",
    )

    def __init__(self, queue: Queue, above: ParentOrder | None, index: Index) -> None:
        super().__init__(queue, above, index)
        policy = sort_policy(queue.settings.properties)
        self.fair = policy == FAIR
        self.turns = Turns() if policy == STATE_AWARE else None
        self.by_priority = sorts_by_priority(queue.settings.properties)
        self.lanes: dict[tuple[Demand, Standing], Lane] = {}
        self.only: Lane | None = None  # the lane, when there is one
        self.lines: dict[Application, dict[Demand, Line]] = {}
        self.order: FitList[Lane] = FitList(len(index.names))
        self.closed: FitList[Lane] = FitList(len(index.names))  # lanes that wait for a gap
        # Applications with placeholders that can be replaced now.
        self.gangs: Contest[Gang] = Contest()
        # The lane found last, and under which headroom: as long as there is no more room, no lane before it fits. None:
        # another may have come before it.
        self.found: Lane | None = None
        self.found_under: Vector = index.no_limits
        self.dirty_lanes: list[Lane] = []
        self.numbers = 0

    def total_changed(self) -> None:
        super().total_changed()
        if self.fair:
            for application in self.lines:
                self.application_changed(application)
            for gang in self.gangs.members:
                self.gangs.touch(gang)

    def _weight(self) -> int:
        return weight(self.queue.asked, self.index.scales)

    def first(self, bar: Vector | None) -> PendingAsk | None:
        """The next ask of the best lane that fits the headroom and may fit a node."""
        if self.dirty_lanes:
            self._settle()
        only = self.only
        if only is not None:
            if not only.open or (bar is not None and not covers(only.room, bar)):
                return None
            if not only.demand.live:
                only.close()
            elif not only.limited or self._passes(only):
                return only.first()
            return None
        bar = bar or self.index.no_limits
        lane = self.found
        if lane is None or not covers(lane.room, bar) or not covers(bar, self.found_under):
            lane = self.order.first(bar)
        while lane is not None:
            if not lane.demand.live:
                lane.close()
            elif not lane.limited or self._passes(lane):
                self.found, self.found_under = lane, bar
                return lane.first()
            lane = self.order.first(bar)
        return None

    def first_closed(self, room: Vector) -> PendingAsk | None:
        """The next ask of the best lane that waits for a gap and fits this one, `room`, and the headroom."""
        bar: Vector = tuple(map(neg, room))
        for queue in self.queue.lineage:
            if queue.order is not None and queue.order.limited:
                bar = queue.order.bar(bar)
        if self.dirty_lanes:
            self._settle()
        only = self.only
        if only is not None:
            if only.open and not only.demand.live:
                only.close()
            fits = only.waits and covers(only.demand.negated, bar)
            return only.first() if fits and (not only.limited or self._passes(only)) else None
        while (lane := self.order.first(bar)) is not None and not lane.demand.live:
            lane.close()  # it was not looked at since its demand closed
        while (lane := self.closed.first(bar)) is not None:
            if not lane.limited or self._passes(lane):
                return lane.first()
        return None

    def _passes(self, lane: Lane) -> bool:
        """The lane's limits let its asks pass; if not, it is parked at one that does not."""
        limit = lane.in_the_way()
        if limit is not None:
            self.index.park(lane, limit)
        return limit is None

    def _settle(self) -> None:
        for lane in self.dirty_lanes:
            lane.dirty = False
            if lane.contest.members and (lane.open or lane.waits) and lane is not self.only:
                rank = lane.rank_now()
                if rank != lane.rank and not (self.closed if lane.waits else self.order).move(lane, rank):
                    self.found = None
        self.dirty_lanes.clear()

    # What happens to asks

    def add(self, ask: PendingAsk, demand: Demand, more: int) -> None:
        """`more`: the weight of what is asked in addition."""
        application = ask.application
        lines = self.lines.setdefault(application, {})
        line = lines.get(demand)
        if line is None:
            lane = self._lane(demand, self._standing(application))
            line = lines[demand] = Line(application, lane)
            self.index.unexplained[line] = None
            lane.contest.enter(line)
            if len(lines) == 1:
                self.asks(application)
        line.add(ask)
        self._waits_since(line.lane, ask)
        if self.only is None:
            line.lane.touch()
        self.enter(more)

    def _waits_since(self, lane: Lane, ask: PendingAsk | None) -> None:
        """One more ask in a lane: it may be the oldest."""
        if ask is not None and ask.at_ms < lane.since_ms:
            self.index.age(lane, ask)
        if not lane.open:
            self.index.look_again(lane)

    def taken(self, line: Line) -> None:
        """An allocation was made for the first ask of a line, or an ask went: what is first may be another."""
        lane = line.lane
        if line.head() is None:
            self._drop(line)
        if not lane.open:
            self.index.look_again(lane)
        if self.fair:
            self.application_changed(line.application)
        if self.only is None:
            lane.touch()

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
        """Its share or priority changed: another ask may be first in its lanes."""
        if application.gang is not None:
            self.gangs.touch(application.gang)
        for line in self.lines.get(application, {}).values():
            line.lane.contest.touch(line)
            line.lane.touch()
            if not line.lane.open:
                self.index.look_again(line.lane)

    # What stands in an application's way

    def regroup(self, application: Application) -> None:
        """Its standing is another: so are the lanes of its lines."""
        if self.index.claimants is not None:
            self.index.claimants.wake_application(application)
        lines = self.lines.get(application)
        if not lines:
            return
        standing = self._standing(application)
        for demand, line in lines.items():
            old, new = line.lane, self._lane(demand, standing)
            if old is new:
                continue
            self._leave(old, line)
            line.lane = new
            new.contest.enter(line)
            self._waits_since(new, line.oldest())
            if self.only is None:
                new.touch()
                old.touch()
        self.enter()

    def asks(self, application: Application) -> None:
        """It asks for something, maybe for the first time or again."""
        if self.turns is not None:
            self.turns.asks(application)
            self.take_turns(self.turns)

    def take_turns(self, turns: Turns) -> None:
        """It may be another's turn to start."""
        for application in turns.settle():
            self.regroup(application)

    def holds_back(self, application: Application) -> bool:
        """It is another's turn to start."""
        return self.turns is not None and self.turns.hold_back(application)

    def _standing(self, application: Application) -> Standing:
        held_back = self.holds_back(application)
        if not application.trackers and not application.gates:
            return (held_back, (), ())
        trackers = tuple(tracker for tracker in application.trackers if tracker.limit.max_resources)
        return (held_back, () if application.runs else application.gates, trackers)

    def _lane(self, demand: Demand, standing: Standing) -> Lane:
        return self.lanes.get((demand, standing)) or self._open_lane(demand, standing)

    def _open_lane(self, demand: Demand, standing: Standing) -> Lane:
        lane = Lane(self, demand, standing)
        self.lanes[demand, standing] = lane
        if self.only is not None:  # alone it was not ranked
            self.only.touch()
        self.only = lane if len(self.lanes) == 1 else None
        self.index.lane_opened(lane)
        return lane

    def _drop(self, line: Line) -> None:
        lane = line.lane
        lines = self.lines[line.application]
        del lines[lane.demand]
        self.index.unexplained.pop(line, None)  # not while it is looked at
        if not lines:
            del self.lines[line.application]
        self._leave(lane, line)

    def _leave(self, lane: Lane, line: Line) -> None:
        """A lane without lines is gone."""
        lane.contest.leave(line)
        if not lane.contest.members:
            (self.closed if lane.waits else self.order).remove(lane)
            self.found = None
            del self.lanes[lane.demand, lane.standing]
            self.only = next(iter(self.lanes.values())) if len(self.lanes) == 1 else None
            self.index.lane_gone(lane)


class Lane:
    __slots__ = (
        "aged",
        "contest",
        "demand",
        "dirty",
        "leaf",
        "limited",
        "number",
        "open",
        "rank",
        "room",
        "since_ms",
        "standing",
        "waits",
    )

    def __init__(self, leaf: LeafOrder, demand: Demand, standing: Standing) -> None:
        self.leaf = leaf
        self.demand = demand
        self.standing = standing
        held_back, gates, trackers = standing
        self.limited = bool(gates or trackers)
        self.contest: Contest[Line] = Contest()
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
            self.leaf.dirty_lanes.append(self)

    def rank_now(self) -> Rank:
        """That of its first line, and of the first ask in it: an application may have a line in another lane too. The
        number keeps it apart from what a closed lane ranked before: an ask may have moved on from there."""
        ask = self.first()
        return (*self.leaf.application_rank(ask.application), -ask.ask.priority, ask.seq, self.number)

    def first(self) -> PendingAsk:
        line = self.contest.leader or self.contest.first()
        assert line is not None, "a lane without lines is gone"
        asks = line.best
        if asks and asks[0].free:  # line.head(), without the call
            return asks[0]
        ask = line.head()
        assert ask is not None, "a line without asks is gone"
        return ask

    def in_the_way(self) -> Queue | Tracker | None:
        """What has no slot or no room for its asks; None: they may be allocated."""
        _, gates, trackers = self.standing
        return in_the_way(gates, trackers, self.demand.resource)

    def close(self) -> None:
        """No node fits: out of the way until one may."""
        self.open = False
        self.leaf.found = None
        demand = self.demand
        demand.closed_lanes.append(self)
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
        if self.standing[0] or self in self.leaf.index.parked:
            return  # it waits for something else
        self.open = True
        self.room = self.demand.negated
        self.leaf.found = None
        if self.contest.members:
            self.touch()
            self.leaf.enter()


class Asks:
    """By priority, then by age. Asks mostly come in the order of their age, and all have one priority; those that were
    withdrawn stay until they come to the front."""

    __slots__ = ("best", "lower", "priority", "withdrawn")

    def __init__(self) -> None:
        self.best: deque[PendingAsk] = deque()  # the ones of the highest priority, and which that is
        self.priority = 0
        self.lower: dict[int, deque[PendingAsk]] | None = None
        self.withdrawn = 0

    def add(self, ask: PendingAsk) -> None:
        ask.line = self
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
        ask.line = None
        best = self.best
        if best and best[0] is ask:
            best.popleft()
        elif ask.ask.priority == self.priority or self.lower is None:
            best.remove(ask)
        else:
            self.lower[ask.ask.priority].remove(ask)

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


class Line(Asks):
    """One application's asks in a lane."""

    __slots__ = ("announced", "application", "dirty", "entry", "lane", "looked_at", "told")

    def __init__(self, application: Application, lane: Lane) -> None:
        super().__init__()
        self.application = application
        self.lane = lane
        # Why it waited (Constraint.key of the first), and when somebody was last told so.
        self.told: Mapping[tuple[str, str, str], int] = NOTHING
        # By priority: the age of the last ask that was told to be outstanding; and what there was to look at then.
        self.announced: Mapping[int, int] = NOTHING
        self.looked_at: tuple[int, int] = (0, 0)
        self.entry: Entry | None = None
        self.dirty = False

    def unannounced(self, most: int) -> list[PendingAsk]:
        """Of the first `most` asks those that came after the last announced; `most` counts pieces."""
        found: list[PendingAsk] = []
        for priority, asks in self.by_turn():
            announced = self.announced.get(priority, 0)
            for ask in asks:
                if most <= 0:
                    return found
                most -= ask.free
                if ask.free and ask.seq > announced:
                    found.append(ask)
        return found

    def rank(self) -> Rank:
        """That of its application: a lane has one line of each."""
        return self.lane.leaf.application_rank(self.application)
