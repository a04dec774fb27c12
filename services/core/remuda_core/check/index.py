"""The scheduling index of a partition, compared with what follows from its state.

The checks are slow and plain on purpose: they compute the required content of the index by another way than the index.
Reading the index settles work that it has put off, which changes no answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from ..index.asks import Admission, AskClass, PriorityFifo
from ..index.demands import FREED, RESERVING
from ..index.devices import items_of_ask, needed_amounts
from ..index.leaves import LeafOrder
from ..index.limits import NOTHING_HELD, Limit, exceeds, limit_of, limits_of, wanted_of
from ..index.node_groups import Demand, Lasts
from ..index.ordered import LazyRanking, Vector, covers
from ..index.partition import PartitionIndex
from ..index.preemption import can_preempt
from ..index.priced_nodes import ALL, SEVERAL, PricedNodes
from ..index.queues import ParentOrder
from ..index.reservations import ReservedNodes
from ..index.users import UserRanking
from ..rules import lifecycle
from ..rules.prices import CPU
from ..rules.properties import is_state_aware
from ..rules.required_node import required_node
from ..rules.resource import Items, items_of, total_of
from ..rules.share import weight
from ..state import Application, Budget, Node, Partition, PendingAsk, Queue, Refusals
from .backfill import check_candidates, check_windows, lasts_of
from .devices import available_with_devices, obtainable_with_devices
from .topology import Membership, check_closed, check_topology, is_avoided, membership


def check_index(partition: Partition, index: PartitionIndex, now_ms: int) -> None:
    """Raises AssertionError with the difference."""
    assert index.partition is partition, f"{partition.name}: the index is another partition's"
    check_nodes(partition, index)
    leaves = dict(checked_leaves(partition.root, index))
    for queue, leaf in leaves.items():
        check_leaf(queue, leaf, index)
        check_gangs(queue, leaf, index)
        check_serving(leaf)
    ask_classes = [ask_class for leaf in leaves.values() for ask_class in leaf.ask_classes.values()]
    check_demands(partition, index, ask_classes)
    check_preemptors(partition, index)
    check_entries(partition, index)
    check_packing(partition, index)
    check_topology(partition, index)
    check_reserved_nodes(partition, index)
    check_candidates(partition, index, ask_classes)
    check_windows(partition, index, now_ms)
    assert index.parked.limits().keys() <= set(ask_classes), f"{partition.name}: ask classes are parked that are gone"
    index.moments.begin_pass(now_ms)  # accounts may have been settled since the last pass
    index.moments.catch_up(at_any_cost=True)
    if not index.shares_are_stale:
        for queue, leaf in leaves.items():
            check_leaf_ranks(queue, leaf)
            check_ranking(leaf.gangs, f"gangs of queue {queue.path}")
        for queue in parents_below(partition.root):
            order = index.orders[queue]
            assert isinstance(order, ParentOrder)
            check_members(queue, order)
            check_ranking(order.ranking, f"queue {queue.path}")
            check_ranking(order.gangs, f"gangs below queue {queue.path}")
            check_serving(order)
    for queue, leaf in leaves.items():
        check_wake_ups(queue, leaf, index)


def checked_leaves(queue: Queue, index: PartitionIndex) -> Iterator[tuple[Queue, LeafOrder]]:
    """Check the orders of queues; yield the leaves. Queues below a leaf are draining and are not scheduled."""
    order = index.order_of(queue)
    assert order is not None and order.index is index and order.queue is queue, (
        f"queue {queue.path} has no place in the index"
    )
    if queue.leaf:
        assert isinstance(order, LeafOrder), f"queue {queue.path} is a leaf, the index has it as a parent"
        _check_settings(order, LeafOrder(queue, order.above, index), index)
        yield queue, order
        return
    assert isinstance(order, ParentOrder), f"queue {queue.path} is a parent, the index has it as a leaf"
    _check_settings(order, ParentOrder(queue, order.above, index), index)
    for child in queue.children.values():
        below = index.order_of(child)
        assert below is not None and below.above is order, f"queue {child.path} is not below {queue.path} in the index"
        yield from checked_leaves(child, index)


def _check_settings(order: LeafOrder | ParentOrder, anew: LeafOrder | ParentOrder, index: PartitionIndex) -> None:
    """The order has the settings that a new one would read from its queue."""
    names = ["by_parents_priority", "by_priority", "limited", "maxima"]
    names += [] if index.shares_are_stale else ["due", "fair_due"]
    names += ["moment"]
    names += ["fair", "by_user", "user_weights", "held"] if isinstance(order, LeafOrder) else []
    for name in names:
        kept, read = getattr(order, name), getattr(anew, name)
        assert kept == read, f"queue {order.queue.path}: {name} is {kept}, its settings say {read}"
    if isinstance(order, LeafOrder) and isinstance(anew, LeafOrder):
        assert (order.stateaware_turn is None) == (anew.stateaware_turn is None), (
            f"queue {order.queue.path}: takes turns or not"
        )


def parents_below(queue: Queue) -> Iterator[Queue]:
    if not queue.leaf:
        yield queue
        for child in queue.children.values():
            yield from parents_below(child)


# Entries


def _check_prices(partition: Partition, index: PartitionIndex, node: Node) -> None:
    """The node is listed at each level that one of its devices has, with what is available there."""
    nodes, prices = index.nodes, partition.prices
    assert isinstance(nodes, PricedNodes) == (prices is not None), (
        f"{partition.name}: prices are not those of the index"
    )
    if prices is None or not isinstance(nodes, PricedNodes):
        return
    available = nodes.timed(node, nodes.vector(available_with_devices(node)))
    free = node.devices[prices.resource].offered()
    slack = prices.worth(node.available().get(CPU, 0)) - sum(prices.fill[amount] for amount in free)
    found, expected = nodes.trees.listed(nodes._entries[node.id]), nodes.trees.expected(available)
    assert found == expected, f"node {node.id}: listed with {found}, expected {expected}"
    assert found.keys() - {SEVERAL} == {ALL, *free} - {0}, f"node {node.id}: listed at {[*found]}, free are {free}"
    assert {room[-1] for room in found.values()} == {slack}, f"node {node.id}: slack is not {slack}"


def check_entries(partition: Partition, index: PartitionIndex) -> None:
    """The entries of asks and applications agree with the state."""
    alive = [application for queue in partition.queues.values() for application in queue.applications.values()]
    asks = {ask for application in alive for ask in application.asks.values()}
    assert index.lines.keys() == {ask for ask in asks if ask.free}, f"{partition.name}: lines of asks that are gone"
    reserving = {ask for ask in asks if ask.reservations}
    assert index.demand_of_reserved.keys() == reserving, f"{partition.name}: other asks have reservations"
    held = {preemption.pending: preemption.held for preemption in partition.preemptions.values()}
    assert index.preempting == held, f"{partition.name}: other preemptions are under way"
    slots = {
        application: application.application_limits
        for application in alive
        if application.counts_as_running and application.application_limits
    }
    assert index.running_slots == slots, f"{partition.name}: other applications run where that is limited"
    assert index.gangs.keys() <= set(alive), f"{partition.name}: gangs of applications that are gone"
    entries = {node_id: entry.node for node_id, entry in index.nodes._entries.items()}
    assert entries == partition.nodes, f"{partition.name}: entries of nodes that are gone"


def check_nodes(partition: Partition, index: PartitionIndex) -> None:
    expected: defaultdict[tuple[Vector, Vector, Vector, bool], set[str]] = defaultdict(set)
    for node in partition.nodes.values():
        assert index.knows(node.capacity), f"node {node.id}: a resource has no place in the index"
        if node.candidate:
            amounts = (node.capacity, obtainable_with_devices(node), available_with_devices(node))
            capacity, obtainable, available = (index.nodes.timed(node, index.nodes.vector(one)) for one in amounts)
            expected[capacity, obtainable, available, is_avoided(partition, node)].add(node.id)
        else:
            assert index.nodes.group_of(node) is None, f"node {node.id} takes nothing new and is in a group"
    found = index.nodes.groups()
    assert found == expected, f"{partition.name}: node groups {found}, expected {dict(expected)}"
    for key, ids in expected.items():
        first = min(ids)
        group = index.nodes.group_of(partition.nodes[first])
        assert group is not None and group.size == len(ids), f"group of {first}: size is not {len(ids)}"
        found_key = (group.capacity, group.obtainable, group.available, group.avoided)
        assert found_key == key, f"group of {first}: it is another's"
        _check_prices(partition, index, partition.nodes[first])
        assert group.first().id == first, f"group of {first}: its first node is {group.first().id}"


# Asks of leaf queues


# (resource, required node, refused nodes, admission, group, run times): asks with equal values belong to one ask class.
Want = tuple[Items, str, Refusals, Admission, Membership, Lasts]


def check_leaf(queue: Queue, leaf: LeafOrder, index: PartitionIndex) -> None:
    expected: defaultdict[Want, defaultdict[str, list[PendingAsk]]] = defaultdict(lambda: defaultdict(list))
    for application in queue.applications.values():
        admission = _admission(queue, application)
        for ask in sorted(application.asks.values(), key=lambda a: (-a.ask.priority, a.seq)):
            if waits_for_place(ask):
                continue
            if ask.free:
                bound_to, group = required_node(dict(ask.ask.tags)), membership(ask)
                lasts = lasts_of(index.partition, ask)
                mine = (*admission[:4], application) if queue.budgets and ask.ask.placeholder else admission
                want = (items_of_ask(index.partition, ask), bound_to, ask.refused, mine, group, lasts)
                expected[want][application.id].append(ask)
            else:
                assert ask not in index.lines, f"{application.id}/{ask.ask.allocation_key}: is in a line, none is free"
    found = {
        (demand.items, demand.required_node, demand.refused, admission, _membership(demand), demand.lasts): _lines(
            ask_class, index
        )
        for (demand, admission), ask_class in leaf.ask_classes.items()
    }
    where = f"queue {queue.path}"
    assert found.keys() == expected.keys(), f"{where}: ask classes for {list(found)}, pending are {list(expected)}"
    for want, lines in expected.items():
        assert found[want] == lines, f"{where}: lines for {want} are {_keys(found[want])}, pending are {_keys(lines)}"
    registered = {line for lines in leaf.lines.values() for line in lines.values()}
    in_ask_classes = {line for ask_class in leaf.ask_classes.values() for line in ask_class.ranking.members}
    assert registered == in_ask_classes, f"{where}: lines by application are not the lines by ask class"
    only = next(iter(leaf.ask_classes.values())) if len(leaf.ask_classes) == 1 else None
    assert leaf.only is only, f"{where}: the only ask class is not what it takes for it"
    for (demand, admission), ask_class in leaf.ask_classes.items():
        assert (
            ask_class.demand is demand
            and ask_class.leaf is leaf
            and ask_class.ranking.members
            and ask_class.admission is admission
        ), f"{where}: the ask class for {demand.items} stands in a wrong place"


def _membership(demand: Demand) -> Membership:
    return (*demand.group_of_asks.key, demand.wish) if demand.group_of_asks is not None else ()


def _admission(queue: Queue, application: Application) -> Admission:
    application_limits = () if application.counts_as_running else application.application_limits
    return (
        _held_back(queue, application),
        application_limits,
        tuple(t for t in application.trackers if t.limit.max_resources),
        queue.budgets,
        None,
    )


def _held_back(queue: Queue, application: Application) -> bool:
    if any(above.hold is not None for above in queue.path_to_root):
        return True
    if not is_state_aware(queue.settings.properties) or application.state != lifecycle.ACCEPTED:
        return False
    others = queue.applications.values()
    accepted = [other for other in others if other.state == lifecycle.ACCEPTED and other.asks]
    starting = any(other.state == lifecycle.STARTING for other in others)
    return starting or application is not min(accepted, key=lambda a: a.seq, default=None)


def _lines(ask_class: AskClass, index: PartitionIndex) -> dict[str, list[PendingAsk]]:
    return {line.application.id: list(asks_of(line, index)) for line in ask_class.ranking.members}


def asks_of(line: PriorityFifo, index: PartitionIndex) -> Iterator[PendingAsk]:
    """The asks of a class in the order in which they are scheduled."""
    seen: set[int] = set()
    head = line.first_ask()
    over = sum(1 for _, asks in line.by_priority() for ask in asks if not ask.free)
    assert line.withdrawn == over, f"a line knows of {line.withdrawn} asks that were withdrawn, counted anew {over}"
    for priority, asks in line.by_priority():
        for ask in asks:
            assert not ask.free or index.lines.get(ask) is line, (
                f"{ask.ask.allocation_key} stands in a line it has left"
            )
            if ask.free and index.lines.get(ask) is line and ask.ask.priority == priority and ask.seq not in seen:
                seen.add(ask.seq)
                assert len(seen) > 1 or ask is head, (
                    f"line of {ask.application.id}: {ask.ask.allocation_key} is first, it gives out another"
                )
                yield ask


def _keys(lines: dict[str, list[PendingAsk]]) -> dict[str, list[str]]:
    return {app_id: [ask.ask.allocation_key for ask in asks] for app_id, asks in lines.items()}


def waits_for_place(pending: PendingAsk) -> bool:
    """The ask may only replace a placeholder."""
    ask = pending.ask
    group = pending.application.task_groups.get(ask.task_group)
    return bool(pending.free and ask.task_group) and not ask.placeholder and group is not None and group.awaited


# Gangs


# (task group, (resource, required node, refused nodes)).
Place = tuple[str, tuple[Items, str, Refusals]]


def check_gangs(queue: Queue, leaf: LeafOrder, index: PartitionIndex) -> None:
    for application in queue.applications.values():
        what, gang = f"application {application.id}", index.gangs.get(application)
        expected: defaultdict[Place, list[PendingAsk]] = defaultdict(list)
        for ask in sorted(application.asks.values(), key=lambda a: (-a.ask.priority, a.seq)):
            if waits_for_place(ask):
                want = (items_of_ask(index.partition, ask), required_node(ask.ask.tags), ask.refused)
                expected[ask.ask.task_group, want].append(ask)
        awaited = {group.name for group in application.task_groups.values() if group.awaited}
        if gang is None:
            assert not awaited, f"{what}: nothing waits for {awaited}"
            continue
        assert gang.waiting.keys() == awaited, f"{what}: waits for {set(gang.waiting)}, there is {awaited}"
        lines = {(name, want): line for name, lines in gang.waiting.items() for want, line in lines.items()}
        found = {where: list(asks_of(line, index)) for where, line in lines.items()}
        assert found == expected, f"{what}: {_waiting(found)} wait for places, expected {_waiting(expected)}"
        ready = {name for name, _ in expected if application.task_groups[name].free}
        assert set(gang.ready) == ready, f"{what}: ready are {set(gang.ready)}, counted anew {ready}"
        serving = gang in leaf.gangs.members
        serves = bool(ready) and gang not in index.blocked_gangs and not leaf.held
        assert serving == serves, f"{what}: takes part is {serving}"
    there = {index.gangs.get(application) for application in queue.applications.values()}
    gone = [gang for gang in leaf.gangs.members if gang not in there]
    assert not gone, f"queue {queue.path}: {gone} take part and are not there"


def _waiting(lines: Mapping[Place, list[PendingAsk]]) -> dict[Place, list[str]]:
    return {where: [ask.ask.allocation_key for ask in asks] for where, asks in lines.items()}


def check_serving(order: LeafOrder | ParentOrder) -> None:
    """A queue is in its parent's ranking of gangs exactly while it has gangs to serve."""
    serves = order.serving is not None
    assert serves == bool(order.gangs.members) or order.above is None, f"queue {order.queue.path}: serves is {serves}"
    if order.serving is not None and order.above is not None:
        assert order.serving in order.above.gangs.members, f"queue {order.queue.path}: has gangs and takes no part"


