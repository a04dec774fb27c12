"""The queues of a partition in scheduling order (semantics section 9), as facts change them.

    QueueOrder        a queue: its rank among its siblings, its headroom, what its maximum holds back
      ParentOrder     the children with pending asks, in a ranking by priority, share, pending and name
      LeafOrder       the ask classes of a leaf queue (`leaves`)
    DormantQueues     the children of a parent that have asks and nothing schedulable

A queue with nothing schedulable leaves the ranking of its parent and is dormant: it is in a tree by rank, beside the
demands of its asks as bits. When a demand becomes schedulable, the search finds the first queue there that wants it,
and nothing is done queue by queue. Under a maximum only the demands that fit the headroom count, until it grows. A
search for the next ask may tidy these structures, which never changes what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from remuda_proto.fair import WEIGHT_ONE

from ..limits import STEPS_PER_QUEUE
from ..rules.properties import fair_weight, sorts_by_priority
from ..rules.share import dominant_share, raw_shares
from ..state import Node, Partition, Queue
from .asks import AskClass
from .demands import Demands
from .moments import Moment, Moments
from .ordered import Entry, LazyRanking, Rank, Vector
from .reservations import Reservations
from .trees import BitTree, PassBudget

# More than any sum of amounts, and less than the infinities of a FitList.
UNLIMITED = 2.0**200
# The bits of all demands.
ANY = -1


class QueueIndex(Protocol):
    """The index of the partition, as the orders of queues see it."""

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
    def budget(self) -> PassBudget: ...
    @property
    def demands(self) -> Demands: ...
    @property
    def moments(self) -> Moments: ...


class QueueOrder:
    """A queue in scheduling order: its rank among its siblings, and its headroom.

    Vectors are in the order of the resource names of the index; weights and shares are by the total of the
    partition."""

    __slots__ = (
        "above",
        "by_parents_priority",
        "dirty",
        "dormant_rank",
        "due",
        "entry",
        "fair_due",
        "growing",
        "index",
        "limited",
        "maxima",
        "moment",
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
        # Whether priority comes before share in the rank, which a setting of the parent says.
        self.by_parents_priority = above is not None and above.by_priority
        # The moment at which the effective shares of what is below are measured. None: present use counts. And those
        # below that use something (`moments`).
        self.moment: Moment | None = index.moments.of(queue.memory)
        self.growing: dict[Any, None] = {}
        # The weight of all pending asks below.
        self.weight = 0
        # The place in the ranking of the parent (`Member`), or among its dormant queues. At most one of the two is set.
        self.entry: Entry | None = None
        self.dirty = False
        self.dormant_rank: Rank | None = None
        # The maxima of resources that a node has: the place in a vector, the name, the amount.
        self.maxima: tuple[tuple[int, str, int], ...] = ()
        self.limited = False  # whether there are any
        self.read_maxima()
        # The entry in the parent's ranking of queues with ready gangs. None: no gang below is ready.
        self.serving: Serving | None = None
        # Orders below that left their ranking under a headroom that the maximum of this queue may have caused.
        self.parked: dict[QueueOrder, None] = {}
        # Reserved nodes to whose asks the maximum of this queue leaves no room.
        self.stalled: dict[Node, None] = {}
        # What the queue is due of each resource, by which its share is measured.
        self.due = self._due()
        # The same times the weight, where effective shares are measured.
        self.fair_due = self._fair_due()

    def read_maxima(self) -> None:
        """Read the maxima of the queue. Resources that no node has are left out: nothing of them is ever used."""
        names = self.index.names
        found = self.queue.settings.max.items()
        self.maxima = tuple((names[name], name, most) for name, most in found if name in names)
        self.limited = bool(self.maxima)

    def due_changed(self) -> bool:
        """Compute again what the queue is due. Returns whether it changed."""
        was, self.due = self.due, self._due()
        self.fair_due = self._fair_due()
        return was != self.due

    def _due(self) -> dict[str, int]:
        return self.queue.due_of(self.index.partition.total)

    def _fair_due(self) -> dict[str, int]:
        """In units of a thousandth, because weights are."""
        if self.above is None or self.above.moment is None:
            return self.due
        weight = fair_weight(self.queue.settings.properties)
        return {name: amount * weight for name, amount in self.due.items() if amount}

    def rank(self) -> Rank:
        """The rank among the siblings: the lowest is next."""
        queue = self.queue
        share: Any
        above = self.above
        if above is not None and above.moment is not None:
            beyond, place, rest = above.effective_share(self, above.moment)
            if self.by_parents_priority:
                return (-queue.priority, beyond, place, rest, -self.weight, queue.path)
            return (beyond, place, rest, -queue.priority, -self.weight, queue.path)
        if self.index.raw_shares:
            share = raw_shares(queue.allocated, queue.settings.guaranteed)
        else:
            share = dominant_share(queue.allocated, self.due)
        if self.by_parents_priority:
            return (-queue.priority, share, -self.weight, queue.path)
        return (share, -queue.priority, -self.weight, queue.path)

    def grows(self, member: Any, moment: Moment, used: Mapping[str, int]) -> None:
        """Note that a member was ranked: its share changes as time passes if it uses something. One that has stopped is
        noted until the end of the step."""
        if any(used.values()):
            if not self.growing:
                moment.growing[self] = None
            self.growing[member] = None

    def outdate(self, *, is_new_epoch: bool) -> list[Any]:
        """A step of the clock has ended. Returns the members that have to be ranked again before the next look-up, and
        notes the others as outdated. Within an epoch shares only grow."""
        members = list(self.growing)
        self.growing.clear()
        return members

    def rank_again(self, member: Any) -> None:
        """Note that the rank of a growing member has changed with time. Does nothing if it is gone."""
        raise NotImplementedError

    def settle_ranks(self) -> None:
        """Compute the ranks that were noted."""
        raise NotImplementedError

    def total_changed(self) -> None:
        """Measure shares and weights again: the total of the partition changed."""
        self.due = self._due()
        self.fair_due = self._fair_due()
        self.weight = self._weight()
        if self.above is not None:
            self.above.touch(self)

    def _weight(self) -> int:
        """The weight of all pending asks below, by the total of the partition now."""
        raise NotImplementedError

    def first(self, negated_headroom: Vector | None) -> AskClass | None:
        """The ask class whose first ask is next, of those that fit the headroom and that some node may fit.
        `negated_headroom`: what the queues above and this queue leave; None: there is no maximum on the way."""
        raise NotImplementedError

    def wanted(self) -> int:
        """The demands of the asks below that may be schedulable, as bits. Valid after a search that found none."""
        raise NotImplementedError

    def negated_headroom(self, outer: Vector | None) -> Vector:
        """The headroom of the queue and all queues above: max - allocated - held. Negated, as demands are in a FitList.
        `outer`: the negated headroom of the parent; None: no maximum above. O(maxima)."""
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
        """Let the parents find the queue: asks below, with demands of these bits, may be schedulable. 0: any ask may
        be. `more`: the weight of asks that were added. O(depth)."""
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
        """Note that the ranks of the queue and of its parents may have changed. `less`: the weight of asks that are
        pending no more. O(depth)."""
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
        """Compute the weight of the queue and its parents again: other asks are pending."""
        self.changed(self.weight - self._weight())

    def released(self) -> None:
        """Wake what the maxima of the queue and its parents held back: an allocation below was released."""
        order: QueueOrder | None = self
        while order is not None:
            order.look_again()
            order = order.above

    def look_again(self) -> None:
        """Wake what the maximum of the queue held back: it may leave more room."""
        for gave_up in self.parked:
            gave_up.enter()
        self.parked.clear()
        if self.stalled:
            self.index.reservations.wake(self.stalled)
            self.stalled.clear()

    def park(self) -> None:
        """Let the maxima of the queue and its parents wake it: it left the ranking although it has asks."""
        order: QueueOrder | None = self
        while order is not None:
            if order.limited:
                order.parked[self] = None
            order = order.above


@dataclass(slots=True, eq=False)
class Serving:
    """A queue as `Member` of its parent's ranking of queues with ready gangs."""

    order: QueueOrder
    entry: Entry | None = None
    dirty: bool = False

    def rank(self) -> Rank:
        return self.order.rank()


