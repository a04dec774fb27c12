"""The scheduling index of a partition, compared with what follows from its state.

Slow and plain on purpose: it says what the index has to say, not how. Looking settles what the index puts off, which
never changes what it says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from .index.admission import NOTHING_HELD, exceeds, limit_of
from .index.fit_list import Vector, covers
from .index.lazy_ranking import LazyRanking
from .index.nodes import Demand
from .index.partition import PartitionIndex
from .index.preemptors import can_preempt
from .index.queues import Admission, AskClass, Asks, LeafOrder, ParentOrder
from .rules import lifecycle
from .rules.properties import is_state_aware
from .rules.required_node import required_node
from .rules.resource import Items, items_of
from .rules.share import weight
from .state import Application, Node, Partition, PendingAsk, Queue

# What it is, where it has to be and cannot be, and what stands in the way.
Want = tuple[Items, str, frozenset[str], Admission]


def check_index(partition: Partition, index: PartitionIndex) -> None:
    """AssertionError that says what is wrong."""
    assert index.partition is partition, f"{partition.name}: the index is another partition's"
    _check_nodes(partition, index)
    leaves = dict(_leaves(partition.root, index))
    for queue, leaf in leaves.items():
        _check_leaf(queue, leaf, index)
        _check_gangs(queue, leaf, index)
        _check_serving(leaf)
    ask_classes = [ask_class for leaf in leaves.values() for ask_class in leaf.ask_classes.values()]
    _check_demands(partition, index, ask_classes)
    _check_claimants(partition, index)
    _check_entries(partition, index)
    assert index.parked.all().keys() <= set(ask_classes), f"{partition.name}: ask classes are parked that are gone"
    if not index.shares_are_stale:
        for queue, leaf in leaves.items():
            _check_leaf_ranks(queue, leaf)
            _check_contest(leaf.gangs, f"gangs of queue {queue.path}")
        for queue in _parents(partition.root):
            order = index.orders[queue]
            assert isinstance(order, ParentOrder)
            _check_members(queue, order)
            _check_contest(order.ranking, f"queue {queue.path}")
            _check_contest(order.gangs, f"gangs below queue {queue.path}")
            _check_serving(order)
    for queue, leaf in leaves.items():
        _check_wake_ups(queue, leaf, index)


def _leaves(queue: Queue, index: PartitionIndex) -> Iterator[tuple[Queue, LeafOrder]]:
    """What stands below a leaf is draining and has no part in scheduling."""
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
        yield from _leaves(child, index)


def _check_settings(order: LeafOrder | ParentOrder, anew: LeafOrder | ParentOrder, index: PartitionIndex) -> None:
    """What it has read out of its queue's settings is what another one would read now."""
    names = ["by_parents_priority", "by_priority", "limited", "maxima"]
    names += [] if index.shares_are_stale else ["due"]
    names += ["fair"] if isinstance(order, LeafOrder) else []
    for name in names:
        kept, read = getattr(order, name), getattr(anew, name)
        assert kept == read, f"queue {order.queue.path}: {name} is {kept}, its settings say {read}"
    if isinstance(order, LeafOrder) and isinstance(anew, LeafOrder):
        assert (order.stateaware_turn is None) == (anew.stateaware_turn is None), (
            f"queue {order.queue.path}: takes turns or not"
        )


def _parents(queue: Queue) -> Iterator[Queue]:
    if not queue.leaf:
        yield queue
        for child in queue.children.values():
            yield from _parents(child)


def _check_entries(partition: Partition, index: PartitionIndex) -> None:
    """What the index keeps of asks and applications is what the state says of them."""
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
        if application.runs and application.application_limits
    }
    assert index.running_slots == slots, f"{partition.name}: other applications run where that is limited"
    assert index.gangs.keys() <= set(alive), f"{partition.name}: gangs of applications that are gone"
    entries = {node_id: entry.node for node_id, entry in index.nodes._entries.items()}
    assert entries == partition.nodes, f"{partition.name}: entries of nodes that are gone"


# Nodes