# Demands


def check_demands(partition: Partition, index: PartitionIndex, ask_classes: list[AskClass]) -> None:
    by_demand: defaultdict[Demand, list[AskClass]] = defaultdict(list)
    for ask_class in ask_classes:
        by_demand[ask_class.demand].append(ask_class)
    known = set(index.demands.by_key.values())
    kept: defaultdict[Demand, set[Node]] = defaultdict(set)
    for node in partition.nodes.values():
        if node.reservation is not None:
            kept[index.demand_of(node.reservation)].add(node)
    assert known == by_demand.keys() | kept.keys(), (
        f"demands {[d.items for d in known]}, asked for are {[d.items for d in by_demand]}"
    )
    for demand in known:
        its_ask_classes = by_demand.get(demand, [])
        what = f"demand {demand.items} {demand.required_node} {sorted(demand.refused) or ''}".rstrip()
        assert demand.ask_classes == len(its_ask_classes), (
            f"{what}: {demand.ask_classes} ask classes, counted anew {len(its_ask_classes)}"
        )
        amounts = needed_amounts(index.names, demand.items)
        assert demand.need == index.nodes.vector(amounts), f"{what}: its vector is {demand.need}"
        known_names = all(name in index.names for name in amounts)
        assert demand.possible == known_names, f"{what}: possible is {demand.possible}"
        listed = demand.rank is not None or demand in index.demands.closed_bound.get(demand.required_node, ())
        if demand.group_of_asks is not None:
            listed = index.groups is not None and demand in index.groups.waits_for
        assert listed == (demand.possible and not demand.open), f"{what}: open is {demand.open}"
        assert demand.schedulable == (demand.open or demand.reserving), f"{what}: schedulable is {demand.schedulable}"
        assert not (demand.open and demand.reserving), f"{what}: open, and reserving"
        aged = sum(ask_class.aged for ask_class in its_ask_classes)
        assert demand.aged == aged, f"{what}: {demand.aged} ask classes have waited long enough, counted anew {aged}"
        assert demand.reserved.keys() == kept.get(demand, set()), f"{what}: reserved are others than it knows"
        for node in demand.reserved:
            check_reservation(node, demand, index)
        assert not demand.reserved or demand.closed_list is not index.demands.closed, f"{what}: a gap would not wake it"
        for ask_class in its_ask_classes:
            _check_ask_class(ask_class, index)
        if demand.group_of_asks is not None and demand.possible and not demand.open:
            check_closed(demand, index)
        elif not demand.open and demand.possible:
            room = [
                node.id
                for node in partition.nodes.values()
                if _has_room(node, demand, index)
                and not (node in index.freed_nodes.nodes and demand.closed_list is index.demands.closed)
            ]
            assert not room, f"{what}: closed, but it fits {room}"
        _check_bits(demand, index, what)
    _check_sets(known, index)
    lost = index.nodes.lost()
    assert not lost, f"accepted nodes that are not found: {lost}"


