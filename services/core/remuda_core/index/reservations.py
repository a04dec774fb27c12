"""Reservations of nodes (semantics section 11).

    ReservingDemands   which closed demands may reserve nodes, and why the others may not
    ReservedNodes      what bounds reserved nodes, which of them are due for another look, and who may take one
    Reservations       the reserved asks that can be placed

An ask that fits its quotas but no node, and is older than the reservation delay, reserves the node that lacks least of
what it needs. No other ask is placed there. A pass places reserved asks first: on their reserved node if that node
changed, on any other node if their demand opened. A reservation costs nothing while neither happens.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice
from typing import Any, Protocol

from ..costs import cost_of_ask
from ..limits import CLAIMANTS_PER_PASS, LEFTOVERS, RESERVATION_WAKES, RESERVATION_WORK_PER_PASS
from ..rules.keyed import unlist
from ..rules.resource import Resource, add
from ..state import Application, Budget, Node, Partition, PendingAsk, Queue, Tracker
from .asks import AskClass
from .demands import Demands
from .limits import BlockedBy, Limit, full_queue, lacks_room, limit_of, limits_of, wanted_of
from .node_groups import Demand
from .nodes import NodeIndex
from .ordered import FitList, Rank, Vector, covers

# Of two reservations the one of the higher age is the younger: the time, the age of the ask, the ID of the node.
Age = tuple[int, int, str]


class Index(Protocol):
    """The index of the partition, as reservations see it."""

    @property
    def partition(self) -> Partition: ...
    @property
    def nodes(self) -> NodeIndex: ...
    @property
    def stalled(self) -> BlockedBy[Node]: ...
    @property
    def orders(self) -> Mapping[Queue, Any]: ...
    def demand_of(self, ask: PendingAsk) -> Demand: ...
    def ask_rank(self, ask: PendingAsk) -> Rank: ...
    def measure(self) -> None: ...
    def close(self, demand: Demand) -> None: ...
    def reserved_node_changed(self, node: Node) -> None: ...


class ReservingDemands:
    """Which closed demands of a partition may reserve nodes, and why the others may not.

    An ask class may reserve once its oldest ask has waited for the reservation delay. Its demand reserves until a node
    fits it, or until one of these holds: it can be obtained on no node, the partition as a whole has too little left,
    or the pass has done the work it may do for reservations. Then the demand waits until that may have changed."""

    def __init__(self, partition: Partition, nodes: NodeIndex, demands: Demands) -> None:
        self._partition = partition
        self._nodes = nodes
        self._demands = demands
        self._now_ms = self._delay_ms = 0
        # Ask classes that are not old enough, by the time of their first ask in ms; and a heap of these times.
        self._aging: dict[int, dict[AskClass, None]] = {}
        self._times_ms: list[int] = []
        # Closed demands that may not reserve: they can be obtained on no node that is free of reservations; the
        # partition as a whole has too little left; the pass had done the work it may do.
        self._without_node: dict[Demand, None] = {}
        self._exceeding_total: dict[Demand, None] = {}
        self._deferred: dict[Demand, None] = {}
        self.work_left = 0  # how many more node groups, or nodes, the pass may look at

    def begin_pass(self, now_ms: int, delay_ms: int) -> None:
        """`delay_ms`: age at which an ask may reserve a node."""
        self._now_ms, self._delay_ms, self.work_left = now_ms, delay_ms, RESERVATION_WORK_PER_PASS
        while self._times_ms and self._times_ms[0] + delay_ms <= now_ms:
            for ask_class in self._aging.pop(heappop(self._times_ms), ()):
                ask_class.aging_since_ms = None
                if ask_class.ranking.members:
                    self._has_aged(ask_class)
        deferred, self._deferred = self._deferred, {}
        for demand in deferred:
            self.start_reserving(demand)

    # Age

    def may_reserve(self, demand: Demand, ask: PendingAsk) -> bool:
        """Whether the ask has waited long enough. An ask that is bound to a node always has. After a reservation of it
        has timed out, it waits anew, and until the next pass at least."""
        if demand.required_node:
            return not ask.timed_out_ms or ask.timed_out_ms < self._now_ms
        return ask.waits_since_ms + self._delay_ms <= self._now_ms

    def too_young(self, ask_class: AskClass, ask: PendingAsk) -> None:
        """Let the ask class reserve no node until its first ask is old enough or another ask is first, or until a node
        fits."""
        if ask_class.demand.required_node:
            self._defer(ask_class.demand)
            return
        ask_class.set_aside()
        self._wait(ask_class, ask.waits_since_ms)

    def _defer(self, demand: Demand) -> None:
        """The demand may reserve in the next pass."""
        self._demands.end_reserving(demand)
        self._deferred[demand] = None

    def age(self, ask_class: AskClass, ask: PendingAsk) -> None:
        """The ask is the oldest of its ask class, as far as it is known."""
        ask_class.since_ms = ask.at_ms
        if ask_class.demand.required_node or ask.at_ms + self._delay_ms <= self._now_ms:
            self._has_aged(ask_class)
        else:
            self._wait(ask_class, ask.at_ms)

    def _wait(self, ask_class: AskClass, at_ms: int) -> None:
        """Does nothing if the ask class is looked at earlier: if its first ask is too young then, it waits again."""
        since_ms = ask_class.aging_since_ms
        if since_ms is not None and since_ms <= at_ms:
            return
        self.age_no_more(ask_class)
        ask_class.aging_since_ms = at_ms
        if at_ms not in self._aging:
            self._aging[at_ms] = {}
            heappush(self._times_ms, at_ms)
        self._aging[at_ms][ask_class] = None

    def age_no_more(self, ask_class: AskClass) -> None:
        """Does nothing if the ask class does not wait for its first ask to be old enough."""
        since_ms = ask_class.aging_since_ms
        if since_ms is None:
            return
        ask_class.aging_since_ms = None
        unlist(self._aging, since_ms, ask_class)
        if len(self._times_ms) > 2 * len(self._aging) + LEFTOVERS:
            self._times_ms = list(self._aging)
            heapify(self._times_ms)

    def _has_aged(self, ask_class: AskClass) -> None:
        if not ask_class.aged:
            ask_class.aged = True
            ask_class.demand.aged += 1
            ask_class.consider()
        self.start_reserving(ask_class.demand)
        if ask_class.aside:
            self.look_again(ask_class)

    def look_again(self, ask_class: AskClass) -> None:
        """Another ask may be the first of an ask class that was set aside, and old enough to reserve a node."""
        if ask_class.demand.reserving:
            ask_class.consider()

    # Reserving, or waiting to

    def start_reserving(self, demand: Demand) -> None:
        """Let the demand reserve nodes. Does nothing if the demand is open, reserves already or is
        not possible, or if none of its asks is old enough."""
        if demand.open or demand.reserving or not demand.possible or not demand.aged:
            return
        if demand.group_of_asks is not None:
            return  # a group waits for a domain
        found = demand.predicate_class
        if found is not None and (found.question or demand in self._demands.unasked):
            return  # before the RM has answered
        self.wait_no_more(demand)
        self._demands.begin_reserving(demand)

    def reserve_again(self, demand: Demand) -> None:
        """Let the demand reserve nodes, if nothing else prevents it, and look again at those of its ask classes that
        were set aside."""
        self.start_reserving(demand)
        if demand.reserving:
            self.wait_no_more(demand)
            for ask_class in list(demand.set_aside):
                ask_class.consider()

    def fits_total(self, ask_class: AskClass) -> bool:
        """Whether the partition as a whole has room for the demand of the ask class. If not, the class may not reserve
        until an allocation is released or nodes are added."""
        demand = ask_class.demand
        total, occupied, allocated = self._partition.total, self._partition.occupied, self._partition.root.allocated
        if all(
            amount <= total.get(name, 0) - occupied.get(name, 0) - allocated.get(name, 0)
            for name, amount in demand.resource.items()
            if amount
        ):
            return True
        if demand.required_node:
            ask_class.set_aside()
        else:
            self._demands.end_reserving(demand)
        self._exceeding_total[demand] = None
        return False

    def closest_node(self, demand: Demand, but: str) -> Node | None:
        """The node to reserve: the one that lacks least; `but`: this one only if there is no other. None if it can be
        obtained on no node, or if the pass has done the work it may do; then the demand may not reserve for now. O(node
        groups)."""
        if self.work_left <= 0:
            self._defer(demand)
            return None
        node, looked_at = self._nodes.closest(demand, but)
        self.work_left -= looked_at
        if node is None:
            self._demands.end_reserving(demand)
            self._without_node[demand] = None
        return node

    def finds_no_node(self, demand: Demand) -> bool:
        """Whether the demand can be obtained on no node that is free of reservations. False if the pass has done the
        work it may do to find out. O(node groups) if it was not found out before."""
        if demand in self._without_node:
            return True
        if self.work_left <= 0:
            return False
        node, looked_at = self._nodes.closest(demand)
        self.work_left -= looked_at
        return node is None

    def wait_no_more(self, demand: Demand) -> None:
        """The demand is open, or reserves again."""
        self._without_node.pop(demand, None)
        self._exceeding_total.pop(demand, None)

    def remove(self, demand: Demand) -> None:
        """No ask has it any more."""
        self.wait_no_more(demand)
        self._deferred.pop(demand, None)

    def node_gained_room(self, obtainable: Vector) -> None:
        """A node on which so much can be obtained gained room: demands that found no node may reserve it."""
        for demand in list(islice(self._without_node, RESERVATION_WAKES)):
            if covers(obtainable, demand.need):
                self.start_reserving(demand)

    def total_gained_room(self) -> None:
        """The partition as a whole has more room: demands that it was too full for may reserve nodes."""
        for demand in list(islice(self._exceeding_total, RESERVATION_WAKES)):
            self.reserve_again(demand)


@dataclass(slots=True, eq=False)
class Spot:
    """The place of a reserved node in a list by room (`Listed`)."""

    node: Node
    room: Vector = ()
    rank: Rank | None = None


class ReservedNode:
    """A reserved node, and where it counts."""

    __slots__ = ("ask", "available", "counts", "in_share", "limits", "need", "node", "obtainable")

    def __init__(self, ask: PendingAsk, need: Vector, node: Node) -> None:
        self.ask = ask
        self.need = need
        self.node = node
        # The queues and trackers in which the ask counted when this was last computed.
        self.limits: tuple[Limit, ...] = ()
        # Whether the resource of the ask is in the sums of these limits; else a preemption holds its place there.
        self.counts = False
        # Whether the node is one of those that the share bounds: no preemption is under way, and the ask is not bound
        # to the node.
        self.in_share = False
        # The places of the node in the lists by room. Both are unlisted if the ask is bound to the node.
        self.available, self.obtainable = Spot(node), Spot(node)


class ReservedNodes:
    """The reserved nodes of a partition, what bounds them, and which of them are due for another look.

    quota   what is allocated and reserved fits every maximum and limit of the asks
    share   asks that are not bound to a node reserve so many nodes in all, and those of one leaf queue so many
    right   an ask may take a node that is reserved for an ask of less right

    A change that may end a reservation names the nodes and the limits that it concerns, and the next pass looks at
    these alone. Ask classes that may not reserve because of quota or share are listed at what is in their way, which
    wakes them. Nodes with a preemption under way stay reserved whatever quota and share say."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.of: dict[Node, ReservedNode] = {}
        # By limit: the sum of what is reserved under it, and the nodes that are reserved under it.
        self.sums: dict[Limit, dict[str, int]] = {}
        self.under: dict[Limit, dict[Node, None]] = {}
        # The budgets among them: they are used up as time passes.
        self.budgets: dict[Budget, None] = {}
        # The nodes that the share of the partition bounds, and the same by leaf queue.
        self.in_share: dict[Node, None] = {}
        self.shares: dict[Queue, dict[Node, None]] = {}
        # The nodes whose ask is not bound to them, by what is available and by what can be obtained.
        self.by_available: FitList[Spot] = FitList(index.nodes.width)
        self.by_obtainable: FitList[Spot] = FitList(index.nodes.width)
        # What the next pass has to look at: nodes, limits, and the shares.
        self.doubted: dict[Node, None] = {}
        self.doubted_limits: dict[Limit, None] = {}
        self.share_doubted = False
        # Ask classes that may not reserve, by what is in their way: a limit, a leaf queue's share, or the partition's.
        self.waiting: dict[Hashable, dict[AskClass, None]] = {}
        # All ask classes, the one first that was not looked at for longest: they may have the right to a reserved node.
        self.claimants: dict[AskClass, None] = {}

    # Reservations come, change and go

    def add_node(self, ask: PendingAsk, node: Node, demand: Demand) -> None:
        kept = self.of[node] = ReservedNode(ask, demand.need, node)
        if not demand.required_node:
            rank = (ask.ask.priority, node.id)
            for spot, spots in ((kept.available, self.by_available), (kept.obtainable, self.by_obtainable)):
                spot.room = self._room(node, spot is kept.available)
                spots.put(spot, rank)
        self._count(kept)
        self.doubted[node] = None

    def remove_node(self, node: Node) -> None:
        kept = self.of.pop(node)
        self.by_available.remove(kept.available)
        self.by_obtainable.remove(kept.obtainable)
        self._uncount(kept)
        self.doubted.pop(node, None)

    def _room(self, node: Node, available: bool) -> Vector:
        return self._index.nodes.available(node) if available else self._index.nodes.obtainable(node)

    def node_changed(self, node: Node) -> None:
        """Note that the amounts or the state of a reserved node changed."""
        kept = self.of[node]
        self.doubted[node] = None
        for spot, spots in ((kept.available, self.by_available), (kept.obtainable, self.by_obtainable)):
            rank = spot.rank
            if rank is not None:
                spots.remove(spot)
                spot.room = self._room(node, spot is kept.available)
                spots.put(spot, rank)

    def doubt(self, node_ids: Iterable[str]) -> None:
        """The RM has answered about these nodes, of which some may be reserved."""
        nodes = self._index.partition.nodes
        self.doubted.update((nodes[node_id], None) for node_id in node_ids if nodes.get(node_id) in self.of)

    def recount(self, nodes: Iterable[Node]) -> None:
        """Other limits apply to their asks, or preemptions began or ended there."""
        for node in nodes:
            kept = self.of.get(node)
            if kept is not None:
                self._uncount(kept)
                self._count(kept)
                self.doubted[node] = None

    def _count(self, kept: ReservedNode) -> None:
        node, ask = kept.node, kept.ask
        application = ask.application
        kept.limits = limits_of(application)
        held = node.preempting and ask.has_place
        kept.counts = not held
        for limit in kept.limits:
            self.under.setdefault(limit, {})[node] = None
            if isinstance(limit, Budget):
                self.budgets[limit] = None
            if kept.counts:
                add(self.sums.setdefault(limit, {}), wanted_of(limit, ask))
            self.doubted_limits[limit] = None
        kept.in_share = not node.preempting and kept.available.rank is not None
        if kept.in_share:
            self.in_share[node] = None
            self.shares.setdefault(application.queue, {})[node] = None
            self.share_doubted = True

    def _uncount(self, kept: ReservedNode) -> None:
        node = kept.node
        for limit in kept.limits:
            unlist(self.under, limit, node)
            if kept.counts:
                add(self.sums[limit], wanted_of(limit, kept.ask), -1)
            if limit not in self.under:
                self.sums.pop(limit, None)
                self.doubted_limits.pop(limit, None)
                self.budgets.pop(limit, None)  # type: ignore[arg-type]
        if kept.in_share:
            leaf = kept.limits[0]
            assert isinstance(leaf, Queue), "the first limit is the leaf queue"
            del self.in_share[node]
            unlist(self.shares, leaf, node)
        self._wake(kept.limits)
        if kept.in_share:
            self._wake((self._share_of(kept.limits[0]), self._index.partition))

    # Changes that a reservation may not survive, and changes that let others reserve

    def begin_pass(self) -> None:
        """Time has passed, so budgets may leave less."""
        for budget in self.budgets:
            self.doubted_limits[budget] = None

    def used_more(self, application: Application) -> None:
        """More is allocated to the application, or held for it."""
        if self.under:
            for limit in limits_of(application):
                if limit in self.under:
                    self.doubted_limits[limit] = None

    def used_less(self, limits: Iterable[Limit]) -> None:
        """Less is allocated under these limits, or held."""
        self._wake(limits)

    def limits_changed(self, queue: Queue) -> None:
        """The queue has other settings, and with them perhaps other trackers."""
        self.recount(list(self.under.get(queue, ())))
        for what in list(self.waiting):
            if isinstance(what, Tracker | Budget) or what is queue or what == self._share_of(queue):
                self._wake((what,))

    def nodes_changed(self) -> None:
        """There are more nodes or fewer, or the shares are others."""
        self.share_doubted = True
        for what in list(self.waiting):
            if not isinstance(what, Queue | Tracker | Budget):
                self._wake((what,))

    def _wake(self, what: Iterable[Hashable]) -> None:
        for each in what:
            waiting = self.waiting.get(each)
            if not waiting:
                continue
            for ask_class in list(islice(waiting, RESERVATION_WAKES)):
                self._wait_no_more(ask_class)
                ask_class.consider()

    def _wait_no_more(self, ask_class: AskClass) -> None:
        what, ask_class.waits_for = ask_class.waits_for, None
        if what is not None:
            unlist(self.waiting, what, ask_class)

    # May an ask reserve?

    def in_the_way(self, pending: PendingAsk, bound: bool) -> Hashable | None:
        """The obstacle that keeps the ask from reserving one more node: a limit, the share of its leaf queue or of the
        partition; None if there is none. O(depth)."""
        application = pending.application
        for limit in limits_of(application):
            wanted = cost_of_ask(pending) if isinstance(limit, Budget) else pending.ask.resource
            if self._has_no_room(limit, wanted):
                return limit
        if bound:
            return None
        if len(self.shares.get(application.queue, ())) >= self.most(
            self._index.partition.settings.queue_reservation_share
        ):
            return self._share_of(application.queue)
        return self._index.partition if self.is_full() else None

    def leaves_room(self, pending: PendingAsk) -> bool:
        """Whether an allocation of the ask leaves room for all reserved asks under its limits. O(depth)."""
        return not any(
            limit in self.sums and self._has_no_room(limit, wanted_of(limit, pending))
            for limit in limits_of(pending.application)
        )

    def is_full(self) -> bool:
        """Asks that are not bound to a node keep as many nodes as they may."""
        return len(self.in_share) >= self.most(self._index.partition.settings.reservation_share)

    def most(self, per_cent: int) -> int:
        return max(1, len(self._index.partition.nodes) * per_cent // 100)

    def _has_no_room(self, limit: Limit, wanted: Resource) -> bool:
        """Whether the limit has no room for what is wanted beside what is reserved."""
        if (reserved := self.sums.get(limit)) is not None:
            wanted = {**wanted}
            add(wanted, reserved)
        return lacks_room(limit, wanted)

    def wait(self, ask_class: AskClass, what: Hashable) -> None:
        """The first ask of the class may not reserve until `what` gives way, or another ask is first."""
        self._wait_no_more(ask_class)
        ask_class.set_aside()
        ask_class.waits_for = what
        self.waiting.setdefault(what, {})[ask_class] = None

    @staticmethod
    def _share_of(leaf: Limit) -> Hashable:
        return ("share", leaf)

    # Is a reservation justified?

    def unjustified(self) -> Iterator[tuple[Node, str]]:
        """The nodes that are not to be kept any longer, each with the reason. The caller ends the reservation before it
        asks for the next one."""
        if self.doubted:
            doubted, self.doubted = sorted(self.doubted), {}
            for node in doubted:
                if node in self.of and (reason := self._problem_of(node)):
                    yield node, reason
        if self.doubted_limits:
            limits, self.doubted_limits = sorted(self.doubted_limits, key=_path_of), {}
            for limit in limits:
                yield from self._over(limit)
        if self.share_doubted:
            self.share_doubted = False
            yield from self._above_share()

    def _problem_of(self, node: Node) -> str:
        kept = self.of[node]
        ask = kept.ask
        bound = node.id if kept.available.rank is None else ""
        if not node.takes(bound):
            return f"{node.id} takes nothing new"
        if not covers(self._index.nodes.obtainable(node), kept.need):
            return f"it can no longer be obtained on {node.id}"
        return f"the RM refuses {node.id} for it" if node.id in ask.refused else ""

    def _over(self, limit: Limit) -> Iterator[tuple[Node, str]]:
        """The youngest reservations under the limit, until what is left has room."""
        if limit not in self.under or not self._exceeds(limit):
            return
        for node in self._youngest_first(self.under[limit]):
            yield node, f"{limit} has no room for it"
            if not self._exceeds(limit):
                return

    def _exceeds(self, limit: Limit) -> bool:
        return limit in self.sums and lacks_room(limit, self.sums[limit])

    def _above_share(self) -> Iterator[tuple[Node, str]]:
        settings = self._index.partition.settings
        most, reason = self.most(settings.queue_reservation_share), "too many nodes are reserved"
        for leaf in sorted((leaf for leaf, nodes in self.shares.items() if len(nodes) > most), key=_path_of):
            nodes = self._youngest_first(self.shares[leaf])
            for node in nodes[: len(nodes) - most]:
                yield node, f"{reason} for asks of {leaf}"
        nodes = self._youngest_first(self.in_share)
        for node in nodes[: max(0, len(nodes) - self.most(settings.reservation_share))]:
            yield node, reason

    def _youngest_first(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes without a preemption under way, the youngest reservation first."""
        return sorted((node for node in nodes if not node.preempting), key=self._age, reverse=True)

    def _age(self, node: Node) -> Age:
        return node.reserved_ms, self.of[node].ask.seq, node.id

    # Takers of kept nodes

    def next_claimants(self) -> list[AskClass]:
        """The next ask classes that may have the right to a kept node, each with its turn."""
        if not self.by_available:
            return []
        found = list(islice(self.claimants, CLAIMANTS_PER_PASS))
        for ask_class in found:
            del self.claimants[ask_class]
            self.claimants[ask_class] = None
        return found

    def with_room(self, demand: Demand, *, obtainable: bool) -> Iterator[Node]:
        """The kept nodes that the demand fits, or would fit when all has left that can leave: first those for asks of
        low priority. O(log n) each."""
        spots, start = self.by_obtainable if obtainable else self.by_available, Rank()
        while (spot := spots.first(demand.need, start)) is not None:
            assert spot.rank is not None, "what was found is listed"
            start = (*spot.rank, 0)  # right behind it
            if not demand.avoids(spot.node.id) and spot.node.takes("") and not spot.node.full:
                yield spot.node

    def forget(self, ask_class: AskClass) -> None:
        """Forget an ask class that has no ask any more."""
        self.claimants.pop(ask_class, None)
        self._wait_no_more(ask_class)


class Reservations:
    """The reserved asks of a partition that may be placed now, by the nodes that are reserved for them."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # Reserved nodes that changed: the ask they are reserved for may fit.
        self.changed: dict[Node, None] = {}
        # Open demands whose asks have reservations: another node may fit them.
        self.opened: dict[Demand, None] = {}
        # The same as heaps by the rank of the ask, made when first needed in a pass (None: not yet). Within a pass
        # ranks only get worse, because placements only add to shares. So the first entry is ranked again when it comes
        # up, and moved back if its rank is worse now.
        self._on_own_node: list[tuple[Rank, Node]] | None = None
        self._elsewhere: list[tuple[Rank, Node]] | None = None

    def begin_pass(self) -> None:
        """Drop the heaps: commands may have changed every rank."""
        self._on_own_node = self._elsewhere = None

    def node_changed(self, node: Node) -> None:
        """The ask that the node is reserved for may fit there now."""
        self.changed[node] = None
        self._on_own_node = None
        self._index.reserved_node_changed(node)

    def demand_opened(self, demand: Demand) -> None:
        """Asks of the demand have reservations, and may fit another node now."""
        self.opened[demand] = None
        self._elsewhere = None

    def next_placement(self) -> tuple[Node, Node] | None:
        """(reserved node, node to place its ask on) of the first reserved ask, in the order of queues, that can be
        placed; None if no reserved ask can be. O(reserved nodes) at the first call of a pass, then O(log n)."""
        if self.changed or self.opened:
            self._index.measure()  # ranks depend on the partition's total
        if self.changed and (reserved := self._next_on_own_node()) is not None:
            return reserved, reserved
        return self._next_elsewhere() if self.opened else None

    def _next_on_own_node(self) -> Node | None:
        if self._on_own_node is None:
            self._on_own_node = [(self.ask_rank(node), node) for node in self.changed if self._fits(node)]
            heapify(self._on_own_node)
        while (reserved := self._first_in(self._on_own_node)) is not None:
            heappop(self._on_own_node)
            self.changed.pop(reserved, None)
            if self._fits(reserved) and not self.held_back(reserved):
                return reserved
        self.changed.clear()
        return None

    def _next_elsewhere(self) -> tuple[Node, Node] | None:
        if self._elsewhere is None:
            for demand in [demand for demand in self.opened if demand.open and self._best(demand) is None]:
                del self.opened[demand]
            found = [node for demand in self.opened if demand.open for node in demand.reserved]
            self._elsewhere = [(self.ask_rank(node), node) for node in found if not self.held_back(node)]
            heapify(self._elsewhere)
        while (reserved := self._first_in(self._elsewhere)) is not None:
            demand = self._index.demand_of(reserved.reservation)  # type: ignore[arg-type]
            if demand.open and not self.held_back(reserved):
                if (node := self._best(demand)) is not None:
                    return reserved, node
                del self.opened[demand]
            heappop(self._elsewhere)
        self.opened.clear()
        return None

    def _first_in(self, heap: list[tuple[Rank, Node]]) -> Node | None:
        """The first node of the heap that is still reserved, by its current rank; it stays in the heap."""
        while heap:
            ask_rank, node = heap[0]
            if node.reservation is None:
                heappop(heap)
            elif (now := self.ask_rank(node)) != ask_rank:
                heapreplace(heap, (now, node))
            else:
                return node
        return None

    def _best(self, demand: Demand) -> Node | None:
        """An accepted node; else one that the RM is asked about, for this ask alone."""
        node = self._index.nodes.best(demand) or self._index.nodes.best_not_refused(demand)
        if node is None:
            self._index.close(demand)
        return node

    def wake(self, nodes: Iterable[Node]) -> None:
        """Look at these reservations again: the limit or maximum that held them back may have room."""
        for node in nodes:
            if node.reservation is not None:
                self.node_changed(node)
                demand = self._index.demand_of(node.reservation)
                if demand.open:
                    self.demand_opened(demand)

    def _fits(self, node: Node) -> bool:
        ask = node.reservation
        assert ask is not None, "only reserved nodes are looked at"
        nodes = self._index.nodes
        demand = self._index.demand_of(ask)
        if node.full or not node.takes(demand.required_node) or node.id in ask.refused:
            return False
        return covers(nodes.available(node), demand.need)

    def held_back(self, node: Node) -> bool:
        """Whether a limit or a maximum leaves the ask no room. If so, it wakes the reservation when it gains room."""
        ask = node.reservation
        assert ask is not None, "only reserved nodes are looked at"
        limit = limit_of(ask)
        if limit is not None:
            self._index.stalled.block(node, limit)
            return True
        queue = full_queue(ask)
        if queue is not None:
            self._index.orders[queue].stalled[node] = None
        return queue is not None

    def ask_rank(self, node: Node) -> Rank:
        """The rank of the ask that the node is reserved for."""
        ask = node.reservation
        assert ask is not None, "only reserved nodes are looked at"
        return (*self._index.ask_rank(ask), node.id)


def _path_of(limit: Limit) -> tuple[str, ...]:
    if isinstance(limit, Tracker):
        return (limit.queue.path, limit.kind, limit.name)
    return (limit.path,) if isinstance(limit, Queue) else (limit.path, "")
