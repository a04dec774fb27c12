"""The scheduling index of a partition: what makes "who is next" and "where is best" quick.

Derived from the state and nothing else; built when a partition is first scheduled, told by `evolve` of each change,
thrown away and built anew when the configuration or the partition's total changes. `check` compares it with one built
afresh.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ..rules.resource import Items, Resource, items_of
from ..rules.share import scales_of, weight
from .claimants import Claimants
from .fit_list import Vector, covers
from .nodes import Demand, NodeIndex
from .order import UNLIMITED, LeafOrder, Line, ParentOrder
from .required_node import required_node

if TYPE_CHECKING:
    from ..state import Application, Node, Partition, PendingAsk, Queue


class Index:
    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.raw_shares = partition.yunikorn_1_4
        self.names = self._names()
        self.scales = scales_of(partition.total)
        self.nodes = NodeIndex(partition, self.names)
        # The negated headroom of a queue under no maximum.
        self.no_limits: Vector = (-UNLIMITED,) * len(self.names)
        self._demands: dict[tuple[Items, str, frozenset[str]], Demand] = {}
        # The same by a key that is quicker to make: the items in whatever order the RM wrote them.
        self._by_writing: dict[tuple[Any, ...], Demand] = {}
        self._closed: dict[Demand, None] = {}
        # Lanes whose demand is open: none, and there is nothing to do.
        self._open_lanes = 0
        self._total_changed = False
        self._least: Vector | None = None
        # Lines whose waiting may have to be explained, the longest untold first.
        self.unexplained: deque[Line] = deque()
        self.claimants = Claimants() if partition.settings.preemption_enabled else None
        self.root = self._order(partition.root, None)
        for application in sorted(partition.applications.values(), key=lambda a: a.seq):
            for ask in application.asks.values():
                self.ask_added(ask)

    def _names(self) -> dict[str, int]:
        """Every resource that a node has or a maximum limits, in the order of names: the places of a vector. An ask for
        anything else fits no node."""
        names = set(self.partition.settings.resource_weights)
        for node in self.partition.nodes.values():
            names.update(node.capacity, node.occupied, node.allocated)
        for queue in self.partition.queues.values():
            names.update(queue.settings.max)
        return {name: place for place, name in enumerate(sorted(names))}

    def _order(self, queue: Queue, above: ParentOrder | None) -> ParentOrder | LeafOrder:
        if queue.leaf:
            queue.order = leaf = LeafOrder(queue, above, self)
            return leaf
        queue.order = parent = ParentOrder(queue, above, self)
        for child in queue.children.values():
            self._order(child, parent)
        return parent

    # What the cycle asks

    def next_ask(self) -> PendingAsk | None:
        """Who is next, of the asks that fit under every maximum and that some node may fit."""
        if not self._open_lanes:
            return None
        if self._total_changed:
            self._total_changed = False
            self.scales = scales_of(self.partition.total)
            for demand in self._demands.values():
                demand.weight = weight(demand.resource, self.scales)
            self.root.total_changed()
        return self.root.first(None)

    def anything_fits(self, room: Vector) -> bool:
        """A headroom so small that not even the smallest amounts asked for fit needs no looking at lanes."""
        return self._least is None or covers(room, self._least)

    def close(self, demand: Demand) -> None:
        """No node fits it now."""
        demand.open = False
        self._closed[demand] = None
        self._open_lanes -= demand.lanes

    # What evolve tells

    def ask_added(self, ask: PendingAsk) -> None:
        leaf = ask.application.queue.order
        assert isinstance(leaf, LeafOrder), "asks are in leaf queues"
        if ask.pending:
            demand = self._demand(ask.ask.resource, required_node(ask.ask.tags), ask.refused)
            leaf.add(ask, demand)
            if self.claimants is not None and (ask.ask.allow_preempt_other or demand.required_node):
                self.claimants.add(ask)

    def ask_gone(self, ask: PendingAsk, pending: int) -> None:
        """It was released, or is about to be added with other values. `pending`: so many were still to be allocated."""
        line, ask.line = ask.line, None
        if line is not None:
            leaf, demand = line.lane.leaf, line.lane.demand
            leaf.taken(line)
            leaf.changed(pending * demand.weight)

    def ask_moved(self, ask: PendingAsk, before: int) -> None:
        """More of it is pending, or other nodes are refused. `before`: so many were in a line."""
        line, ask.line = ask.line, None
        if line is not None:
            line.discard(ask)
            leaf, demand = line.lane.leaf, line.lane.demand
            leaf.taken(line)
            leaf.changed(before * demand.weight)
        self.ask_added(ask)

    def allocated(self, ask: PendingAsk, node: Node) -> None:
        line = ask.line
        assert line is not None, "what is allocated was in a line"
        lane = line.lane
        leaf = lane.leaf
        self.nodes.book(node, lane.demand)
        if not ask.pending or leaf.fair:
            leaf.taken(line)
        leaf.changed(lane.demand.weight)

    def may_preempt(self, ask: PendingAsk) -> None:
        """It may again."""
        if self.claimants is not None:
            self.claimants.add(ask)

    def total_changed(self) -> None:
        """Nodes came, went or changed in size: every share is another. Put right once, before the next ask is looked
        for."""
        self._total_changed = True

    def booked(self, node: Node, application: Application) -> None:
        """An allocation nobody had asked for here is now on the node."""
        self.nodes.place(node)
        self._shares_changed(application)

    def released(self, node: Node, application: Application) -> None:
        self.node_changed(node)
        self._shares_changed(application)
        if application.queue.order is not None:
            application.queue.order.released()

    def _shares_changed(self, application: Application) -> None:
        leaf = application.queue.order
        assert isinstance(leaf, LeafOrder), "applications are in leaf queues"
        leaf.changed()
        if leaf.fair:
            leaf.application_changed(application)

    def queue_added(self, queue: Queue) -> None:
        above = queue.parent.order if queue.parent is not None else None
        assert isinstance(above, ParentOrder), "queues stand below parents"
        if not self.knows(queue.settings.max):
            self.partition.index = None
            return
        self._order(queue, above)

    def queue_removed(self, queue: Queue) -> None:
        order, queue.order = queue.order, None
        if order is None or order.above is None:
            return
        order.above.contest.leave(order)
        for above in queue.lineage[1:]:
            if above.order is not None:
                above.order.parked.pop(order, None)

    def node_changed(self, node: Node) -> None:
        """Capacity, available or state changed: closed demands that fit it now open."""
        group = self.nodes.place(node)
        if group is None or not self._closed:
            return
        for demand in [
            d
            for d in self._closed
            if d.possible
            and covers(group.available, d.need)
            and d.required_node in ("", node.id)
            and node.id not in d.refused
        ]:
            self.open(demand)

    def open(self, demand: Demand) -> None:
        del self._closed[demand]
        demand.open = True
        self._open_lanes += demand.lanes
        lanes, demand.closed_lanes = demand.closed_lanes, []
        for lane in lanes:
            lane.reopen()

    # Demands

    def knows(self, resource: Resource) -> bool:
        """Whether all of a node's resources have a place here; if not, the index has to be built anew."""
        return self.names.keys() >= resource.keys()

    def _demand(self, resource: Resource, node_id: str, refused: frozenset[str]) -> Demand:
        as_written = (*resource.items(), node_id, refused)
        demand = self._by_writing.get(as_written)
        if demand is None:
            key = (items_of(resource), node_id, refused)
            demand = self._demands.get(key)
            if demand is None:
                demand = self._demands[key] = Demand(
                    resource, key[0], node_id, refused, self.nodes.vector(resource), weight(resource, self.scales)
                )
                if any(name not in self.names for name, _ in key[0]):
                    demand.possible = demand.open = False
            demand.writings.append(as_written)
            self._by_writing[as_written] = demand
        return demand

    def lane_opened(self, demand: Demand) -> None:
        demand.lanes += 1
        if demand.open:
            self._open_lanes += 1
        self._least = demand.need if self._least is None else tuple(map(min, self._least, demand.need))

    def lane_gone(self, demand: Demand) -> None:
        demand.lanes -= 1
        if demand.open:
            self._open_lanes -= 1
        if not demand.lanes:
            self._closed.pop(demand, None)
            del self._demands[demand.items, demand.required_node, demand.refused]
            for as_written in demand.writings:
                del self._by_writing[as_written]
            if not self._demands:
                self._least = None