def _check_bits(demand: Demand, index: PartitionIndex, what: str) -> None:
    demands = index.demands
    assert demand.bit & demands.bits.covered(demand.need), f"{what}: its bit is not set where it fits"
    for node, bits in index.freed_nodes.nodes.items():
        group = index.nodes.group_of(node)
        if group is not None and demand.closed_list is demands.closed and covers(group.available, demand.need):
            assert bits & demand.bit, f"{what}: fits {node.id}, which was freed, and its bit is not set"


def _check_sets(known: set[Demand], index: PartitionIndex) -> None:
    expected = 0
    for demand in known:
        expected |= demand.bit * demand.open | (demand.bit << RESERVING) * demand.reserving
    for bits in index.freed_nodes.nodes.values():
        expected |= bits << FREED
    found = index.demands.schedulable
    assert found == expected, f"schedulable demands are {found:b}, counted anew {expected:b}"


def check_preemptors(partition: Partition, index: PartitionIndex) -> None:
    """Every ask that may preempt has a turn, now or later."""
    if index.preemptors is None:
        return
    known = index.preemptors.known_seqs()
    for application in partition.applications.values():
        for key, ask in application.asks.items():
            willing = ask.ask.allow_preempt_other and not required_node(ask.ask.tags)
            idle = ask.pending and ask.preemption is None and not index.awaits_place(ask)
            may = idle and willing and can_preempt(ask)
            assert not may or ask.seq in known, f"{application.id}/{key}: will never preempt others"