def _check_nodes(partition: Partition, index: PartitionIndex) -> None:
    expected: defaultdict[tuple[Vector, Vector], set[str]] = defaultdict(set)
    for node in partition.nodes.values():
        assert index.knows(node.capacity), f"node {node.id}: a resource has no place in the index"
        if node.candidate:
            expected[index.nodes.vector(node.capacity), index.nodes.vector(node.available())].add(node.id)
        else:
            assert index.nodes.group_of(node) is None, f"node {node.id} takes nothing new and is in a group"
    found = index.nodes.groups()
    assert found == expected, f"{partition.name}: node groups {found}, expected {dict(expected)}"
    for (capacity, available), ids in expected.items():
        first = min(ids)
        group = index.nodes.group_of(partition.nodes[first])
        assert group is not None and group.size == len(ids), f"group of {first}: size is not {len(ids)}"
        assert (group.capacity, group.available) == (capacity, available), f"group of {first}: it is another's"
        assert group.first().id == first, f"group of {first}: its first node is {group.first().id}"


# Asks


def _check_leaf(queue: Queue, leaf: LeafOrder, index: PartitionIndex) -> None:
    expected: defaultdict[Want, defaultdict[str, list[PendingAsk]]] = defaultdict(lambda: defaultdict(list))
    for application in queue.applications.values():
        admission = _admission(queue, application)
        for ask in sorted(application.asks.values(), key=lambda a: (-a.ask.priority, a.seq)):
            if waits_for_place(ask):
                continue
            if ask.free:
                want = (items_of(ask.ask.resource), required_node(dict(ask.ask.tags)), ask.refused, admission)
                expected[want][application.id].append(ask)
            else:
                assert ask not in index.lines, f"{application.id}/{ask.ask.allocation_key}: is in a line, none is free"
    found = {
        (demand.items, demand.required_node, demand.refused, admission): _lines(ask_class, index)
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


def _admission(queue: Queue, application: Application) -> Admission:
    application_limits = () if application.runs else application.application_limits
    return (
        _held_back(queue, application),
        application_limits,
        tuple(t for t in application.trackers if t.limit.max_resources),
    )


def _held_back(queue: Queue, application: Application) -> bool:
    if not is_state_aware(queue.settings.properties) or application.state != lifecycle.ACCEPTED:
        return False
    others = queue.applications.values()
    accepted = [other for other in others if other.state == lifecycle.ACCEPTED and other.asks]
    starting = any(other.state == lifecycle.STARTING for other in others)
    return starting or application is not min(accepted, key=lambda a: a.seq, default=None)


# Gangs

# Task group, and what an ask wants.
Place = tuple[str, tuple[Items, str, frozenset[str]]]


def waits_for_place(pending: PendingAsk) -> bool:
    """For that of a placeholder, and for no other."""
    ask = pending.ask
    group = pending.application.task_groups.get(ask.task_group)
    return bool(pending.free and ask.task_group) and not ask.placeholder and group is not None and group.awaited


def _check_gangs(queue: Queue, leaf: LeafOrder, index: PartitionIndex) -> None:
    for application in queue.applications.values():
        what, gang = f"application {application.id}", index.gangs.get(application)
        expected: defaultdict[Place, list[PendingAsk]] = defaultdict(list)
        for ask in sorted(application.asks.values(), key=lambda a: (-a.ask.priority, a.seq)):
            if waits_for_place(ask):
                want = (items_of(ask.ask.resource), required_node(ask.ask.tags), ask.refused)
                expected[ask.ask.task_group, want].append(ask)
        awaited = {group.name for group in application.task_groups.values() if group.awaited}
        if gang is None:
            assert not awaited, f"{what}: nothing waits for {awaited}"
            continue
        assert gang.waiting.keys() == awaited, f"{what}: waits for {set(gang.waiting)}, there is {awaited}"
        lines = {(name, want): line for name, lines in gang.waiting.items() for want, line in lines.items()}
        found = {where: list(_asks(line, index)) for where, line in lines.items()}
        assert found == expected, f"{what}: {_waiting(found)} wait for places, expected {_waiting(expected)}"
        ready = {name for name, _ in expected if application.task_groups[name].free}
        assert set(gang.ready) == ready, f"{what}: ready are {set(gang.ready)}, counted anew {ready}"
        serving = gang in leaf.gangs.members
        assert serving == (bool(ready) and gang not in index.blocked), f"{what}: takes part is {serving}"
    there = {index.gangs.get(application) for application in queue.applications.values()}
    gone = [gang for gang in leaf.gangs.members if gang not in there]
    assert not gone, f"queue {queue.path}: {gone} take part and are not there"


def _waiting(lines: Mapping[Place, list[PendingAsk]]) -> dict[Place, list[str]]:
    return {where: [ask.ask.allocation_key for ask in asks] for where, asks in lines.items()}


def _check_serving(order: LeafOrder | ParentOrder) -> None:
    """A queue is among those with gangs to serve exactly while it has any."""
    serves = order.serving is not None
    assert serves == bool(order.gangs.members) or order.above is None, f"queue {order.queue.path}: serves is {serves}"
    if order.serving is not None and order.above is not None:
        assert order.serving in order.above.gangs.members, f"queue {order.queue.path}: has gangs and takes no part"


def _lines(ask_class: AskClass, index: PartitionIndex) -> dict[str, list[PendingAsk]]:
    return {line.application.id: list(_asks(line, index)) for line in ask_class.ranking.members}


def _asks(line: Asks, index: PartitionIndex) -> Iterator[PendingAsk]:
    """In the order in which the line gives them out."""
    seen: set[int] = set()
    head = line.head()
    over = sum(1 for _, asks in line.by_turn() for ask in asks if not ask.free)
    assert line.withdrawn == over, f"a line knows of {line.withdrawn} asks that were withdrawn, counted anew {over}"
    for priority, asks in line.by_turn():
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


# Demands


def _check_demands(partition: Partition, index: PartitionIndex, ask_classes: list[AskClass]) -> None:
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
        assert demand.need == index.nodes.vector(demand.resource), f"{what}: its vector is {demand.need}"
        known_names = all(name in index.names for name, _ in demand.items)
        assert demand.possible == known_names, f"{what}: possible is {demand.possible}"
        listed = demand.rank is not None or demand in index.demands.closed_bound.get(demand.required_node, ())
        assert listed == (demand.possible and not demand.open), f"{what}: open is {demand.open}"
        assert demand.live == (demand.open or demand.reserving), f"{what}: live is {demand.live}"
        assert not (demand.open and demand.reserving), f"{what}: open, and reserving"
        aged = sum(ask_class.aged for ask_class in its_ask_classes)
        assert demand.aged == aged, f"{what}: {demand.aged} ask classes have waited long enough, counted anew {aged}"
        assert demand.reserved.keys() == kept.get(demand, set()), f"{what}: reserved are others than it knows"
        for node in demand.reserved:
            _check_reservation(node, demand, index)
        assert not demand.reserved or demand.closed_in is not index.demands.closed, f"{what}: a gap would not wake it"
        for ask_class in its_ask_classes:
            assert ask_class.open or not demand.open or ask_class in index.parked or ask_class.admission[0], (
                f"{what}: open, but the ask class in {ask_class.leaf.queue.path} is closed"
            )
            _check_closed(ask_class, index)
        if not demand.open and demand.possible:
            room = [
                node.id
                for node in partition.nodes.values()
                if _has_room(node, demand, index)
                and not (node in index.freed_nodes.nodes and demand.closed_in is index.demands.closed)
            ]
            assert not room, f"{what}: closed, but it fits {room}"
    live_ask_classes = sum(demand.ask_classes for demand in known if demand.live)
    assert index.demands.live_ask_classes == live_ask_classes, (
        f"{index.demands.live_ask_classes} live ask classes, counted anew {live_ask_classes}"
    )


def _check_claimants(partition: Partition, index: PartitionIndex) -> None:
    """Whoever may preempt others has or will have a turn."""
    if index.preemptors is None:
        return
    known = index.preemptors.known()
    for application in partition.applications.values():
        for key, ask in application.asks.items():
            willing = ask.ask.allow_preempt_other and not required_node(ask.ask.tags)
            may = (
                ask.pending and not ask.preempted_at_ms and not index.awaits_place(ask) and willing and can_preempt(ask)
            )
            assert not may or ask.seq in known, f"{application.id}/{key}: will never preempt others"


def _check_bound(ask: PendingAsk, node: Node, fits: bool, stalled: bool, index: PartitionIndex) -> None:
    """One that the node it is bound to is reserved for may preempt there, or will be looked at when it may."""
    if fits or not node.ready or node.id in ask.refused or not ask.pending or ask.preempted_at_ms:
        return
    known = stalled or node in index.bound.changed or ask in index.bound.waiting
    assert known, f"{ask.application.id}/{ask.ask.allocation_key}: will never preempt others on {node.id}"


def _check_reservation(node: Node, demand: Demand, index: PartitionIndex) -> None:
    """What could be placed is about to be looked at, or a limit or maximum that leaves no room will wake it."""
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
        and node.id not in demand.refused
        and covers(index.nodes.vector(node.available()), demand.need)
    )
    if demand.required_node == node.id:
        _check_bound(ask, node, fits, stalled, index)
    assert not fits or stalled or node in index.reservations.changed, f"node {node.id}: its reservation is forgotten"
    assert not demand.open or demand in index.reservations.opened or stalled, (
        f"demand {demand.items}: open, and its reservation of {node.id} is forgotten"
    )