class ParentOrder(QueueOrder):
    """A parent queue: which of its children is next."""

    __slots__ = ("by_priority", "dormant", "gangs", "guaranteed_first", "ranking")

    def __init__(self, queue: Queue, above: ParentOrder | None, index: QueueIndex) -> None:
        super().__init__(queue, above, index)
        self.by_priority = sorts_by_priority(queue.settings.properties)
        self.guaranteed_first = queue.memory.guaranteed_first
        # The children that may have a schedulable ask; those with asks that had none; those with ready gangs.
        self.ranking: LazyRanking[QueueOrder] = LazyRanking()
        self.dormant: DormantQueues = DormantQueues(index.budget)
        self.gangs: LazyRanking[Serving] = LazyRanking()

    def total_changed(self) -> None:
        for child in self.queue.children.values():
            if (order := self.index.order_of(child)) is not None:
                order.total_changed()
        super().total_changed()

    def _weight(self) -> int:
        children = (self.index.order_of(child) for child in self.queue.children.values())
        return sum(order.weight for order in children if order is not None)

    def effective_share(self, child: QueueOrder, moment: Moment) -> tuple[bool, int, float]:
        """Whether the child is beyond what is guaranteed to it, if guarantees come first, and its effective share."""
        queue = child.queue
        account = queue.account
        assert account is not None, "children of a queue with a half-life have accounts"
        if child not in self.growing:
            self.grows(child, moment, account.used)
        place, rest = moment.share(account, child.fair_due, WEIGHT_ONE)
        beyond = self.guaranteed_first and not (queue.settings.guaranteed and not self.is_beyond(queue))
        return beyond, place, rest

    def is_beyond(self, child: Queue) -> bool:
        """Whether the child is beyond what is guaranteed to it, if queues within their guarantees come first."""
        return self.guaranteed_first and not _is_within(child.allocated, child.settings.guaranteed)

    def rank_again(self, member: Any) -> None:
        order: QueueOrder = member
        if self.index.order_of(order.queue) is order:
            self.touch(order)

    def settle_ranks(self) -> None:
        self.ranking.first()
        self.dormant.settle()
        self.gangs.first()

    def touch(self, child: QueueOrder) -> None:
        """Note that the rank of the child may have changed."""
        (self.ranking if child.dormant_rank is None else self.dormant).touch(child)
        if child.serving is not None:
            self.gangs.touch(child.serving)

    def rouse(self, child: QueueOrder) -> None:
        """Return a dormant child to the ranking: it may have a schedulable ask, whatever the demand is."""
        self.dormant.remove_queue(child)
        self.ranking.enter(child)

    def remove(self, child: QueueOrder) -> None:
        """Remove a child that was removed, or whose order is made anew."""
        if child.dormant_rank is not None:
            self.dormant.remove_queue(child)
        self.ranking.leave(child)

    def rank_anew(self) -> None:
        """Compute the ranks of all children again, which are of another kind now and do not compare with the old
        ones."""
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
        budget = self.index.budget
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
            if budget.left <= 0:
                return None
            budget.left -= STEPS_PER_QUEUE
            start = (*self._fall_asleep(child, inner), 0)  # right behind it

    def _ranks_before(self, other: QueueOrder, child: QueueOrder) -> bool:
        """Whether the dormant child ranks before the first child that is not dormant."""
        rank, entry = other.dormant_rank, child.entry
        assert rank is not None, "what was found is dormant"
        return rank < (entry if entry is not None and len(self.ranking.members) > 1 else child.rank())

    def _fall_asleep(self, child: QueueOrder, negated_headroom: Vector | None) -> Rank:
        """Make a child dormant that has nothing schedulable. Returns its rank."""
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