def _check_ask_class(ask_class: AskClass, index: PartitionIndex) -> None:
    """An ask class that is hidden waits for something that indeed blocks it; others are found by their bits."""
    demand = ask_class.demand
    what = f"demand {demand.items}: the ask class in {ask_class.leaf.queue.path}"
    parked, held_back = ask_class in index.parked, ask_class.admission[0]
    assert ask_class.hidden == (parked or held_back), f"{what} is hidden: {ask_class.hidden}"
    assert not parked or ask_class.in_the_way() is not None, f"{what} is parked although nothing is in the way"
    considered = ask_class in demand.set_aside
    assert considered == (ask_class.aside or ask_class.passed_over), f"{what} would never be looked at again"
    assert not (demand.open and considered), f"{what} was passed over, and its demand is open"
    reserving = demand.bit << RESERVING if ask_class.aged and not ask_class.aside else 0
    always = demand.bit << FREED if ask_class.passed_over else demand.bit | demand.bit << FREED
    expected = 0 if ask_class.hidden else always | reserving
    assert ask_class.bits == expected, f"{what} has the bits {ask_class.bits:b}, expected {expected:b}"


def _has_room(node: Node, demand: Demand, index: PartitionIndex) -> bool:
    wanted = node.reservation is None and node.kept is None
    wanted = wanted and node.takes(demand.required_node) and node.id not in demand.refused
    found = demand.predicate_class
    if found is not None and (found.question or demand in index.demands.unasked) and node.id not in found.accepted:
        return False  # before the RM has answered
    return (
        wanted
        and not node.full
        and covers(index.nodes.timed(node, index.nodes.vector(available_with_devices(node))), demand.need)
    )


