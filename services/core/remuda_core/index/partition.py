"""The scheduling index of a partition: which ask is next, and which node is best for it.

It is derived from the state and nothing else, and keeps its own entries of asks, nodes, queues and applications beside
it. This module holds these entries and answers the pass. `apply` changes them by facts; `build` makes an index from a
state; `check` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ..limits import RESOURCE_NAMES_PER_PARTITION
from ..rules.devices import is_place
from ..rules.required_node import required_node
from ..rules.resource import Resource
from ..rules.share import weight
from ..settings import APPLICATION, EASY, TOPOLOGY, Timing
from ..state import Application, Node, Partition, PendingAsk, Preemption, Queue, Tracker
from . import gangs
from .asks import ApplicationAsks, AskClass
from .backfill import Candidates, Windows
from .demands import DemandKey, Demands, FreedNodes, key_of
from .devices import items_of_ask, needed_amounts
from .gangs import AwaitingAsks, Gang
from .group_members import is_used
from .groups import Groups
from .lasting import Falls
from .leaves import LeafOrder
from .limits import BlockedBy, Limit
from .moments import Moments
from .node_groups import Demand
from .nodes import NodeIndex, Packing
from .ordered import Rank, Vector
from .packed_nodes import PackedNodes
from .patience import LateAsks
from .preemption import BoundPreemptors, Preemptors
from .priced_nodes import PricedNodes
from .queues import UNLIMITED, ParentOrder
from .reservations import Reservations, ReservedNodes, ReservingDemands
from .trees import PassBudget


class PartitionIndex:
    """The index of one partition. `build` makes one."""

    def __init__(self, partition: Partition, timing: Timing, names: Iterable[str], spare: int, now_ms: int) -> None:
        """Empty except for root: `build` adds nodes, queues and asks. `names`: every resource that a node has, in the
        order of the places of a vector. An ask for any other resource fits no node, and nothing of it is used. `spare`:
        how many places vectors have for names that are not known yet."""
        self.partition = partition
        # The settings that the index was built for. It is built anew when these change.
        self.timing, self.settings, self.raw_shares = timing, partition.settings, partition.yunikorn_1_4
        self.batch_predicates = partition.batch_predicates
        # The order of each queue, except of those below a leaf, which are draining.
        self.orders: dict[Queue, ParentOrder | LeafOrder] = {}
        # The line of each ask with free repeats; the demand of each ask with reservations.
        self.lines: dict[PendingAsk, ApplicationAsks | AwaitingAsks] = {}
        self.demand_of_reserved: dict[PendingAsk, Demand] = {}
        # The gang of each application whose real asks wait for placeholders.
        self.gangs: dict[Application, Gang] = {}
        # The limits in which an application counts as running.
        self.running_slots: dict[Application, tuple[Queue | Tracker, ...]] = {}
        # The asks for which preemption is under way, and whether their place under quotas is held.
        self.preempting: dict[PendingAsk, bool] = {}
        # The preemptions for groups, by each of their members.
        self.preempting_together: dict[PendingAsk, Preemption] = {}
        # The place of each resource in vectors.
        self.names = {name: place for place, name in enumerate(names)}
        self.budget = PassBudget()
        self.moments = Moments(self.budget, now_ms)
        self.late_asks = LateAsks(self)
        nodes = NodeIndex if partition.prices is None else PricedNodes
        if partition.settings.pack == TOPOLOGY:
            nodes = PackedNodes
        self.nodes = nodes(partition, self.names, self.budget, spare)
        if self.nodes.audiences:
            self.nodes.falls = Falls(partition.nodes, self.nodes.audiences, now_ms)
        self.packing = Packing(self.nodes, self.budget) if partition.settings.pack == APPLICATION else None
        self.nodes.packing = self.packing
        # How many places for new names the next index gets, if a name finds no place in this one.
        self.spare = spare
        self.demands = Demands(partition, self.nodes, self.names)
        # Groups of asks that want something of the topology.
        self.groups = Groups(self, partition.settings.topology) if is_used(partition) else None
        self.demands.groups = self.groups
        if self.groups is not None and isinstance(self.nodes, PackedNodes):
            self.nodes.standing = self.groups.domains.standing
        # The negated headroom where no maximum applies.
        self.no_limits: Vector = (-UNLIMITED,) * self.nodes.width
        # Ask classes and reserved nodes that are blocked by a limit.
        self.parked: BlockedBy[AskClass] = BlockedBy()
        self.stalled: BlockedBy[Node] = BlockedBy()
        self.freed_nodes = FreedNodes(self)
        self.reservations = Reservations(self)
        self.reserved_nodes = ReservedNodes(self)
        self.reserving = ReservingDemands(partition, self.nodes, self.demands)
        # The ask classes that may be placed on reserved nodes, in a partition with backfill.
        self.candidates = Candidates(self.nodes.width) if partition.settings.backfill == EASY else None
        self.windows = Windows(partition)
        # Whether groups or candidates follow each placement.
        self.is_special = self.groups is not None or self.candidates is not None
        # The total of the partition has changed since shares and weights were measured.
        self.shares_are_stale = False
        # Whether shares, ranks or groups may have to be settled before the next ask is searched.
        self.is_unsettled = True
        # Asks of applications, in the order in which to explain why they wait: those not explained for longest first.
        self.unexplained: dict[ApplicationAsks, None] = {}
        self.preemptors = Preemptors(self) if partition.settings.preemption_enabled else None
        self.bound = BoundPreemptors(self)
        # Ready gangs for which no node had a place, until a node changes.
        self.blocked_gangs: dict[Gang, None] = {}
        self.root = self.add_one_queue(partition.root, None)
        self.gangs_to_serve = self.root.gangs.members

    def add_queue(self, queue: Queue, above: ParentOrder | None) -> ParentOrder | LeafOrder:
        """Make the orders of the queue and of all queues below it, without asks."""
        order = self.add_one_queue(queue, above)
        if isinstance(order, ParentOrder):
            for child in queue.children.values():
                self.add_queue(child, order)
        return order

    def add_one_queue(self, queue: Queue, above: ParentOrder | None) -> ParentOrder | LeafOrder:
        order = self.orders[queue] = (LeafOrder if queue.leaf else ParentOrder)(queue, above, self)
        return order

    # Queries of a pass

    def begin_pass(self, now_ms: int, delay_ms: int, steps: int) -> None:
        """Begin a pass. `delay_ms`: the age at which an ask may reserve a node. `steps`: how much work the pass may do
        in the partition."""
        self.budget.begin_pass(steps)
        if self.nodes.falls is not None:
            for node in self.nodes.falls.pass_to(now_ms):
                self.node_shrunk(node)
        self.moments.begin_pass(now_ms)
        self.is_unsettled = True
        self.late_asks.begin_pass(now_ms)
        self.reservations.begin_pass()
        self.reserved_nodes.begin_pass()
        self.bound.begin_pass(now_ms)
        if self.preemptors is not None:
            self.preemptors.begin_pass()
        self.reserving.begin_pass(now_ms, delay_ms)
        if self.groups is not None:
            self.groups.domains.settle()  # a little each time: the first group to come must not pay for all nodes
        if not self.partition.questions_paused:
            for demand in list(self.demands.unasked):
                self.open(demand)

    def node_shrunk(self, node: Node) -> None:
        """Follow that fewer asks fit the node: it stays for less time."""
        self.nodes.place(node)
        self.freed_nodes.shrunk(node)
        if node.reservation is not None:
            self.reservations.node_changed(node)
            self.reserved_nodes.node_changed(node)

    @property
    def has_lasting(self) -> bool:
        """Whether the vectors fit the partition: they have the time of nodes for all asks for which nodes leave."""
        return self.nodes.audiences == self.partition.audiences

    def next_ask_class(self) -> AskClass | None:
        """The ask class whose first ask is next, of those that fit under every maximum and limit, and whose demand is
        schedulable or fits a freed node. None if there is none, or if the budget of the pass is spent. O(depth * log
        n), amortised."""
        if self.is_unsettled and not self._settle():
            return None
        if not self.demands.schedulable:
            return None
        found = self.root.first(None)
        if found is None and self.budget.left > 0:
            self.freed_nodes.open_all()  # what fits them is held back by maxima or limits
        return found

    def _settle(self) -> bool:
        """Settle groups, shares and ranks. False: no demand is schedulable, or the budget of the pass is spent."""
        if self.groups is not None:
            self.groups.settle()
        if not self.demands.schedulable:
            return False
        self.measure()
        if not self.moments.catch_up():
            return False
        self.is_unsettled = self.groups is not None
        return True

    def some_node_fits(self, demand: Demand) -> bool:
        """Whether the demand is open, or a freed node has room for it."""
        return demand.open or self.freed_nodes.any_fits(demand)

    def best_freed_node(self, demand: Demand) -> Node | None:
        """The best node for a closed demand; None: no node fits it. O(log n)."""
        if self.freed_nodes.any_fits(demand):
            return self.freed_nodes.only_node(demand) or self.nodes.best(demand)
        return None

    def node_for(self, ask: PendingAsk, demand: Demand) -> Node | None:
        """The best node for an ask with this demand, which is in no group; None: no node fits it. O(log n)."""
        if not self.some_node_fits(demand):
            return None
        node = self.packing.best(ask.application, demand) if self.packing is not None else None
        if node is None:
            node = self.nodes.best(demand) if demand.open else self.best_freed_node(demand)
        return node

    def next_gang(self) -> Gang | None:
        """The ready gang that is next, in the order of queues and applications."""
        self.measure()
        return gangs.first(self.root) if self.moments.catch_up() else None

    def block(self, gang: Gang) -> None:
        """Set the gang aside until a node changes: no ask of it finds a place."""
        self.blocked_gangs[gang] = None
        gangs.leave(gang)

    def best_node(self, ask: PendingAsk) -> Node | None:
        """The best node for an ask that is in no ask class. O(log n)."""
        items = items_of_ask(self.partition, ask)
        amounts = needed_amounts(self.names, items)
        if any(name not in self.names for name in amounts):
            return None
        need = self.nodes.vector(amounts)
        demand = Demand(ask.ask.resource, items, required_node(ask.ask.tags), ask.refused, need, 0, 0)
        if self.groups is not None and self.groups.wants(ask):
            return self.groups.best_for(ask, demand)
        return self.nodes.best(demand)

    def next_to_explain(self, most: int) -> list[ApplicationAsks]:
        """The next asks of applications to explain, at most `most`. They move to the end of the order."""
        lines = list(islice(self.unexplained, most))
        for line in lines:
            del self.unexplained[line]
            self.unexplained[line] = None
        return lines

    # Entries

    def order_of(self, queue: Queue) -> ParentOrder | LeafOrder | None:
        """The order of the queue. None if it is below a leaf: then it is draining and has no part in scheduling."""
        return self.orders.get(queue)

    def leaf_of(self, application: Application) -> LeafOrder:
        """The order of the leaf queue of the application."""
        leaf = self.orders[application.queue]
        assert isinstance(leaf, LeafOrder), "applications are in leaf queues"
        return leaf

    def gang_of(self, ask: PendingAsk) -> Gang | None:
        """The gang in which the ask waits for a placeholder; None if it does not."""
        gang = self.gangs.get(ask.application)
        return gang if gang is not None and gang.waits(ask) else None

    def awaits_place(self, ask: PendingAsk) -> bool:
        """Whether the ask waits for a placeholder. Such an ask does not preempt."""
        return bool(self.gangs) and self.gang_of(ask) is not None

    def holds_back(self, application: Application) -> bool:
        """Whether the queue of the application is held, or it is another application's turn to start there."""
        return self.leaf_of(application).holds_back(application)

    def demand_of(self, ask: PendingAsk) -> Demand:
        """The demand of an ask that has free repeats or reservations, and does not wait for a placeholder."""
        demand = self.find_demand(ask)
        assert demand is not None, "the index knows every pending ask"
        return demand

    def find_demand(self, ask: PendingAsk) -> Demand | None:
        """The demand of the ask. None if it has neither free repeats nor reservations, or if it waits for a
        placeholder."""
        line = self.lines.get(ask)
        return line.ask_class.demand if type(line) is ApplicationAsks else self.demand_of_reserved.get(ask)

    # Ranks and shares

    def ask_rank(self, ask: PendingAsk) -> Rank:
        """The rank of the ask among all asks: the ranks of its queues from root down, then of its application, then its
        own. O(depth)."""
        application = ask.application
        orders = map(self.orders.get, reversed(application.queue.path_to_root))
        queues = [order.rank() for order in orders if order is not None]
        return (*queues, self.leaf_of(application).application_rank(application), -ask.ask.priority, ask.seq)

    @property
    def scales(self) -> dict[str, int]:
        """The scales by which amounts of different resources are compared. They follow from the partition's total."""
        return self.demands.scales

    def weight_of(self, ask: PendingAsk) -> int:
        """The weight of one repeat of the ask."""
        return weight(ask.ask.resource, self.scales)

    def total_changed(self) -> None:
        """Note that nodes were added, removed or resized, so every share changes. Shares are measured again before the
        next ask is searched."""
        self.shares_are_stale = self.is_unsettled = True
        self.reserving.total_gained_room()

    def measure(self) -> None:
        """Measure all shares and weights again, if the partition's total has changed. O(queues + demands)."""
        if self.shares_are_stale:
            self.shares_are_stale = False
            self.demands.measure(self.partition.total)
            self.root.total_changed()

    def knows(self, resource: Resource) -> bool:
        """Whether all of a node's resources have a place in vectors."""
        return self.names.keys() >= resource.keys()

    def learn(self, *resources: Resource) -> bool:
        """Give the names of a node's resources the places that are spare, without looking at any node. False: the index
        has to be built anew, because there are too few, or because asks or maxima have waited for one of the names."""
        new = sorted({name for resource in resources for name in resource if name not in self.names})
        if any(map(is_place, new)) or (new and self.partition.prices is not None):  # others know the places, too
            return False
        if len(new) <= len(self.nodes.spare) and not self._are_wanted(set(new)):
            for name in new:
                self.names[name] = len(self.names)
            self.nodes.spare = self.nodes.spare[len(new) :]
            return True
        # Twice as many each time: an RM that adds one name after the other has few indexes built.
        self.spare = min(2 * self.spare + len(new), RESOURCE_NAMES_PER_PARTITION)
        return False

    def _are_wanted(self, names: set[str]) -> bool:
        impossible = (demand for demand in self.demands.by_key.values() if not demand.possible)
        return any(name in names for demand in impossible for name, _ in demand.items) or any(
            not names.isdisjoint(queue.settings.max) for queue in self.orders
        )

    # Demands and ask classes

    def close(self, demand: Demand) -> None:
        """Close the demand: no node fits it now. Its asks may still reserve nodes, except members of groups: a group
        waits for a domain, and nodes that it kept would be missing elsewhere."""
        self.demands.close(demand)
        if demand.aged and demand.group_of_asks is None:
            self.reserving.start_reserving(demand)

    def open(self, demand: Demand) -> None:
        """Open the demand: some node may fit it."""
        self.reserving.wait_no_more(demand)
        self.demands.open(demand)
        if demand.reserved:
            self.reservations.demand_opened(demand)

    def quota_changed(self, demand: Demand, application: Application) -> None:
        """Look again at the asks of a group of which more or fewer start together."""
        self.demands.risen += 1
        leaf = self.leaf_of(application)
        line = leaf.lines.get(application, {}).get(demand)
        if line is None:
            return
        ask_class = line.ask_class
        if ask_class in self.parked and ask_class.in_the_way() is None:
            self.parked.unblock(ask_class)
            ask_class.show()
        leaf.found = None
        leaf.enter(0, ask_class.bits)

    def keep_for(self, demand: Demand, node: Node) -> None:
        """Note that the node is reserved for an ask of this demand, which from now on opens whenever a node fits."""
        demand.reserved[node] = None
        if demand.closed_list is self.demands.closed:
            if self.freed_nodes.any_fits(demand):
                self.open(demand)
            else:
                self.demands.open_singly(demand)

    def first_bound_ask_gone(self, ask: PendingAsk) -> None:
        """Let another ask that is bound to the same node try to reserve it, after the first such ask is gone."""
        bound_to = required_node(ask.ask.tags)
        like = self.demands.by_key.get(self._key_of(ask, bound_to)) if bound_to else None
        if like is not None:
            self.reserving.reserve_again(like)

    def _key_of(self, ask: PendingAsk, bound_to: str) -> DemandKey:
        return (items_of_ask(self.partition, ask), bound_to, ask.refused, *self.demands.lasts(ask))

    def reserved_node_changed(self, node: Node) -> None:
        """Let the ask that the node is reserved for look whether it can preempt there now."""
        self.bound.node_changed(node)

    def ask_class_opened(self, ask_class: AskClass) -> None:
        """Note an ask class that a leaf has made."""
        ask_class.demand.ask_classes += 1
        self.reserved_nodes.claimants[ask_class] = None
        if self.candidates is not None:
            self.candidates.add_class(ask_class)

    def ask_class_gone(self, ask_class: AskClass) -> None:
        """Forget an ask class that has no asks any more."""
        demand = ask_class.demand
        demand.ask_classes -= 1
        self.reserved_nodes.forget(ask_class)
        if self.candidates is not None:
            self.candidates.remove_class(ask_class)
        self.parked.unblock(ask_class)
        demand.set_aside.pop(ask_class, None)
        demand.aged -= ask_class.aged
        self.reserving.age_no_more(ask_class)
        if not demand.aged:
            self.demands.end_reserving(demand)
        self.forget_if_unused(demand)

    def forget_if_unused(self, demand: Demand) -> None:
        """Remove the demand, unless an ask class or a reservation has it."""
        if not demand.ask_classes and not demand.reserved and self.demands.by_key.get(key_of(demand)) is demand:
            self.demands.remove(demand)
            self.reserving.remove(demand)
            self.reservations.opened.pop(demand, None)

    def park(self, ask_class: AskClass, limit: Limit) -> None:
        """Hide the ask class until the limit has room or a slot for it."""
        ask_class.hide()
        self.parked.block(ask_class, limit)
