"""Keep queues in scheduling order (semantics section 9) as facts change them.

    ParentOrder     children with pending asks, in a ranking by (priority, share, pending, name)
      LeafOrder     the ask classes of a leaf queue, see `leaf_order`

A queue with nothing schedulable leaves its parent's ranking and is dormant: it stands in a tree by rank, beside the
demands of its asks as bits. When a demand becomes schedulable, the search finds the first queue there that wants it,
and nothing is done queue by queue. Under a maximum only the demands that fit the headroom count, until it grows.
Looking for the next ask may tidy these structures but never changes what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..limits import STEPS_PER_QUEUE
from ..rules.properties import sorts_by_priority
from ..rules.share import dominant_share, due_to_queue, raw_shares
from ..state import Node, Partition, Queue
from .ask_classes import AskClass
from .demands import Demands
from .dormant_queues import DormantQueues
from .fit_list import Rank, Vector
from .lazy_ranking import Entry, LazyRanking
from .reservations import Reservations
from .work import Work

# More than any sum of amounts, and yet less than FitList's infinities.
UNLIMITED = 2.0**200
# The bits of all demands.
ANY = -1


class QueueIndex(Protocol):
    """The partition's index, as the orders of queues see it."""

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
    def reservations(self) -> Reservations: ...
    def order_of(self, queue: Queue) -> QueueOrder | None: ...
    @property
    def work(self) -> Work: ...
    @property
    def demands(self) -> Demands: ...