# Reservations


def _check_bound(ask: PendingAsk, node: Node, fits: bool, stalled: bool, index: PartitionIndex) -> None:
    """An ask whose required node is reserved for it may preempt there, or is checked again when it may."""
    if fits or node.full or not node.ready or node.id in ask.refused or not ask.pending or ask.preemption is not None:
        return
    known = stalled or node in index.bound.changed or ask in index.bound.retries
    assert known, f"{ask.application.id}/{ask.ask.allocation_key}: will never preempt others on {node.id}"


def check_reservation(node: Node, demand: Demand, index: PartitionIndex) -> None:
    """A reserved node that fits is checked in the next pass, or when a full limit or maximum has room."""
    ask = node.reservation
    assert ask is not None, f"node {node.id} is not reserved"
    full = [
        queue
        for queue in ask.application.queue.path_to_root
        if exceeds(demand.resource, queue.settings.max, queue.allocated, NOTHING_HELD if ask.has_place else queue.held)
    ]
    stalled = any(order is not None and node in order.stalled for order in map(index.order_of, full))
    stalled |= node in index.stalled and limit_of(ask) is not None
    fits = (
        node.takes(demand.required_node)
        and not node.full
        and node.id not in demand.refused
        and covers(index.nodes.timed(node, index.nodes.vector(available_with_devices(node))), demand.need)
    )
    if demand.required_node == node.id:
        _check_bound(ask, node, fits, stalled, index)
    assert not fits or stalled or node in index.reservations.changed, f"node {node.id}: its reservation is forgotten"
    assert not demand.open or demand in index.reservations.opened or stalled, (
        f"demand {demand.items}: open, and its reservation of {node.id} is forgotten"
    )