def _check_closed(ask_class: AskClass, index: PartitionIndex) -> None:
    """It knows what it waits for, and that stands in the way."""
    what = f"demand {ask_class.demand.items}: the ask class in {ask_class.leaf.queue.path}"
    parked, held_back = ask_class in index.parked, ask_class.admission[0]
    assert ask_class.open or parked or held_back or ask_class in ask_class.demand.closed_ask_classes, (
        f"{what} would never open again"
    )
    assert not parked or not ask_class.open, f"{what} is open and parked"
    plain = ask_class.demand.possible and not ask_class.demand.choosy
    waits = plain and not (ask_class.open or parked or held_back)
    assert ask_class.waits == waits, f"{what} waits for a gap: {ask_class.waits}"
    assert not parked or ask_class.in_the_way() is not None, f"{what} is parked although nothing is in the way"


def _has_room(node: Node, demand: Demand, index: PartitionIndex) -> bool:
    wanted = node.reservation is None and node.takes(demand.required_node) and node.id not in demand.refused
    return wanted and covers(index.nodes.vector(node.available()), demand.need)


# Who is next


def _check_leaf_ranks(queue: Queue, leaf: LeafOrder) -> None:
    for (demand, _), ask_class in leaf.ask_classes.items():
        _check_contest(ask_class.ranking, f"queue {queue.path}, ask class for {demand.items}")
        if leaf.only is None and not ask_class.dirty and (ask_class.open or ask_class.waits):
            now = ask_class.rank_now()
            assert ask_class.rank == now, (
                f"queue {queue.path}: the ask class for {demand.items} ranks {ask_class.rank}, computed anew {now}"
            )


