"""The scheduling index of a partition: what makes "who is next" and "where is best" quick.

It is derived from the state and nothing else, and keeps its own entries of asks, nodes, queues and applications beside
it. It is built when a partition is first scheduled; `index.apply` says what each fact changes in it. It may be thrown
away and built anew at any time, which is done where nearly all of it would change (`requeue`). `check` compares it with
one built afresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import neg
from typing import Any

from ..facts import Allocated, PredicateAsked
from ..limits import LEFTOVERS, OPEN_AT_ONCE, RESERVATION_WAKES, RESERVATION_WORK_PER_PASS, WRITINGS
from ..rules.required_node import required_node
from ..rules.resource import Items, Resource, items_of
from ..rules.share import scales_of, weight
from ..settings import Timing
from ..state import Application, Node, Partition, PendingAsk, Queue, TaskGroup, Tracker
from . import gangs
from .blocked import BlockedBy
from .bound_preemptors import BoundPreemptors
from .fit_list import HIDDEN, FitList, Rank, Vector, covers
from .freed_nodes import FreedNodes
from .gangs import Awaiting, Gang
from .nodes import Demand, NodeIndex
from .preemptors import Preemptors
from .queues import UNLIMITED, ApplicationAsks, AskClass, LeafOrder, ParentOrder
from .reservations import Reservations


class PartitionIndex:
    def __init__(self, partition: Partition, timing: Timing) -> None:
        self.partition = partition
        # What it was built for. When these change, it is built anew.
        self.timing, self.settings, self.raw_shares = timing, partition.settings, partition.yunikorn_1_4
        # The place of each queue that takes part; where each ask stands that is to be allocated; which demand asks have
        # for which nodes are reserved; and what of an application waits for places of placeholders.
        self.orders: dict[Queue, ParentOrder | LeafOrder] = {}
        self.lines: dict[PendingAsk, ApplicationAsks | Awaiting] = {}
        self._reserving: dict[PendingAsk, Demand] = {}
        self.gangs: dict[Application, Gang] = {}
        # The gates in which an application counts as running, for those that pass any; and asks for which a preemption
        # is under way, and whether their place is kept.
        self._slots: dict[Application, tuple[Queue | Tracker, ...]] = {}
        self.preempting: dict[PendingAsk, bool] = {}
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
        # Ask classes, and reserved nodes, that wait for room or a slot, by what has none.
        self.parked: BlockedBy[AskClass] = BlockedBy()
        self.stalled: BlockedBy[Node] = BlockedBy()
        self.freed_nodes = FreedNodes(self)
        self.leaves: dict[LeafOrder, None] = {}  # with ask classes
        # All ask classes; and those whose demand is live: none, and there is nothing to do.
        self._ask_classes = self._live_ask_classes = 0
        # Reservations: ask classes by the time at which their first ask is old enough; closed demands that found no
        # node to reserve, and that want more than is left in the whole partition; those that a pass had no time left
        # for; and the time that is left, in node groups to be looked at.
        self.reservations = Reservations(self)
        self.now_ms = self._delay_ms = 0
        self._aging: list[tuple[int, int, AskClass]] = []
        self._unserved: dict[Demand, None] = {}
        self._beyond_total: dict[Demand, None] = {}
        self._postponed: dict[Demand, None] = {}
        self._work_left = 0
        self._total_changed = False
        self._least: Vector | None = None
        # Lines whose waiting may have to be explained, the longest untold first.
        self.unexplained: dict[ApplicationAsks, None] = {}
        self.preemptors = Preemptors(self) if partition.settings.preemption_enabled else None
        self.bound = BoundPreemptors(self)
        # Gangs for which there was no place on any node, until one may have some.
        self.blocked: dict[Gang, None] = {}
        self.root = self.place(partition.root, None)
        self.gangs_to_serve = self.root.gangs.members
        self.fill(application for queue in partition.queues.values() for application in queue.applications.values())
        for preemption in partition.preemptions.values():
            self.preempting[preemption.pending] = preemption.held
        for node in partition.nodes.values():
            if node.reservation is not None:
                self.demand_of(node.reservation).reserved[node] = None
                self.reservations.wake((node,))

    def fill(self, applications: Iterable[Application]) -> None:
        """With what they ask for. It stands in no line, or in one that is gone."""
        in_order = sorted(applications, key=lambda a: a.seq)
        for application in in_order:
            self.state_changed(application)
        for application in in_order:
            self.gangs.pop(application, None)
            self.note_slots(application)
            for group in application.task_groups.values():
                if group.awaited:
                    self._gang(application).waiting[group.name] = {}
            for ask in application.asks.values():
                self.lines.pop(ask, None)
                self.ask_added(ask)

    def emptied(self, leaf: LeafOrder) -> None:
        """Nothing stands in its ask classes any more; it is about to be replaced."""
        ask_classes, leaf.ask_classes = leaf.ask_classes, {}
        for lines in leaf.lines.values():
            for line in lines.values():
                self.unexplained.pop(line, None)
        for ask_class in ask_classes.values():
            ask_class.ranking.members.clear()  # one that grows old is not looked at any more
            ask_class.wait_no_more()
            self.ask_class_gone(ask_class)
        for application in leaf.queue.applications.values():
            if (waiting := self.gangs.get(application)) is not None:
                self.blocked.pop(waiting, None)
                gangs.leave(waiting)
        self.leaves.pop(leaf, None)
        if self.preemptors is not None:
            self.preemptors.forget(leaf.queue)

    def claim_again(self, leaf: LeafOrder) -> None:
        """Other asks of the queue may preempt than before, or at other times."""
        if self.preemptors is None:
            return
        self.preemptors.forget(leaf.queue)
        for application in leaf.queue.applications.values():
            for ask in application.asks.values():
                if ask.pending and self._gang_of(ask) is None:
                    self._claim(ask)

    def _names(self) -> dict[str, int]:
        """Every resource that a node has, in the order of names: the places of a vector. An ask for anything else fits
        no node, and of anything else nothing is used."""
        names = set(self.partition.settings.resource_weights)
        for node in self.partition.nodes.values():
            names.update(node.capacity, node.occupied, node.allocated)
        return {name: place for place, name in enumerate(sorted(names))}

    def place(self, queue: Queue, above: ParentOrder | None) -> ParentOrder | LeafOrder:
        if queue.leaf:
            leaf = self.orders[queue] = LeafOrder(queue, above, self)
            return leaf
        parent = self.orders[queue] = ParentOrder(queue, above, self)
        for child in queue.children.values():
            self.place(child, parent)
        return parent

    # What the cycle asks

    def order_of(self, queue: Queue) -> ParentOrder | LeafOrder | None:
        """None of a queue that stands below a leaf: it is draining and has no part in scheduling."""
        return self.orders.get(queue)

    def next_ask_class(self) -> AskClass | None:
        """Whose first ask is next, of those that fit under every maximum and that some node may fit."""
        if not self._live_ask_classes and not self.freed_nodes.nodes:
            return None
        if self._total_changed:
            self.measure()
        found = self.root.first(None)
        return self._next_beside_freed_nodes(found) if self.freed_nodes.nodes else found

    def _next_beside_freed_nodes(self, found: AskClass | None) -> AskClass | None:
        if found is None and (found := self.freed_nodes.next()) is not None:
            return found
        self.freed_nodes.open_all()
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
        return gangs.first(self.root)

    def best_node(self, ask: PendingAsk) -> Node | None:
        """For one that stands in no ask class."""
        resource = ask.ask.resource
        items = items_of(resource)
        if any(name not in self.names for name, _ in items):
            return None
        return self.nodes.best(
            Demand(resource, items, required_node(ask.ask.tags), ask.refused, self.nodes.vector(resource), 0, 0)
        )

    def next_to_explain(self, most: int) -> list[ApplicationAsks]:
        """Those that were not looked at for longest; from now on they are the last."""
        lines = list(islice(self.unexplained, most))
        for line in lines:
            del self.unexplained[line]
            self.unexplained[line] = None
        return lines

    def block(self, waiting: Gang) -> None:
        """No node has a place for it now."""
        self.blocked[waiting] = None
        gangs.leave(waiting)

    def anything_fits(self, negated_headroom: Vector) -> bool:
        """A headroom so small that not even the smallest amounts asked for fit needs no looking further down.
        `negated_headroom`: negated, and so is `_least`."""
        return self._least is None or covers(self._least, negated_headroom)

    def close(self, demand: Demand) -> None:
        """No node fits it now. It lives on as long as its asks may reserve nodes."""
        demand.open = demand.live = False
        self._live_ask_classes -= demand.ask_classes
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
        self.bound.begin(now_ms)
        if self.preemptors is not None:
            self.preemptors.begin()
        while self._aging and self._aging[0][0] + delay_ms <= now_ms:
            ask_class = heappop(self._aging)[-1]
            if ask_class.ranking.members:
                self._has_aged(ask_class)
        postponed, self._postponed = self._postponed, {}
        for demand in postponed:
            self._start_reserving(demand)

    def may_reserve(self, demand: Demand, ask: PendingAsk) -> bool:
        """It is old enough; one that has to be on a certain node always is."""
        return ask.at_ms + self._delay_ms <= self.now_ms or demand.required_node != ""

    def too_young(self, ask_class: AskClass, ask: PendingAsk) -> None:
        """The ask class is out of the way until its first ask is old enough or another, or a node fits."""
        ask_class.close()
        self._wait(ask_class, ask)

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
            self._postponed[demand] = None
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
            self._live_ask_classes -= demand.ask_classes

    def _start_reserving(self, demand: Demand) -> None:
        if demand.open or demand.reserving or not demand.possible or not demand.aged:
            return
        self._unserved.pop(demand, None)
        self._beyond_total.pop(demand, None)
        demand.reserving = demand.live = True
        self._live_ask_classes += demand.ask_classes
        self._reopen_ask_classes(demand)

    def reserve_again(self, demand: Demand) -> None:
        """What kept its asks from reserving, or from preempting where they want to be, may be over."""
        self._start_reserving(demand)

    def age(self, ask_class: AskClass, ask: PendingAsk) -> None:
        """The oldest of an ask class, as far as is known, waits since then: it grows old enough to reserve a node."""
        ask_class.since_ms = ask.at_ms
        if self.may_reserve(ask_class.demand, ask):
            self._has_aged(ask_class)
        else:
            self._wait(ask_class, ask)

    def _wait(self, ask_class: AskClass, ask: PendingAsk) -> None:
        self._numbers += 1
        heappush(self._aging, (ask.at_ms, self._numbers, ask_class))
        if len(self._aging) > 2 * self._ask_classes + LEFTOVERS:
            self._forget_aging()

    def _forget_aging(self) -> None:
        """An ask class needs to be looked at only once, as early as possible: if its first ask is too young then, it
        waits again."""
        earliest = {
            ask_class: (at_ms, number, ask_class) for at_ms, number, ask_class in sorted(self._aging, reverse=True)
        }
        self._aging = [entry for ask_class, entry in earliest.items() if ask_class.ranking.members]
        heapify(self._aging)

    def _has_aged(self, ask_class: AskClass) -> None:
        if not ask_class.aged:
            ask_class.aged = True
            ask_class.demand.aged += 1
        self._start_reserving(ask_class.demand)
        if not ask_class.open:
            self.look_again(ask_class)

    def look_again(self, ask_class: AskClass) -> None:
        """Another ask may be the first of an ask class that is out of the way."""
        if ask_class.aged and ask_class.demand.reserving:
            ask_class.reopen()

    def demand_of(self, ask: PendingAsk) -> Demand:
        demand = self.find_demand(ask)
        assert demand is not None, "the index knows every pending ask"
        return demand

    def find_demand(self, ask: PendingAsk) -> Demand | None:
        """None: nothing of it is to be placed on a node, now that its last piece is, or waits for a placeholder's."""
        line = self.lines.get(ask)
        return line.ask_class.demand if type(line) is ApplicationAsks else self._reserving.get(ask)

    def ask_rank(self, ask: PendingAsk) -> Rank:
        """Depth first: the ranks of the queues from the top down, then of the application, then of the ask."""
        orders = map(self.orders.get, reversed(ask.application.queue.path_to_root))
        queues = [order.rank() for order in orders if order is not None]
        return (*queues, self.leaf_of(ask).application_rank(ask.application), -ask.ask.priority, ask.seq)

    def leaf_of(self, ask: PendingAsk) -> LeafOrder:
        leaf = self.orders[ask.application.queue]
        assert isinstance(leaf, LeafOrder), "applications are in leaf queues"
        return leaf

    def park(self, ask_class: AskClass, limit: Queue | Tracker) -> None:
        """The limit has no room or slot for it now."""
        ask_class.wait_no_more()
        ask_class.open = False
        ask_class.room = HIDDEN
        self.parked.wait(ask_class, limit)

    # What facts change

    def ask_added(self, ask: PendingAsk) -> None:
        if not ask.pending:  # the RM is asked about all of it
            return
        if ask.ask.task_group and self._gang_of(ask) is not None:
            self._await_place(ask)
            return
        demand = self._demand_for(ask)
        if ask.reservations:
            self._reserving[ask] = demand
        if ask.free:
            self.leaf_of(ask).add(ask, demand, ask.pending * demand.weight)
        else:
            self.leaf_of(ask).enter(ask.pending * demand.weight)
        if ask.ask.allow_preempt_other:
            self._claim(ask)

    def _claim(self, ask: PendingAsk) -> None:
        if self.preemptors is not None and ask.ask.allow_preempt_other and not required_node(ask.ask.tags):
            self.preemptors.add(ask)

    def _await_place(self, ask: PendingAsk) -> None:
        """For nodes that are reserved for repeats of it, it has a demand all the same."""
        if ask.reservations:
            self._reserving[ask] = self._demand_for(ask)
        leaf = self.leaf_of(ask)
        leaf.enter(ask.pending * self._weight(ask))
        if len(ask.application.asks) == 1:
            leaf.asks(ask.application)
        if ask.free:
            self._line_up(ask)

    def _weight(self, ask: PendingAsk) -> int:
        return weight(ask.ask.resource, self.scales)

    def _line_up(self, ask: PendingAsk) -> None:
        """Repeats of it are free: they wait for a node, or for the place of a placeholder."""
        gang = self._gang_of(ask)
        if gang is None:
            self.leaf_of(ask).add(ask, self._demand_for(ask), 0)
        else:
            gang.add(ask)
            gang.settle(ask.ask.task_group)

    def _gang_of(self, ask: PendingAsk) -> Gang | None:
        """What it waits with for the place of a placeholder, if it does."""
        gang = self.gangs.get(ask.application)
        return gang if gang is not None and gang.waits(ask) else None

    def awaits_place(self, ask: PendingAsk) -> bool:
        """That of a placeholder: nobody has to go for it. (It may preempt again when it waits for a node.)"""
        return bool(self.gangs) and self._gang_of(ask) is not None

    def reserved(self, ask: PendingAsk, node: Node) -> None:
        demand = self._reserving[ask] = self.demand_of(ask)
        self._keep(node, demand)
        self.nodes.withdraw(node)
        # It may fit: preemption reserves for asks that a maximum holds back, too.
        self.reservations.node_changed(node)
        if demand.open:
            self.reservations.demand_opened(demand)
        line = self.lines.get(ask)
        if not ask.free and isinstance(line, ApplicationAsks):
            self._leave_line(ask, line)
            line.ask_class.leaf.taken(line)

    def _leave_line(self, ask: PendingAsk, line: ApplicationAsks | Awaiting) -> None:
        del self.lines[ask]
        line.remove(ask)

    def unreserved(self, ask: PendingAsk, node: Node) -> None:
        demand = self._reserving[ask]
        demand.reserved.pop(node, None)
        self.reservations.changed.pop(node, None)
        self.bound.changed.pop(node, None)
        self.stalled.leave(node)
        for order in map(self.orders.get, ask.application.queue.path_to_root):
            if order is not None:
                order.stalled.pop(node, None)
        self.node_changed(node)
        if ask.free == 1:  # it was in no line
            self._line_up(ask)
        if not ask.reservations:
            del self._reserving[ask]
            self._forget_unused(demand)

    def _keep(self, node: Node, demand: Demand) -> None:
        """The node is reserved for an ask of this demand. Gaps do not serve it any more."""
        demand.reserved[node] = None
        if demand.closed_in is self._closed:
            if self.freed_nodes.fit(demand):
                self.open(demand)
                return
            self._closed.remove(demand)
            demand.closed_in = self._closed_singly
            self._closed_singly.put(demand, (demand.number,))

    def ask_gone(self, ask: PendingAsk) -> None:
        """It is not asked any more, or not here. Its line finds out when it comes to the front; who asks for less has
        to be weighed."""
        line = self.lines.pop(ask, None)
        if line is not None:
            line.withdraw()
        self._claim_over(ask)
        if isinstance(line, Awaiting):
            line.gang.settle(line.group.name)
        elif isinstance(line, ApplicationAsks):
            line.ask_class.leaf.taken(line)

    def ask_moved(self, ask: PendingAsk, before: int) -> None:
        """More of it is pending, or other nodes are refused. `before`: so many were pending."""
        was, line = self.find_demand(ask), self.lines.get(ask)
        if line is not None:
            self._leave_line(ask, line)
            if isinstance(line, Awaiting):
                line.gang.settle(line.group.name)
            else:
                line.ask_class.leaf.taken(line)
        if before:
            self.leaf_of(ask).changed(before * self._weight(ask))
        self.ask_added(ask)
        for node_id in ask.reservations:
            node = self.partition.nodes[node_id]
            if was is not None:
                was.reserved.pop(node, None)
            self._keep(node, self.demand_of(ask))
            self.reservations.wake((node,))
        if was is not None and was is not self.find_demand(ask):
            self._forget_unused(was)

    def placed(self, fact: Allocated | PredicateAsked, ask: PendingAsk) -> None:
        """It was allocated, or the RM is asked whether it may be. Either way its room on the node is taken."""
        if fact.question and isinstance(fact, Allocated):
            self._confirmed(fact, ask)
            return
        application = ask.application
        line = self.lines[ask] if ask.free else self.lines.pop(ask)
        if type(line) is ApplicationAsks:
            ask_class = line.ask_class
            leaf = ask_class.leaf
            self.nodes.book(fact.node_id, ask_class.demand)
            if not ask.free:
                line.remove(ask)
                if leaf.fair or not ask_class.open or not line.best or line.withdrawn:
                    leaf.taken(line)
                elif leaf.only is None:  # the same, where another ask of the line follows
                    ask_class.touch()
                preemptors = self.preemptors
                if preemptors is not None and preemptors.held:
                    self._claim_over(ask)
            elif leaf.fair:
                leaf.taken(line)
            leaf.changed(ask_class.demand.weight)
        else:
            self._placed_aside(ask, line, self.partition.nodes[fact.node_id])
        if not ask.pending and ask.ask.priority > application.priority:
            self.priority_fell(ask)
        if ask.ask.placeholder:
            self.group_changed(application, application.task_groups[ask.ask.task_group])
        if application.application_limits:
            self.settle_slots(application)
        if self.preempting:
            self.settle_preemption(ask)
        if not application.asks:
            self.asks_less(application)

    def _placed_aside(self, ask: PendingAsk, line: ApplicationAsks | Awaiting, node: Node) -> None:
        """It waits for the place of a placeholder, and yet was allocated: a node was reserved for it before."""
        assert isinstance(line, Awaiting), "what is allocated was in a line"
        self.nodes.place(node)
        if not ask.free:
            line.remove(ask)
            self._claim_over(ask)
        line.gang.settle(line.group.name)
        line.gang.leaf.changed(self._weight(ask))

    def _confirmed(self, fact: Allocated, ask: PendingAsk) -> None:
        """The RM was asked, and agrees: its room was taken then."""
        application = ask.application
        if fact.placeholder:
            self.shares_changed(application)
            self.group_changed(application, application.task_groups[fact.task_group])
        self.settle_slots(application)
        self.settle_preemption(ask)
        self.asks_less(application)

    def _claim_over(self, ask: PendingAsk) -> None:
        if self.preemptors is not None and not ask.pending:
            self.preemptors.over()

    def may_preempt(self, ask: PendingAsk) -> None:
        """It may again."""
        if required_node(ask.ask.tags):
            for node_id in ask.reservations:
                self.bound.node_changed(self.partition.nodes[node_id])
        elif self.preemptors is not None:
            self.preemptors.add(ask)

    def settle_preemption(self, ask: PendingAsk) -> None:
        """A preemption for it has begun, or is over, or its place is kept, or not any more."""
        was_held, now = self.preempting.get(ask), ask.preemption
        if now is not None:
            self.preempting[ask] = now.held
        elif was_held is not None:
            del self.preempting[ask]
        if was_held and (now is None or not now.held):
            self._place_given_up(ask.application)
        if was_held is not None and now is None and ask.pending and not ask.preempted_at_ms:
            self.may_preempt(ask)

    def priority_rose(self, ask: PendingAsk) -> None:
        """The ask came: its application may have a higher priority by it."""
        application, priority = ask.application, ask.ask.priority
        if application.foremost == 1 and application.priority == priority and (priority or application.lower):
            self._leaf(application).application_changed(application)

    def priority_fell(self, ask: PendingAsk) -> None:
        """Nothing of the ask is pending any more: its application may have a lower priority without it."""
        if ask.ask.priority > ask.application.priority:
            self.leaf_of(ask).application_changed(ask.application)

    def state_changed(self, application: Application) -> None:
        if application.application_limits or self._slots:
            self.settle_slots(application)
        leaf = self.orders.get(application.queue)
        if isinstance(leaf, LeafOrder) and leaf.stateaware_turn is not None:
            leaf.stateaware_turn.state_changed(application)
            leaf.regroup(application)
            leaf.take_stateaware_turn(leaf.stateaware_turn)
        if self.preemptors is not None and not application.asks:
            self.preemptors.wake_application(application)

    def asks_less(self, application: Application) -> None:
        """One of its asks is over: others may have waited for the last one."""
        if application.asks:
            return
        leaf = self._leaf(application)
        if leaf.stateaware_turn is not None:
            leaf.stateaware_turn.stops(application)
            leaf.take_stateaware_turn(leaf.stateaware_turn)

    def _leaf(self, application: Application) -> LeafOrder:
        leaf = self.orders[application.queue]
        assert isinstance(leaf, LeafOrder), "applications are in leaf queues"
        return leaf

    def holds_back(self, application: Application) -> bool:
        """It is another's turn to start in its queue."""
        return self._leaf(application).holds_back(application)

    def reserved_node_changed(self, node: Node) -> None:
        """The ask it is reserved for may preempt there by now."""
        self.bound.node_changed(node)

    def note_slots(self, application: Application) -> None:
        """In which gates it counts as running now."""
        if application.runs and application.application_limits:
            self._slots[application] = application.application_limits
        else:
            self._slots.pop(application, None)

    def settle_slots(self, application: Application) -> None:
        """It may have begun to count as running, or that may be over."""
        slots = self._slots.get(application)
        if slots is None:
            if application.runs and application.application_limits:
                self.note_slots(application)
                self._began_running(application)
        elif not application.runs:
            del self._slots[application]
            self._leaf(application).regroup(application)
            self.freed(slots)

    def _began_running(self, application: Application) -> None:
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

    def wake_all_stalled(self) -> None:
        """The limits they wait at may be gone."""
        self._wake_stalled(list(self.stalled.all()))

    def freed(self, limits: Iterable[Queue | Tracker]) -> None:
        """They have room or a slot again: who waits there and may pass now is back."""
        for limit in limits:
            for ask_class in self.parked.at(limit):
                if ask_class.in_the_way() is not limit:
                    self.parked.leave(ask_class)
                    ask_class.reopen()
            self._wake_stalled(self.stalled.at(limit))
            if self.preemptors is not None:
                self.preemptors.wake(limit)

    def _place_given_up(self, application: Application) -> None:
        """No place is kept for one of its asks any more: others may take it."""
        if application.trackers:
            self.freed(application.trackers)
        self._leaf(application).released()

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
        self._leaf(application).released()

    def shares_changed(self, application: Application) -> None:
        """It uses more or less than before, and so does its queue."""
        leaf = self._leaf(application)
        leaf.changed()
        if leaf.fair:
            leaf.application_changed(application)

    def queue_added(self, queue: Queue) -> None:
        above = self.orders.get(queue.parent) if queue.parent is not None else None
        assert isinstance(above, ParentOrder), "queues stand below parents"
        self.place(queue, above)

    def queue_removed(self, queue: Queue) -> None:
        order = self.orders.pop(queue, None)
        if order is None or order.above is None:
            return
        order.above.ranking.leave(order)
        for above in map(self.orders.get, queue.path_to_root[1:]):
            if above is not None:
                above.parked.pop(order, None)

    def node_changed(self, node: Node) -> None:
        """Capacity, available or state changed: closed demands that fit it now open, and its own reservation may be
        fulfilled."""
        if self.blocked:
            self._unblock()
        group = self.nodes.place(node)
        if node.reservation is not None:
            self.reservations.node_changed(node)
        if group is None:
            if node.ready:
                self._wake_bound(node)
            return
        for demand in self._fitting(self._closed_singly, group.available):
            if node.id not in demand.refused:
                self.open(demand)
        many = self._worth_opening()
        fitting = self.closed_that_fit(group.available, many + 1)
        if len(fitting) > many:
            self.freed_nodes.add(node)
        else:
            for demand in fitting:
                self.open(demand)
        self._wake_bound(node)
        for demand in list(islice(self._unserved, RESERVATION_WAKES)):
            if covers(group.capacity, demand.need):
                self._start_reserving(demand)

    def _wake_bound(self, node: Node) -> None:
        """Asks that have to be on this node may be placed there now. Otherwise they may reserve it, also where it is
        kept for an ask that may run elsewhere."""
        bound = self._closed_bound.get(node.id)
        if not bound:
            return
        available = None if node.reservation is not None else self.nodes.vector(node.available())
        for demand in list(bound):
            if available is not None and covers(available, demand.need):
                self.open(demand)
            else:
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
                gangs.enter(waiting)

    def open(self, demand: Demand) -> None:
        self._forget_closed(demand)
        if not demand.live:
            self._live_ask_classes += demand.ask_classes
        demand.open = demand.live = True
        demand.reserving = False
        self._reopen_ask_classes(demand)
        if demand.reserved:
            self.reservations.demand_opened(demand)

    def _reopen_ask_classes(self, demand: Demand) -> None:
        ask_classes, demand.closed_ask_classes = demand.closed_ask_classes, {}
        for ask_class in ask_classes:
            ask_class.reopen()

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
        found = self.gangs.get(application)
        if found is None:
            found = self.gangs[application] = Gang(application, self._leaf(application))
        return found

    def left_queue(self, application: Application) -> None:
        """It has ended: it asks for nothing, and holds nothing."""
        self.gangs.pop(application, None)
        self._slots.pop(application, None)

    def group_changed(self, application: Application, group: TaskGroup) -> None:
        """Placeholders of a task group were asked for, allocated, taken or released. Its real asks wait for them if
        there are any, and otherwise are asks like all others."""
        waiting = self.gangs.get(application)
        waits = waiting is not None and group.name in waiting.waiting
        if waits != group.awaited:
            if group.awaited:
                moving = self._leave_ask_classes(application, group)
                self._gang(application).waiting[group.name] = {}
            else:
                moving = self._wait_no_longer(self._gang(application), group)
            for ask in moving:
                self.ask_added(ask)
            if not group.awaited:
                self._claim_again(application, group)
        if (waiting := self.gangs.get(application)) is not None:
            waiting.settle(group.name)

    def _claim_again(self, application: Application, group: TaskGroup) -> None:
        """Asks all of which have reservations stood in no line, and yet others may be preempted for them now."""
        for ask in application.asks.values() if self.preemptors is not None else ():
            if ask.ask.allow_preempt_other and ask.ask.task_group == group.name and ask.pending and not ask.free:
                self.may_preempt(ask)

    def _leave_ask_classes(self, application: Application, group: TaskGroup) -> list[PendingAsk]:
        by_line: dict[ApplicationAsks, list[PendingAsk]] = {}
        for ask in application.asks.values():
            line = self.lines.get(ask)
            if ask.ask.task_group == group.name and not ask.ask.placeholder and isinstance(line, ApplicationAsks):
                by_line.setdefault(line, []).append(ask)
        for line, asks in by_line.items():
            leaf, demand = line.ask_class.leaf, line.ask_class.demand
            line.leave({ask.ask.allocation_key for ask in asks})
            for ask in asks:
                del self.lines[ask]
            leaf.taken(line)
            leaf.changed(sum(ask.pending for ask in asks) * demand.weight)
        return [ask for asks in by_line.values() for ask in asks]

    def _wait_no_longer(self, waiting: Gang, group: TaskGroup) -> list[PendingAsk]:
        lines = waiting.waiting.pop(group.name)
        moving = [
            ask
            for line in lines.values()
            for _, asks in line.by_turn()
            for ask in asks
            if ask.free and self.lines.get(ask) is line
        ]
        for ask in moving:
            self.ask_gone(ask)
            waiting.leaf.changed(ask.pending * self._weight(ask))
        waiting.settle(group.name)
        return moving

    def replacement_started(self, ask: PendingAsk, group: TaskGroup) -> None:
        line = self.lines[ask]
        assert isinstance(line, Awaiting), "what takes a place waited for it"
        if not ask.free:
            self._leave_line(ask, line)
            self._claim_over(ask)
        line.gang.settle(group.name)
        line.gang.leaf.changed(self._weight(ask))

    # Demands

    def knows(self, resource: Resource) -> bool:
        """Whether all of a node's resources have a place here; if not, the index has to be built anew."""
        return self.names.keys() >= resource.keys()

    def _demand_for(self, ask: PendingAsk) -> Demand:
        resource, tags, refused = ask.ask.resource, ask.ask.tags, ask.refused
        node_id = required_node(tags) if tags else ""
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
            if len(demand.writings) < WRITINGS:
                demand.writings.append(as_written)
                self._by_writing[as_written] = demand
        return demand

    def ask_class_opened(self, ask_class: AskClass) -> None:
        demand = ask_class.demand
        demand.ask_classes += 1
        self._ask_classes += 1
        self.leaves[ask_class.leaf] = None
        if demand.live:
            self._live_ask_classes += 1
        self._least = demand.negated if self._least is None else tuple(map(max, self._least, demand.negated))

    def ask_class_gone(self, ask_class: AskClass) -> None:
        self.parked.leave(ask_class)
        if not ask_class.leaf.ask_classes:
            self.leaves.pop(ask_class.leaf, None)
        self._ask_classes -= 1
        if len(self._aging) > 2 * self._ask_classes + LEFTOVERS:
            self._forget_aging()
        demand = ask_class.demand
        demand.closed_ask_classes.pop(ask_class, None)
        demand.ask_classes -= 1
        demand.aged -= ask_class.aged
        if demand.live:
            self._live_ask_classes -= 1
        if not demand.aged:
            self.stop_reserving(demand)
        self._forget_unused(demand)

    def _forget_unused(self, demand: Demand) -> None:
        key = (demand.items, demand.required_node, demand.refused)
        if not demand.ask_classes and not demand.reserved and self._demands.get(key) is demand:
            self._forget_closed(demand)
            self.nodes.forget(demand)
            self.reservations.opened.pop(demand, None)
            self._postponed.pop(demand, None)
            del self._demands[key]
            for as_written in demand.writings:
                del self._by_writing[as_written]
            if not self._demands:
                self._least = None