# Reserved nodes and their bounds


def check_reserved_nodes(partition: Partition, index: PartitionIndex) -> None:
    kept, nodes = index.reserved_nodes, [node for node in partition.nodes.values() if node.reservation is not None]
    assert kept.of.keys() == set(nodes), f"{partition.name}: other nodes are reserved"
    for node in nodes:
        _check_node(node, index)
    limits = {limit for node in nodes for limit in limits_of(_ask(node).application)}
    assert kept.under.keys() == limits, f"{partition.name}: nodes are reserved under other limits"
    for limit in limits:
        _check_limit(limit, [node for node in nodes if limit in limits_of(_ask(node).application)], kept)
    _check_shares(partition, nodes, kept)
    classes = {one for order in index.orders.values() for one in getattr(order, "ask_classes", {}).values()}
    assert kept.claimants.keys() == classes, f"{partition.name}: ask classes that may never take a node"
    waiting = {one: what for what, some in kept.waiting.items() for one in some}
    assert waiting == {one: one.waits_for for one in classes if one.waits_for is not None}, (
        f"{partition.name}: ask classes wait for other limits"
    )


def _ask(node: Node) -> PendingAsk:
    assert node.reservation is not None, f"node {node.id} is not reserved"
    return node.reservation


def _preempts(node: Node) -> bool:
    preemption = _ask(node).preemption
    return preemption is not None and preemption.node is node


