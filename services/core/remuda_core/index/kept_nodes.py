"""What reserved nodes are bounded by (semantics section 11), and which of them are due for another look.

quota   what is allocated and reserved fits every maximum and limit of the asks
share   asks that are not bound to a node keep so many nodes in all, and those of one leaf queue so many
right   an ask may take a node that is kept for an ask of less right

A change that may end a reservation names the nodes and the limits that it concerns, and the next pass looks at these
alone. Ask classes that may not reserve because of quota or share stand at what is in their way, and are woken by it.
Nodes with a preemption under way are kept whatever quota and share say.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Protocol, TypeAlias

from ..limits import CLAIMANTS_PER_PASS, RESERVATION_WAKES
from ..rules.resource import Resource, add
from ..state import Application, Node, Partition, PendingAsk, Queue, Tracker
from .admission import exceeds
from .ask_classes import AskClass
from .fit_list import FitList, Rank, Vector, covers
from .node_groups import Demand
from .nodes import NodeIndex

Limit: TypeAlias = Queue | Tracker
# Age of a reservation: of two, the later is the younger.
Age = tuple[int, int, str]


class Index(Protocol):
    """The partition's index, as kept nodes see it."""

    @property
    def partition(self) -> Partition: ...
    @property
    def nodes(self) -> NodeIndex: ...


class Spot:
    """A kept node in a list by room."""

    __slots__ = ("node", "rank", "room")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.room: Vector = ()
        self.rank: Rank | None = None


class Kept:
    """What is known of a reserved node. `limits`: in which its ask counts, by now or when it was reserved; `counts`:
    whether its resource is in their sums (a preemption holds it else); `in_share`: whether it is one of the nodes that
    the share bounds."""

    __slots__ = ("ask", "available", "counts", "in_share", "limits", "need", "node", "obtainable")

    def __init__(self, ask: PendingAsk, need: Vector, node: Node) -> None:
        self.ask = ask
        self.need = need
        self.node = node
        self.limits: tuple[Limit, ...] = ()
        self.counts = self.in_share = False
        self.available, self.obtainable = Spot(node), Spot(node)