def _check_members(queue: Queue, order: ParentOrder) -> None:
    orders = {child: order.index.order_of(child) for child in queue.children.values()}
    known = set(orders.values())
    gone = [member.queue.path for member in order.ranking.members if member not in known]
    assert not gone, f"queue {queue.path}: {gone} take part and are not there"
    for child, below in orders.items():
        assert below is not None, f"queue {child.path}: has no order"
        heavy = weight(child.pending, order.index.scales)
        assert below.weight == heavy, f"queue {child.path}: weighs {below.weight}, counted anew {heavy}"
    parked = len(order.parked)
    there = sum(1 for _ in queue.below())
    assert parked <= there, f"queue {queue.path}: {parked} gave up below it, where there are {there}"


def _check_contest(ranking: LazyRanking, where: str) -> None:  # type: ignore[type-arg]
    ranks = ranking.ranks()
    assert ranks.keys() == ranking.members.keys(), f"{where}: members without a rank"
    for member, rank in ranks.items():
        assert rank == member.rank(), f"{where}: a rank is {rank}, computed anew {member.rank()}"


def _check_wake_ups(queue: Queue, leaf: LeafOrder, index: PartitionIndex) -> None:
    """Whoever could be next takes part, all the way up."""
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
    able = [
        ask_class
        for ask_class in leaf.ask_classes.values()
        if ask_class.open
        and ask_class.demand.open
        and covers(room, ask_class.demand.need)
        and ask_class.in_the_way() is None
    ]
    if not able:
        return
    assert index.anything_fits(tuple(-amount for amount in room)), (
        f"queue {queue.path}: {able[0].demand.items} fits the headroom, the index takes it for too small"
    )
    order: LeafOrder | ParentOrder = leaf
    while order.above is not None:
        assert order in order.above.ranking.members, (
            f"queue {order.queue.path} does not take part, though {able[0].demand.items} in {queue.path} could be next"
        )
        order = order.above