def _check_node(node: Node, index: PartitionIndex) -> None:
    ask, kept, vector = _ask(node), index.reserved_nodes.of[node], index.nodes.vector
    bound = required_node(ask.ask.tags)
    amounts = needed_amounts(index.names, items_of_ask(index.partition, ask))
    need = vector(amounts)
    fine = (
        node.takes(bound)
        and node.id not in ask.refused
        and all(name in index.names for name in amounts)
        and covers(index.nodes.timed(node, vector(obtainable_with_devices(node))), need)
    )
    assert fine or node in index.reserved_nodes.doubted, f"node {node.id}: its reservation is not justified"
    if not bound:
        rooms = (kept.available.room, kept.obtainable.room)
        amounts_there = (available_with_devices(node), obtainable_with_devices(node))
        expected = tuple(index.nodes.timed(node, vector(one)) for one in amounts_there)
        assert rooms == expected, f"node {node.id}: its room is another"
    listed = (kept.available.rank is not None, kept.obtainable.rank is not None)
    assert listed == (not bound, not bound), f"node {node.id}: it may be taken: {listed}"


def _check_limit(limit: Limit, nodes: list[Node], kept: ReservedNodes) -> None:
    assert kept.under[limit].keys() == set(nodes), f"{limit}: other nodes are reserved under it"
    counting = [wanted_of(limit, _ask(node)) for node in nodes if not (_preempts(node) and _ask(node).has_place)]
    reserved = total_of(counting)
    assert items_of(kept.sums.get(limit, {})) == items_of(reserved), f"{limit}: reserved is {kept.sums.get(limit)}"
    if isinstance(limit, Budget):  # each pass looks at it
        assert limit in kept.budgets, f"{limit}: no pass looks at what is reserved"
        return
    beyond = [
        name
        for name, maximum in limit.most.items()
        if limit.used.get(name, 0) + limit.held.get(name, 0) + reserved.get(name, 0) > maximum
    ]
    free = [node.id for node in nodes if not _preempts(node)]
    assert not (beyond and free and counting) or limit in kept.doubted_limits, (
        f"{limit}: {beyond} exceed its maximum with what is reserved, and yet {free} are"
    )