def _is_within(used: Mapping[str, int], guaranteed: Mapping[str, int]) -> bool:
    """Whether less is used than is guaranteed, of each guaranteed resource. False without guarantees."""
    return bool(guaranteed) and all(used.get(name, 0) < least for name, least in guaranteed.items())


class DormantQueues(BitTree[QueueOrder]):
    """The children of a parent that have asks and nothing schedulable, by their ranks, with the demands of their asks
    as bits. A queue whose rank may have changed is ranked again before the next search."""

    __slots__ = ("_dirty",)

    def __init__(self, budget: PassBudget) -> None:
        super().__init__(budget)
        self._dirty: list[QueueOrder] = []

    def add_queue(self, queue: QueueOrder, bits: int) -> Rank:
        """Add a queue that is in no ranking. Returns its rank."""
        rank = queue.dormant_rank = queue.rank()
        queue.dirty = False
        self.put(queue, rank, bits)
        return rank

    def remove_queue(self, queue: QueueOrder) -> None:
        assert queue.dormant_rank is not None, "only what is dormant is removed"
        self.remove(queue.dormant_rank)
        queue.dormant_rank = None
        queue.dirty = False
        if not self.size:
            self._dirty.clear()

    def touch(self, queue: QueueOrder) -> None:
        """Note that the rank of the queue may have changed."""
        if not queue.dirty:
            queue.dirty = True
            self._dirty.append(queue)

    def want(self, queue: QueueOrder, bits: int) -> None:
        """Note that the queue has asks of these demands, too."""
        assert queue.dormant_rank is not None, "only what is dormant has bits here"
        self.add_bits(queue.dormant_rank, bits)
        self.touch(queue)

    def settle(self) -> None:
        """Rank the queues again whose ranks may have changed. O(log n) each."""
        for queue in self._dirty:
            old = queue.dormant_rank
            if old is not None and queue.dirty:
                queue.dirty = False
                rank = queue.rank()
                if rank != old:
                    self.move(old, rank)
                    queue.dormant_rank = rank
        self._dirty.clear()