class QueueOrder:
    """A queue in scheduling order: its rank among its siblings, and its headroom.

    `serving`: its entry in the parent's ranking of queues with ready gangs; None if no gang below is ready. `weight`:
    of all pending asks below. Vectors and weights are by the partition's resource names and total."""

    __slots__ = (
        "above",
        "by_parents_priority",
        "dirty",
        "dormant_rank",
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

    def __init__(self, queue: Queue, above: ParentOrder | None, index: QueueIndex) -> None:
        self.queue = queue
        self.settings = queue.settings  # the settings that this order was made from
        self.above = above
        self.index = index
        self.by_parents_priority = above is not None and above.by_priority
        self.weight = 0
        self.entry: Entry | None = None
        self.dirty = False
        self.dormant_rank: Rank | None = None  # its rank among the dormant queues of its parent; None: not among them
        # (place in a vector, name, amount)
        self.maxima: tuple[tuple[int, str, int], ...] = ()
        self.limited = False
        self.read_maxima()
        self.serving: Serving | None = None
        # Orders below that left their ranking under a headroom that the maximum of this queue may have caused.
        self.parked: dict[QueueOrder, None] = {}
        # Reserved nodes to whose asks its maximum leaves no room.
        self.stalled: dict[Node, None] = {}
        self.due = self._due()

    def read_maxima(self) -> None:
        """Resources that no node has are left out: nothing of them is ever used."""
        names = self.index.names
        found = self.queue.settings.max.items()
        self.maxima = tuple((names[name], name, most) for name, most in found if name in names)
        self.limited = bool(self.maxima)

    def due_changed(self) -> bool:
        """Compute again what the queue is due. Returns whether it changed."""
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
        """The partition's total changed: shares and weights are measured by another one."""
        self.due = self._due()
        self.weight = self._weight()
        if self.above is not None:
            self.above.touch(self)

    def _weight(self) -> int:
        """The weight of all pending asks below, by the partition's total now."""
        raise NotImplementedError

    def first(self, negated_headroom: Vector | None) -> AskClass | None:
        """The ask class whose first ask is next, of those that fit the headroom and that some node may fit.
        `negated_headroom`: what the queues above and this one leave; None: there is no maximum on the way."""
        raise NotImplementedError

    def wanted(self) -> int:
        """The demands of the asks below that may be schedulable, as bits. Only after a search found none."""
        raise NotImplementedError

    def negated_headroom(self, outer: Vector | None) -> Vector:
        """The headroom of the queue and all queues above: max - allocated - held. Negated, as demands are in a FitList.
        `outer`: that of the parent; None: no maximum above. O(maxima)."""
        allocated, held = self.queue.allocated, self.queue.held
        negated_headroom = list(self.index.no_limits if outer is None else outer)
        for place, name, most in self.maxima:
            over = allocated.get(name, 0) - most
            if held:
                over += held.get(name, 0)
            if over > negated_headroom[place]:
                negated_headroom[place] = over
        return tuple(negated_headroom)

    def enter(self, more: int = 0, bits: int = 0) -> None:
        """Asks below, with demands of these bits, may be schedulable: be found by the parents. 0: any ask may be.
        `more`: weight of asks that were added. O(depth)."""
        order = self
        while (above := order.above) is not None:
            order.weight += more
            if order.dormant_rank is None:
                above.ranking.enter(order)
            elif bits:
                above.dormant.want(order, bits)
            else:
                above.rouse(order)
            if order.serving is not None:
                above.gangs.touch(order.serving)
            order = above

    def changed(self, less: int = 0) -> None:
        """The rank of the queue changed, and that of its parents. `less`: weight of asks that are pending no more.
        O(depth)."""
        order = self
        while (above := order.above) is not None:
            order.weight -= less
            if order.dormant_rank is None:
                above.ranking.touch(order)
            else:
                above.dormant.touch(order)
            if order.serving is not None:
                above.gangs.touch(order.serving)
            order = above

    def weigh(self) -> None:
        """Compute the weight again: other asks are pending."""
        self.changed(self.weight - self._weight())

    def released(self) -> None:
        """An allocation below was released: this queue and its parents have room under their maxima again."""
        order: QueueOrder | None = self
        while order is not None:
            order.look_again()
            order = order.above

    def look_again(self) -> None:
        """The maximum of the queue may leave more room: wake what it held back."""
        for gave_up in self.parked:
            gave_up.enter()
        self.parked.clear()
        if self.stalled:
            self.index.reservations.wake(self.stalled)
            self.stalled.clear()

    def park(self) -> None:
        """Left the ranking although it has asks: be woken by the maxima of this queue and its parents."""
        order: QueueOrder | None = self
        while order is not None:
            if order.limited:
                order.parked[self] = None
            order = order.above


class Serving:
    """The entry of a queue in its parent's ranking of queues with ready gangs."""

    __slots__ = ("dirty", "entry", "order")

    def __init__(self, order: QueueOrder) -> None:
        self.order = order
        self.entry: Entry | None = None
        self.dirty = False

    def rank(self) -> Rank:
        return self.order.rank()


class ParentOrder(QueueOrder):
    """`ranking`: children that may have a schedulable ask; `dormant`: children with asks that had none; `gangs`:
    children with ready gangs."""

    __slots__ = ("by_priority", "dormant", "gangs", "ranking")

    def __init__(self, queue: Queue, above: ParentOrder | None, index: QueueIndex) -> None:
        super().__init__(queue, above, index)
        self.by_priority = sorts_by_priority(queue.settings.properties)
        self.ranking: LazyRanking[QueueOrder] = LazyRanking()
        self.dormant: DormantQueues[QueueOrder] = DormantQueues(index.work)
        self.gangs: LazyRanking[Serving] = LazyRanking()

    def total_changed(self) -> None:
        for child in self.queue.children.values():
            if (order := self.index.order_of(child)) is not None:
                order.total_changed()
        super().total_changed()

    def _weight(self) -> int:
        children = (self.index.order_of(child) for child in self.queue.children.values())
        return sum(order.weight for order in children if order is not None)

    def touch(self, child: QueueOrder) -> None:
        """The rank of the child may have changed."""
        (self.ranking if child.dormant_rank is None else self.dormant).touch(child)
        if child.serving is not None:
            self.gangs.touch(child.serving)

    def rouse(self, child: QueueOrder) -> None:
        """A dormant child may have a schedulable ask, whatever its demand is."""
        self.dormant.remove_queue(child)
        self.ranking.enter(child)

    def remove(self, child: QueueOrder) -> None:
        """The child is gone."""
        if child.dormant_rank is not None:
            self.dormant.remove_queue(child)
        self.ranking.leave(child)

    def rank_anew(self) -> None:
        """Ranks of children are of another kind now, and do not compare with the old ones."""
        for _, child, _ in self.dormant.items():
            self.rouse(child)
        self.ranking.rank_anew()
        self.gangs.rank_anew()

    def first(self, negated_headroom: Vector | None) -> AskClass | None:
        """Tries the children in the order of their rank. A child with nothing schedulable becomes dormant."""
        ranking, dormant = self.ranking, self.dormant
        if negated_headroom is None and not dormant.size:  # nearly always where all asks are alike
            child = ranking.leader or ranking.first()
            if child is not None and not child.limited and (found := child.first(None)) is not None:
                return found
        work = self.index.work
        mask = 0
        start: Rank = ()
        if dormant.size or negated_headroom is not None:
            dormant.settle()
            demands = self.index.demands
            mask = demands.schedulable if negated_headroom is None else demands.schedulable_in(negated_headroom)
            if not mask:
                return None
        while True:
            child = ranking.leader or ranking.first()
            other = dormant.first(mask, start) if dormant.size else None
            if other is not None and (child is None or self._ranks_before(other, child)):
                child = other
            if child is None:
                return None
            inner = child.negated_headroom(negated_headroom) if child.limited else negated_headroom
            found = child.first(inner)
            if found is not None:
                if child.dormant_rank is not None and found.demand.open:
                    self.rouse(child)
                return found
            if work.left <= 0:
                return None
            work.left -= STEPS_PER_QUEUE
            start = (*self._fall_asleep(child, inner), 0)  # right behind it

    def _ranks_before(self, other: QueueOrder, child: QueueOrder) -> bool:
        """Whether the dormant child ranks before the first one that is not."""
        rank, entry = other.dormant_rank, child.entry
        assert rank is not None, "what was found is dormant"
        return rank < (entry if entry is not None and len(self.ranking.members) > 1 else child.rank())

    def _fall_asleep(self, child: QueueOrder, negated_headroom: Vector | None) -> Rank:
        """The child has nothing schedulable. Returns its rank."""
        bits = child.wanted()
        if negated_headroom is not None:
            bits &= self.index.demands.in_headroom(negated_headroom)
            child.park()
        rank = child.dormant_rank
        if rank is None:
            self.ranking.leave(child)
            return self.dormant.add_queue(child, bits) if bits else child.rank()
        if bits:
            self.dormant.set_bits(rank, bits)
        else:
            self.dormant.remove_queue(child)
        return rank

    def wanted(self) -> int:
        return ANY if self.ranking.members else self.dormant.bits()