def _check_shares(partition: Partition, nodes: list[Node], kept: ReservedNodes) -> None:
    shared = [node for node in nodes if not required_node(_ask(node).ask.tags) and not _preempts(node)]
    assert kept.in_share.keys() == set(shared), f"{partition.name}: other nodes count in the share"
    by_leaf: dict[Queue, list[Node]] = {}
    for node in shared:
        by_leaf.setdefault(_ask(node).application.queue, []).append(node)
    assert {leaf: set(some) for leaf, some in kept.shares.items()} == {
        leaf: set(some) for leaf, some in by_leaf.items()
    }
    count, settings = len(partition.nodes), partition.settings
    most = max(1, count * settings.reservation_share // 100)
    most_of_leaf = max(1, count * settings.queue_reservation_share // 100)
    assert kept.share_doubted or len(shared) <= most, f"{partition.name}: {len(shared)} nodes are reserved"
    for leaf, some in by_leaf.items():
        assert kept.share_doubted or len(some) <= most_of_leaf, f"{leaf}: {len(some)} nodes are reserved for its asks"


# Packed applications


def check_packing(partition: Partition, index: PartitionIndex) -> None:
    packs = index.packing
    assert (packs is not None) == (partition.settings.pack == "application"), f"{partition.name}: packed, or not"
    for application, pack in packs.of.items() if packs is not None else ():
        assert not application.terminal, f"application {application.id} has ended and is packed"
        assert partition.applications.get(application.id) is application, f"application {application.id} is gone"
        counts = Counter(allocation.node.id for allocation in application.allocations.values())
        assert counts == {node_id: packed.count for node_id, packed in pack.nodes.items()}, (
            f"application {application.id} is packed onto other nodes than it is on"
        )
        for packed in pack.nodes.values():
            group = index.nodes.group_of(packed.node)
            assert group is None or (packed.rank is not None and covers(packed.room, group.available)), (
                f"application {application.id}: node {packed.node.id} has more room than the pack knows"
            )


# Ranks


def check_leaf_ranks(queue: Queue, leaf: LeafOrder) -> None:
    for (demand, _), ask_class in leaf.ask_classes.items():
        check_ranking(ask_class.ranking, f"queue {queue.path}, ask class for {demand.items}")
        if leaf.only is None and not ask_class.dirty and not ask_class.hidden:
            now = ask_class.rank_now()
            assert ask_class.rank == now, (
                f"queue {queue.path}: the ask class for {demand.items} ranks {ask_class.rank}, computed anew {now}"
            )
    listed = {ask_class: (rank, bits) for rank, ask_class, bits in leaf.order.items()}
    expected = {
        ask_class: (ask_class.rank, ask_class.bits)
        for ask_class in leaf.ask_classes.values()
        if ask_class.rank is not None
    }
    assert listed == expected, f"queue {queue.path}: ask classes are listed by other ranks or bits"


def check_members(queue: Queue, order: ParentOrder) -> None:
    orders = {child: order.index.order_of(child) for child in queue.children.values()}
    known = set(orders.values())
    order.dormant.settle()
    dormant = {member: rank for rank, member, _ in order.dormant.items()}
    gone = [member.queue.path for member in (*order.ranking.members, *dormant) if member not in known]
    assert not gone, f"queue {queue.path}: {gone} take part and are not there"
    for child, below in orders.items():
        assert below is not None, f"queue {child.path}: has no order"
        heavy = weight(child.pending, order.index.scales)
        assert below.weight == heavy, f"queue {child.path}: weighs {below.weight}, counted anew {heavy}"
        assert below.dormant_rank == dormant.get(below), f"queue {child.path}: is dormant at another rank"
        assert below not in dormant or dormant[below] == below.rank(), f"queue {child.path}: its dormant rank is old"
        assert below not in dormant or below not in order.ranking.members, f"queue {child.path}: is dormant and not"
    parked = len(order.parked)
    there = sum(1 for _ in queue.below())
    assert parked <= there, f"queue {queue.path}: {parked} gave up below it, where there are {there}"


def check_ranking(ranking: LazyRanking | UserRanking, where: str) -> None:  # type: ignore[type-arg]
    if isinstance(ranking, UserRanking):
        for part in ranking.parts():
            check_ranking(part, where)
        members = [member for part in list(ranking.parts())[1:] for member in part.members]
        assert ranking.members.keys() == set(members), f"{where}: members of no user"
        return
    ranks = ranking.ranks()
    assert ranks.keys() == ranking.members.keys(), f"{where}: members without a rank"
    for member, rank in ranks.items():
        assert rank == member.rank(), f"{where}: a rank is {rank}, computed anew {member.rank()}"


def check_wake_ups(queue: Queue, leaf: LeafOrder, index: PartitionIndex) -> None:
    """A queue with an ask class that could be scheduled, now or if its demand opens, is found from root down."""
    room = tuple(
        min(
            (
                q.settings.max[name] - q.allocated.get(name, 0) - q.held.get(name, 0)
                for q in queue.path_to_root
                if name in q.settings.max
            ),
            default=float("inf"),
        )
        for name in index.names
    )
    for ask_class in leaf.ask_classes.values():
        if ask_class.hidden or not ask_class.demand.possible or not covers(room, ask_class.demand.need):
            continue
        if ask_class.in_the_way() is None:
            order: LeafOrder | ParentOrder = leaf
            while order.above is not None:
                assert _is_found(order, order.above, ask_class.bits), (
                    f"queue {order.queue.path} does not take part, though {ask_class.demand.items} in {queue.path} "
                    "could be next"
                )
                order = order.above


def _is_found(order: LeafOrder | ParentOrder, above: ParentOrder, bits: int) -> bool:
    rank = order.dormant_rank
    return order in above.ranking.members or (rank is not None and above.dormant.bits_of(rank) & bits == bits)
