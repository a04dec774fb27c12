"""The scheduling index of a partition: what makes "who is next" and "where is best" quick.

Derived from the state and nothing else; built when a partition is first scheduled, told by `evolve` of each change,
thrown away and built anew when the configuration or the partition's total changes. `check` compares it with one built
afresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from operator import neg
from typing import TYPE_CHECKING, Any

from ..limits import OPEN_AT_ONCE, RESERVATION_WAKES, RESERVATION_WORK_PER_PASS
from ..rules.resource import Items, Resource, items_of
from ..rules.share import scales_of, weight
from . import gang
from .claimants import Claimants
from .fit_list import HIDDEN, FitList, Rank, Vector, covers
from .gang import Awaiting, Gang
from .gap import Gaps
from .nodes import Demand, NodeIndex
from .order import UNLIMITED, Lane, LeafOrder, Line, ParentOrder
from .required_node import required_node
from .reserve import Reservations
from .waiting import Waiting

if TYPE_CHECKING:
    from ..state import Application, Node, Partition, PendingAsk, Queue, TaskGroup, Tracker


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
        self._numbers = 0
        # Closed demands, to be found by what room there is; those bound to a node by its ID.
        self._closed: FitList[Demand] = FitList(len(self.names))
        # Those that are opened whenever they fit: of which one node is not like another, or that hold reservations.
        self._closed_singly: FitList[Demand] = FitList(len(self.names))
        self._closed_bound: dict[str, dict[Demand, None]] = {}
        # Lanes, and reserved nodes, that wait for room or a slot, by what has none.
        self.parked: Waiting[Lane] = Waiting()
        self.stalled: Waiting[Node] = Waiting()
        self.gaps = Gaps(self)
        self.leaves: dict[LeafOrder, None] = {}  # with lanes
        # Lanes whose demand is live: none, and there is nothing to do.
        self._live_lanes = 0
        # Reservations: lanes by the time at which their first ask is old enough; closed demands that found no node to
        # reserve, and that want more than is left in the whole partition; those that a pass had no time left for; and
        # the time that is left, in node groups to be looked at.
        self.reservations = Reservations(self)
        self.now_ms = self._delay_ms = 0
        self._aging: list[tuple[int, int, Lane]] = []
        self._unserved: dict[Demand, None] = {}
        self._beyond_total: dict[Demand, None] = {}
        self._postponed: list[Demand] = []
        self._work_left = 0
        self._total_changed = False
        self._least: Vector | None = None
        # Lines whose waiting may have to be explained, the longest untold first.
        self.unexplained: dict[Line, None] = {}
        self.claimants = Claimants() if partition.settings.preemption_enabled else None
        # Gangs for which there was no place on any node, until one may have some.
        self.blocked: dict[Gang, None] = {}
        self.root = self._order(partition.root, None)
        for application in partition.applications.values():
            if not application.terminal:
                self.state_changed(application)
        self.gangs_to_serve = self.root.gangs.members
        for application in sorted(partition.applications.values(), key=lambda a: a.seq):
            application.gang = None
            for group in application.task_groups.values():
                if group.awaited:
                    self._gang(application).waiting[group.name] = {}
            for ask in application.asks.values():
                ask.line = None  # of an index before this one
                self.ask_added(ask)
        for node in partition.nodes.values():
            if node.reservation is not None:
                self.demand_of(node.reservation).reserved[node] = None
                self.reservations.wake((node,))

    @property
    def is_current(self) -> bool:
        """One that was thrown away is not told of changes any more, but queues still know it until another is built."""
        return self.partition.index is self

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
        if not self._live_lanes and not self.gaps.nodes:
            return None
        if self._total_changed:
            self.measure()
        found = self.root.first(None)
        return self._next_beside_gaps(found) if self.gaps.nodes else found

    def _next_beside_gaps(self, found: PendingAsk | None) -> PendingAsk | None:
        if found is None and (found := self.gaps.next()) is not None:
            return found
        self.gaps.open_all()
        return self.root.first(None)

    def measure(self) -> None:
        """Put all shares right, if the partition's total has changed."""
        if self._total_changed:
            self._total_changed = False
            self.scales = scales_of(self.partition.total)
            for demand in self._demands.values():
                demand.weight = weight(demand.resource, self.scales)
            self.root.total_changed()

    def next_gang(self) -> Gang | None:
        """Whose turn it is to replace a placeholder."""
        if self._total_changed:
            self.measure()
        return gang.first(self.root)

    def best_node(self, ask: PendingAsk) -> Node | None:
        """For one that stands in no lane."""
        resource = ask.ask.resource
        items = items_of(resource)
        if any(name not in self.names for name, _ in items):
            return None
        return self.nodes.best(
            Demand(resource, items, required_node(ask.ask.tags), ask.refused, self.nodes.vector(resource), 0, 0)
        )

    def block(self, waiting: Gang) -> None:
        """No node has a place for it now."""
        self.blocked[waiting] = None
        gang.leave(waiting)

    def anything_fits(self, bar: Vector) -> bool:
        """A headroom so small that not even the smallest amounts asked for fit needs no looking further down. `bar`:
        negated, and so is `_least`."""
        return self._least is None or covers(self._least, bar)

    def close(self, demand: Demand) -> None:
        """No node fits it now. It lives on as long as its asks may reserve nodes."""
        demand.open = demand.live = False
        self._live_lanes -= demand.lanes
        if demand.required_node:
            self._closed_bound.setdefault(demand.required_node, {})[demand] = None
        else:
            demand.closed_in = self._closed_singly if demand.choosy or demand.reserved else self._closed
            demand.closed_in.put(demand, (demand.number,))
        if demand.aged:
            self._start_reserving(demand)

    # Reserving

    def begin(self, now_ms: int, delay_ms: int) -> None:
        """A pass begins. `delay_ms`: age at which an ask may reserve a node."""
        self.now_ms, self._delay_ms, self._work_left = now_ms, delay_ms, RESERVATION_WORK_PER_PASS
        self.reservations.begin()
        while self._aging and self._aging[0][0] + delay_ms <= now_ms:
            lane = heappop(self._aging)[-1]
            if lane.contest.members:
                self._has_aged(lane)
        postponed, self._postponed = self._postponed, []
        for demand in postponed:
            self._start_reserving(demand)

    def may_reserve(self, ask: PendingAsk) -> bool:
        """It is old enough; one that has to be on a certain node always is."""
        return ask.at_ms + self._delay_ms <= self.now_ms or ask.line.lane.demand.required_node != ""  # type: ignore[union-attr]

    def too_young(self, lane: Lane, ask: PendingAsk) -> None:
        """The lane is out of the way until its first ask is old enough or another, or a node fits."""
        lane.close()
        self._wait(lane, ask)

    def fits_total(self, demand: Demand) -> bool:
        """Whether as much as it wants is left in the partition as a whole: the maximum of root is all there is. If not,
        it may reserve when something was released."""
        total, allocated = self.partition.total, self.partition.root.allocated
        if all(amount <= total.get(name, 0) - allocated.get(name, 0) for name, amount in demand.items):
            return True
        self.stop_reserving(demand)
        self._beyond_total[demand] = None
        return False

    def closest(self, demand: Demand) -> Node | None:
        """The node to reserve. None: there is none, or this pass has spent its time."""
        if self._work_left <= 0:
            self.stop_reserving(demand)
            self._postponed.append(demand)
            return None
        node, looked_at = self.nodes.closest(demand)
        self._work_left -= looked_at
        if node is None:
            self.stop_reserving(demand)
            self._unserved[demand] = None
        return node

    def stop_reserving(self, demand: Demand) -> None:
        if demand.reserving:
            demand.reserving = demand.live = False
            self._live_lanes -= demand.lanes

    def _start_reserving(self, demand: Demand) -> None:
        if demand.open or demand.reserving or not demand.possible or not demand.aged:
            return
        self._unserved.pop(demand, None)
        self._beyond_total.pop(demand, None)
        demand.reserving = demand.live = True
        self._live_lanes += demand.lanes
        self._reopen_lanes(demand)

    def age(self, lane: Lane, ask: PendingAsk) -> None:
        """The oldest of a lane, as far as is known, waits since then: it grows old enough to reserve a node."""
        lane.since_ms = ask.at_ms
        if self.may_reserve(ask):
            self._has_aged(lane)
        else:
            self._wait(lane, ask)

    def _wait(self, lane: Lane, ask: PendingAsk) -> None:
        self._numbers += 1
        heappush(self._aging, (ask.at_ms, self._numbers, lane))

    def _has_aged(self, lane: Lane) -> None:
        if not lane.aged:
            lane.aged = True
            lane.demand.aged += 1
        self._start_reserving(lane.demand)
        if not lane.open:
            self.look_again(lane)

    def look_again(self, lane: Lane) -> None:
        """Another ask may be the first of a lane that is out of the way."""
        if lane.aged and lane.demand.reserving:
            lane.reopen()

    def demand_of(self, ask: PendingAsk) -> Demand:
        assert ask.demand is not None, "the index knows every pending ask"
        return ask.demand

    def standing(self, ask: PendingAsk) -> Rank:
        """Depth first: the ranks of the queues from the top down, then of the application, then of the ask."""
        queues = [queue.order.rank() for queue in reversed(ask.application.queue.lineage) if queue.order is not None]
        return (*queues, self.leaf_of(ask).application_rank(ask.application), -ask.ask.priority, ask.seq)

    def leaf_of(self, ask: PendingAsk) -> LeafOrder:
        return self._leaf(ask.application)

    def park(self, lane: Lane, limit: Queue | Tracker) -> None:
        """The limit has no room or slot for it now."""
        lane.wait_no_more()
        lane.open = False
        lane.room = HIDDEN
        self.parked.wait(lane, limit)

    # What evolve tells

    def ask_added(self, ask: PendingAsk) -> None:
        if not ask.pending:  # the RM is asked about all of it
            ask.demand = None
            return
        if ask.ask.task_group and self._gang_of(ask) is not None:
            self._await_place(ask)
            return
        ask.demand = demand = self._demand_for(ask)
        if ask.free:
            self.leaf_of(ask).add(ask, demand, ask.pending * demand.weight)
        else:
            self.leaf_of(ask).enter(ask.pending * demand.weight)
        if self.claimants is not None and (ask.ask.allow_preempt_other or demand.required_node):
            self.claimants.add(ask)

    def _await_place(self, ask: PendingAsk) -> None:
        """For nodes that are reserved for repeats of it, it has a demand all the same."""
        ask.demand = self._demand_for(ask) if ask.reservations else None
        leaf = self.leaf_of(ask)
        leaf.enter(ask.pending * self._weight(ask))
        if len(ask.application.asks) == 1:
            leaf.asks(ask.application)
        if ask.free:
            self._line_up(ask)

    def _weight(self, ask: PendingAsk) -> int:
        return weight(ask.ask.resource, self.scales) if ask.demand is None else ask.demand.weight

    def _line_up(self, ask: PendingAsk) -> None:
        """Repeats of it are free: they wait for a node, or for the place of a placeholder."""
        gang = self._gang_of(ask)
        if gang is None:
            self.leaf_of(ask).add(ask, self.demand_of(ask), 0)
        else:
            gang.add(ask)
            gang.settle(ask.ask.task_group)

    def _gang_of(self, ask: PendingAsk) -> Gang | None:
        """What it waits with for the place of a placeholder, if it does."""
        gang = ask.application.gang
        return gang if gang is not None and gang.waits(ask) else None

    def reserved(self, ask: PendingAsk, node: Node) -> None:
        demand = self.demand_of(ask)
        self._keep(node, demand)
        self.nodes.withdraw(node)
        # It may fit: preemption reserves for asks that a maximum holds back, too.
        self.reservations.node_changed(node)
        if demand.open:
            self.reservations.demand_opened(demand)
        line = ask.line
        if not ask.free and isinstance(line, Line):
            line.remove(ask)
            line.lane.leaf.taken(line)

    def unreserved(self, ask: PendingAsk, node: Node) -> None:
        demand = self.demand_of(ask)
        demand.reserved.pop(node, None)
        self.reservations.changed.pop(node, None)
        self.stalled.leave(node)
        self.node_changed(node)
        if ask.free == 1:  # it was in no line
            self._line_up(ask)
        if not ask.reservations and self._gang_of(ask) is not None:
            ask.demand = None
            self._forget_unused(demand)

    def _keep(self, node: Node, demand: Demand) -> None:
        """The node is reserved for an ask of this demand. Gaps do not serve it any more."""
        demand.reserved[node] = None
        if demand.closed_in is self._closed:
            if self.gaps.fit(demand):
                self.open(demand)
                return
            self._closed.remove(demand)
            demand.closed_in = self._closed_singly
            self._closed_singly.put(demand, (demand.number,))

    def ask_gone(self, ask: PendingAsk, pending: int) -> None:
        """It was released, or is about to be added with other values. `pending`: so many were still to be allocated."""
        line, ask.line = ask.line, None
        if line is not None:
            line.withdrawn += 1
        if isinstance(line, Awaiting):
            line.gang.settle(line.group.name)
            line.gang.leaf.changed(pending * self._weight(ask))
        elif isinstance(line, Line):
            leaf, demand = line.lane.leaf, line.lane.demand
            leaf.taken(line)
            leaf.changed(pending * demand.weight)

    def ask_moved(self, ask: PendingAsk, before: int) -> None:
        """More of it is pending, or other nodes are refused. `before`: so many were pending."""
        was, line, weighed = ask.demand, ask.line, self._weight(ask)
        if line is not None:
            line.remove(ask)
            if isinstance(line, Awaiting):
                line.gang.settle(line.group.name)
            elif isinstance(line, Line):
                line.lane.leaf.taken(line)
        if before:
            self.leaf_of(ask).changed(before * weighed)
        self.ask_added(ask)
        for node_id in ask.reservations:
            node = self.partition.nodes[node_id]
            if was is not None:
                was.reserved.pop(node, None)
            self._keep(node, self.demand_of(ask))
            self.reservations.wake((node,))
        if was is not None and was is not ask.demand:
            self._forget_unused(was)

    def allocated(self, ask: PendingAsk, node: Node) -> None:
        line: Line = ask.line  # type: ignore[assignment]
        if type(line) is not Line:
            self._allocated_aside(ask, node)
            return
        lane = line.lane
        leaf = lane.leaf
        self.nodes.book(node, lane.demand)
        if not ask.free:
            line.remove(ask)
            if leaf.fair or not lane.open or not line.best or line.withdrawn:
                leaf.taken(line)
            elif leaf.only is None:  # the same, where another ask of the line follows
                lane.touch()
        elif leaf.fair:
            leaf.taken(line)
        leaf.changed(lane.demand.weight)

    def _allocated_aside(self, ask: PendingAsk, node: Node) -> None:
        """It waits for the place of a placeholder, and yet was allocated: a node was reserved for it before."""
        line = ask.line
        assert isinstance(line, Awaiting), "what is allocated was in a line"
        self.nodes.place(node)
        if not ask.free:
            line.remove(ask)
        line.gang.settle(line.group.name)
        line.gang.leaf.changed(self._weight(ask))

    def may_preempt(self, ask: PendingAsk) -> None:
        """It may again."""
        if self.claimants is not None:
            self.claimants.add(ask)

    def state_changed(self, application: Application) -> None:
        leaf = application.queue.order
        if isinstance(leaf, LeafOrder) and leaf.turns is not None:
            leaf.turns.state_changed(application)
            leaf.regroup(application)
            leaf.take_turns(leaf.turns)
        if self.claimants is not None and not application.asks:
            self.claimants.wake_application(application)

    def stopped_asking(self, application: Application) -> None:
        """For now it asks for nothing any more."""
        leaf = self._leaf(application)
        if leaf.turns is not None:
            leaf.take_turns(leaf.turns)

    def _leaf(self, application: Application) -> LeafOrder:
        leaf = application.queue.order
        assert isinstance(leaf, LeafOrder), "applications are in leaf queues"
        return leaf

    def began_running(self, application: Application) -> None:
        """It has got its slots."""
        self._leaf(application).regroup(application)
        stalled = [
            node
            for node in self.stalled.all()
            if node.reservation is not None and node.reservation.application is application
        ]
        self._wake_stalled(stalled)

    def _wake_stalled(self, nodes: list[Node]) -> None:
        for node in nodes:
            self.stalled.leave(node)
        self.reservations.wake(nodes)

    def ended_running(self, application: Application) -> None:
        """It has given them back."""
        self._leaf(application).regroup(application)
        self.freed(application.gates)

    def freed(self, limits: Iterable[Queue | Tracker]) -> None:
        """They have room or a slot again: who waits there and may pass now is back."""
        for limit in limits:
            for lane in self.parked.at(limit):
                if lane.in_the_way() is not limit:
                    self.parked.leave(lane)
                    lane.reopen()
            self._wake_stalled(self.stalled.at(limit))
            if self.claimants is not None:
                self.claimants.wake(limit)

    def total_changed(self) -> None:
        """Nodes came, went or changed in size: every share is another. Put right once, before the next ask is looked
        for."""
        self._total_changed = True
        self._more_is_left()

    def booked(self, node: Node, application: Application) -> None:
        """An allocation nobody had asked for here is now on the node."""
        self.nodes.place(node)
        self.shares_changed(application)

    def released(self, node: Node, application: Application) -> None:
        self.node_changed(node)
        self._more_is_left()
        self.shares_changed(application)
        if application.trackers:
            self.freed(application.trackers)
        if application.queue.order is not None:
            application.queue.order.released()

    def shares_changed(self, application: Application) -> None:
        """It uses more or less than before, and so does its queue."""
        leaf = self._leaf(application)
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
        """Capacity, available or state changed: closed demands that fit it now open, and its own reservation may be
        fulfilled."""
        if self.blocked:
            self._unblock()
        group = self.nodes.place(node)
        if node.reservation is not None:
            self.reservations.node_changed(node)
        if group is None:
            if node.schedulable:  # it is kept for another: who has to be here may take it from whom it is kept for
                for demand in self._closed_bound.get(node.id, ()):
                    self._start_reserving(demand)
            return
        for demand in self._fitting(self._closed_singly, group.available):
            if node.id not in demand.refused:
                self.open(demand)
        many = self._worth_opening()
        fitting = self.closed_that_fit(group.available, many + 1)
        if len(fitting) > many:
            self.gaps.add(node)
        else:
            for demand in fitting:
                self.open(demand)
        for demand in list(self._closed_bound.get(node.id, ())):
            if covers(group.available, demand.need):
                self.open(demand)
            else:
                self._start_reserving(demand)
        for demand in list(islice(self._unserved, RESERVATION_WAKES)):
            if covers(group.capacity, demand.need):
                self._start_reserving(demand)

    def _worth_opening(self) -> int:
        """So many demands are opened sooner than every leaf is searched."""
        return max(len(self.leaves), OPEN_AT_ONCE)

    def closed_that_fit(self, room: Vector, most: int | None = None) -> list[Demand]:
        """Of the closed demands to which one node is like another, at most so many."""
        return list(islice(self._fitting(self._closed, room), most))

    def _fitting(self, closed: FitList[Demand], room: Vector) -> Iterator[Demand]:
        """They may be opened meanwhile."""
        need = tuple(map(neg, room))
        start: Rank = ()
        while (demand := closed.first(need, start)) is not None:
            start = (demand.number, 0)  # right behind it
            yield demand

    def _more_is_left(self) -> None:
        for demand in list(islice(self._beyond_total, RESERVATION_WAKES)):
            self._start_reserving(demand)

    def _unblock(self) -> None:
        blocked, self.blocked = self.blocked, {}
        for waiting in blocked:
            if waiting.ready:
                gang.enter(waiting)

    def open(self, demand: Demand) -> None:
        self._forget_closed(demand)
        if not demand.live:
            self._live_lanes += demand.lanes
        demand.open = demand.live = True
        demand.reserving = False
        self._reopen_lanes(demand)
        if demand.reserved:
            self.reservations.demand_opened(demand)

    def _reopen_lanes(self, demand: Demand) -> None:
        lanes, demand.closed_lanes = demand.closed_lanes, []
        for lane in lanes:
            lane.reopen()

    def _forget_closed(self, demand: Demand) -> None:
        if demand.closed_in is not None:
            demand.closed_in.remove(demand)
            demand.closed_in = None
        if demand.required_node:
            bound = self._closed_bound.get(demand.required_node, {})
            bound.pop(demand, None)
            if not bound:
                self._closed_bound.pop(demand.required_node, None)
        self._unserved.pop(demand, None)
        self._beyond_total.pop(demand, None)

    # Gangs

    def _gang(self, application: Application) -> Gang:
        if application.gang is None:
            application.gang = Gang(application, self._leaf(application))
        return application.gang

    def group_changed(self, application: Application, group: TaskGroup) -> None:
        """Placeholders of a task group were asked for, allocated, taken or released. Its real asks wait for them if
        there are any, and otherwise are asks like all others."""
        waits = application.gang is not None and group.name in application.gang.waiting
        if waits != group.awaited:
            if group.awaited:
                moving = self._leave_lanes(application, group)
                self._gang(application).waiting[group.name] = {}
            else:
                moving = self._wait_no_longer(self._gang(application), group)
            for ask in moving:
                self.ask_added(ask)
            if not group.awaited:
                self._claim_again(application, group)
        if application.gang is not None:
            application.gang.settle(group.name)

    def _claim_again(self, application: Application, group: TaskGroup) -> None:
        """Asks all of which have reservations stood in no line, and yet others may be preempted for them now."""
        for ask in application.asks.values() if self.claimants is not None else ():
            wants = ask.ask.allow_preempt_other or required_node(ask.ask.tags)
            if wants and ask.ask.task_group == group.name and ask.pending and not ask.free:
                self.may_preempt(ask)

    def _leave_lanes(self, application: Application, group: TaskGroup) -> list[PendingAsk]:
        by_line: dict[Line, list[PendingAsk]] = {}
        for ask in application.asks.values():
            line = ask.line
            if ask.ask.task_group == group.name and not ask.ask.placeholder and isinstance(line, Line):
                by_line.setdefault(line, []).append(ask)
        for line, asks in by_line.items():
            leaf, demand = line.lane.leaf, line.lane.demand
            line.leave({ask.ask.allocation_key for ask in asks})
            leaf.taken(line)
            leaf.changed(sum(ask.pending for ask in asks) * demand.weight)
            for ask in asks:
                ask.line = None
        return [ask for asks in by_line.values() for ask in asks]

    def _wait_no_longer(self, waiting: Gang, group: TaskGroup) -> list[PendingAsk]:
        lines = waiting.waiting.pop(group.name)
        moving = [
            ask
            for line in lines.values()
            for _, asks in line.by_turn()
            for ask in asks
            if ask.free and ask.line is line
        ]
        for ask in moving:
            self.ask_gone(ask, ask.pending)
        waiting.settle(group.name)
        return moving

    def replacement_started(self, ask: PendingAsk, group: TaskGroup) -> None:
        line = ask.line
        assert isinstance(line, Awaiting), "what takes a place waited for it"
        if not ask.free:
            line.remove(ask)
        line.gang.settle(group.name)
        line.gang.leaf.changed(self._weight(ask))

    # Demands

    def knows(self, resource: Resource) -> bool:
        """Whether all of a node's resources have a place here; if not, the index has to be built anew."""
        return self.names.keys() >= resource.keys()

    def _demand_for(self, ask: PendingAsk) -> Demand:
        return self._demand(ask.ask.resource, required_node(ask.ask.tags), ask.refused)

    def _demand(self, resource: Resource, node_id: str, refused: frozenset[str]) -> Demand:
        as_written = (*resource.items(), node_id, refused)
        demand = self._by_writing.get(as_written)
        if demand is None:
            key = (items_of(resource), node_id, refused)
            demand = self._demands.get(key)
            if demand is None:
                self._numbers += 1
                demand = self._demands[key] = Demand(
                    resource,
                    key[0],
                    node_id,
                    refused,
                    self.nodes.vector(resource),
                    weight(resource, self.scales),
                    self._numbers,
                )
                if any(name not in self.names for name, _ in key[0]):
                    demand.possible = demand.open = demand.live = False
            demand.writings.append(as_written)
            self._by_writing[as_written] = demand
        return demand

    def lane_opened(self, lane: Lane) -> None:
        demand = lane.demand
        demand.lanes += 1
        self.leaves[lane.leaf] = None
        if demand.live:
            self._live_lanes += 1
        self._least = demand.negated if self._least is None else tuple(map(max, self._least, demand.negated))

    def lane_gone(self, lane: Lane) -> None:
        self.parked.leave(lane)
        if not lane.leaf.lanes:
            self.leaves.pop(lane.leaf, None)
        demand = lane.demand
        demand.lanes -= 1
        demand.aged -= lane.aged
        if demand.live:
            self._live_lanes -= 1
        if not demand.aged:
            self.stop_reserving(demand)
        self._forget_unused(demand)

    def _forget_unused(self, demand: Demand) -> None:
        key = (demand.items, demand.required_node, demand.refused)
        if not demand.lanes and not demand.reserved and self._demands.get(key) is demand:
            self._forget_closed(demand)
            self.nodes.forget(demand)
            self.reservations.opened.pop(demand, None)
            del self._demands[key]
            for as_written in demand.writings:
                del self._by_writing[as_written]
            if not self._demands:
                self._least = None