class KeptNodes:
    """The reserved nodes of a partition."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.of: dict[Node, Kept] = {}
        # By limit: what is reserved under it, and for it the nodes; by leaf queue: the nodes that count in its share.
        self.sums: dict[Limit, dict[str, int]] = {}
        self.under: dict[Limit, dict[Node, None]] = {}
        self.in_share: dict[Node, None] = {}
        self.shares: dict[Queue, dict[Node, None]] = {}
        # Those that are not kept for an ask bound to them, by what is available and by what can be obtained.
        self.by_available: FitList[Spot] = FitList(index.nodes.width)
        self.by_obtainable: FitList[Spot] = FitList(index.nodes.width)
        # What is to be looked at in the next pass.
        self.doubted: dict[Node, None] = {}
        self.doubted_limits: dict[Limit, None] = {}
        self.share_doubted = False
        # Ask classes that may not reserve, by what is in their way: a limit, a leaf queue's share, or the partition's.
        self.waiting: dict[Hashable, dict[AskClass, None]] = {}
        # All ask classes, those that were not looked at for longest first: they may have the right to a kept node.
        self.claimants: dict[AskClass, None] = {}

    # Reservations come, change and go

    def keep(self, ask: PendingAsk, node: Node, demand: Demand) -> None:
        kept = self.of[node] = Kept(ask, demand.need, node)
        if not demand.required_node:
            rank = (ask.ask.priority, node.id)
            for spot, spots in ((kept.available, self.by_available), (kept.obtainable, self.by_obtainable)):
                spot.room = self._room(node, spot is kept.available)
                spots.put(spot, rank)
        self._count(kept)
        self.doubted[node] = None

    def release(self, node: Node) -> None:
        kept = self.of.pop(node)
        self.by_available.remove(kept.available)
        self.by_obtainable.remove(kept.obtainable)
        self._uncount(kept)
        self.doubted.pop(node, None)

    def _room(self, node: Node, available: bool) -> Vector:
        return self._index.nodes.available(node) if available else self._index.nodes.obtainable(node)

    def node_changed(self, node: Node) -> None:
        """Its amounts or its state changed."""
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

    def _count(self, kept: Kept) -> None:
        node, ask = kept.node, kept.ask
        application = ask.application
        kept.limits = limits_of(application)
        held = node.preempting and ask.has_place
        kept.counts = not held
        for limit in kept.limits:
            self.under.setdefault(limit, {})[node] = None
            if kept.counts:
                add(self.sums.setdefault(limit, {}), ask.ask.resource)
            self.doubted_limits[limit] = None
        kept.in_share = not node.preempting and kept.available.rank is not None
        if kept.in_share:
            self.in_share[node] = None
            self.shares.setdefault(application.queue, {})[node] = None
            self.share_doubted = True

    def _uncount(self, kept: Kept) -> None:
        node, resource = kept.node, kept.ask.ask.resource
        for limit in kept.limits:
            under = self.under[limit]
            del under[node]
            if kept.counts:
                add(self.sums[limit], resource, -1)
            if not under:
                del self.under[limit]
                self.sums.pop(limit, None)
                self.doubted_limits.pop(limit, None)
        if kept.in_share:
            leaf = kept.limits[0]
            assert isinstance(leaf, Queue), "the first limit is the leaf queue"
            del self.in_share[node], self.shares[leaf][node]
            if not self.shares[leaf]:
                del self.shares[leaf]
        self._wake(kept.limits)
        if kept.in_share:
            self._wake((self._share_of(kept.limits[0]), self._index.partition))

    # Changes that a reservation may not survive, and changes that let others reserve

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
            if isinstance(what, Tracker) or what is queue or what == self._share_of(queue):
                self._wake((what,))

    def nodes_changed(self) -> None:
        """There are more nodes or fewer, or the shares are others."""
        self.share_doubted = True
        for what in list(self.waiting):
            if not isinstance(what, Queue | Tracker):
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
            waiting = self.waiting[what]
            del waiting[ask_class]
            if not waiting:
                del self.waiting[what]

    # May an ask reserve?

    def in_the_way(self, pending: PendingAsk, bound: bool) -> Hashable | None:
        """What keeps the ask from reserving one more node: a limit, the share of its leaf queue or of the partition;
        None if nothing does. O(depth)."""
        application, resource = pending.application, pending.ask.resource
        for limit in limits_of(application):
            if self._has_no_room(limit, resource):
                return limit
        if bound:
            return None
        if len(self.shares.get(application.queue, ())) >= self.most(
            self._index.partition.settings.queue_reservation_share
        ):
            return self._share_of(application.queue)
        return self._index.partition if self.is_full() else None

    def is_full(self) -> bool:
        """Asks that are not bound to a node keep as many nodes as they may."""
        return len(self.in_share) >= self.most(self._index.partition.settings.reservation_share)

    def most(self, per_cent: int) -> int:
        return max(1, len(self._index.partition.nodes) * per_cent // 100)

    def _has_no_room(self, limit: Limit, resource: Resource) -> bool:
        most = most_of(limit)
        if not most:
            return False
        reserved = self.sums.get(limit)
        wanted = {**resource}
        if reserved:
            add(wanted, reserved)
        return exceeds(wanted, most, used_of(limit), limit.held)

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
        return limit in self.sums and exceeds(self.sums[limit], most_of(limit), used_of(limit), limit.held)

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
        """Those without a preemption under way."""
        return sorted((node for node in nodes if not node.preempting), key=self._age, reverse=True)

    def _age(self, node: Node) -> Age:
        return node.reserved_ms, self.of[node].ask.seq, node.id

    # Who may take a kept node?

    def next_claimants(self) -> list[AskClass]:
        """The next ask classes that may have the right to a kept node, each with its turn."""
        if not self.by_available.front():
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
        """It has no ask any more."""
        self.claimants.pop(ask_class, None)
        self._wait_no_more(ask_class)


def limits_of(application: Application) -> tuple[Limit, ...]:
    """The leaf queue first."""
    return (*application.queue.path_to_root, *application.trackers)


def most_of(limit: Limit) -> Resource:
    return limit.settings.max if isinstance(limit, Queue) else limit.limit.max_resources


def used_of(limit: Limit) -> Resource:
    return limit.allocated if isinstance(limit, Queue) else limit.used


def _path_of(limit: Limit) -> tuple[str, ...]:
    return (limit.path,) if isinstance(limit, Queue) else (limit.queue.path, limit.kind, limit.name)
