"""The scheduling index of a partition, compared with what follows from its state.

Slow and plain on purpose: it says what the index has to say, not how. Looking settles what the index puts off, which
never changes what it says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from .cycle.admission import limit_of
from .cycle.claimants import awaits_place, may_claim
from .cycle.contest import Contest
from .cycle.fit_list import Vector, covers
from .cycle.index import Index
from .cycle.nodes import Demand
from .cycle.order import Asks, Lane, LeafOrder, ParentOrder, Standing
from .cycle.required_node import required_node
from .rules import lifecycle
from .rules.properties import is_state_aware
from .rules.resource import Items, items_of
from .rules.share import weight
from .state import Application, Node, Partition, PendingAsk, Queue

# What it is, where it has to be and cannot be, and what stands in the way.
Want = tuple[Items, str, frozenset[str], Standing]


def check_index(partition: Partition, index: Index) -> None:
    """AssertionError that says what is wrong."""
    assert index.partition is partition, f"{partition.name}: the index is another partition's"
    _check_nodes(partition, index)
    leaves = dict(_leaves(partition.root, index))
    for queue, leaf in leaves.items():
        _check_leaf(queue, leaf, index)
        _check_gangs(queue, leaf, index)
        _check_serving(leaf)
    lanes = [lane for leaf in leaves.values() for lane in leaf.lanes.values()]
    _check_demands(partition, index, lanes)
    _check_claimants(partition, index)
    assert index.parked.all().keys() <= set(lanes), f"{partition.name}: lanes are parked that are gone"
    if not index._total_changed:
        for queue, leaf in leaves.items():
            _check_leaf_ranks(queue, leaf)
            _check_contest(leaf.gangs, f"gangs of queue {queue.path}")
        for queue in _parents(partition.root):
            assert isinstance(queue.order, ParentOrder)
            _check_members(queue, queue.order)
            _check_contest(queue.order.contest, f"queue {queue.path}")
            _check_contest(queue.order.gangs, f"gangs below queue {queue.path}")
            _check_serving(queue.order)
    for queue, leaf in leaves.items():
        _check_wake_ups(queue, leaf, index)


def _leaves(queue: Queue, index: Index) -> Iterator[tuple[Queue, LeafOrder]]:
    """What stands below a leaf is draining and has no part in scheduling."""
    order = queue.order
    assert order is not None and order.index is index and order.queue is queue, (
        f"queue {queue.path} has no place in the index"
    )
    if queue.leaf:
        assert isinstance(order, LeafOrder), f"queue {queue.path} is a leaf, the index has it as a parent"
        yield queue, order
        return
    assert isinstance(order, ParentOrder), f"queue {queue.path} is a parent, the index has it as a leaf"
    for child in queue.children.values():
        assert child.order is not None and child.order.above is order, (
            f"queue {child.path} is not below {queue.path} in the index"
        )
        yield from _leaves(child, index)


def _parents(queue: Queue) -> Iterator[Queue]:
    if not queue.leaf:
        yield queue
        for child in queue.children.values():
            yield from _parents(child)


# Nodes


def _check_nodes(partition: Partition, index: Index) -> None:
    expected: defaultdict[tuple[Vector, Vector], set[str]] = defaultdict(set)
    for node in partition.nodes.values():
        assert index.knows(node.capacity), f"node {node.id}: a resource has no place in the index"
        if node.candidate:
            expected[index.nodes.vector(node.capacity), index.nodes.vector(node.available())].add(node.id)
        else:
            assert node.group is None, f"node {node.id} takes nothing new and is in a group"
    found = index.nodes.groups()
    assert found == expected, f"{partition.name}: node groups {found}, expected {dict(expected)}"
    for (capacity, available), ids in expected.items():
        first = min(ids)
        group = partition.nodes[first].group
        assert group is not None and group.size == len(ids), f"group of {first}: size is not {len(ids)}"
        assert (group.capacity, group.available) == (capacity, available), f"group of {first}: it is another's"
        assert group.first().id == first, f"group of {first}: its first node is {group.first().id}"


# Asks


def _check_leaf(queue: Queue, leaf: LeafOrder, index: Index) -> None:
    expected: defaultdict[Want, defaultdict[str, list[PendingAsk]]] = defaultdict(lambda: defaultdict(list))
    for application in queue.applications.values():
        standing = _standing(queue, application)
        for ask in sorted(application.asks.values(), key=lambda a: (-a.ask.priority, a.seq)):
            if waits_for_place(ask):
                continue
            if ask.free:
                want = (items_of(ask.ask.resource), required_node(dict(ask.ask.tags)), ask.refused, standing)
                expected[want][application.id].append(ask)
            else:
                assert ask.line is None, f"{application.id}/{ask.ask.allocation_key}: is in a line, none is free"
    found = {
        (demand.items, demand.required_node, demand.refused, standing): _lines(lane)
        for (demand, standing), lane in leaf.lanes.items()
    }
    where = f"queue {queue.path}"
    assert found.keys() == expected.keys(), f"{where}: lanes for {list(found)}, pending are {list(expected)}"
    for want, lines in expected.items():
        assert found[want] == lines, f"{where}: lines for {want} are {_keys(found[want])}, pending are {_keys(lines)}"
    registered = {line for lines in leaf.lines.values() for line in lines.values()}
    in_lanes = {line for lane in leaf.lanes.values() for line in lane.contest.members}
    assert registered == in_lanes, f"{where}: lines by application are not the lines by lane"
    only = next(iter(leaf.lanes.values())) if len(leaf.lanes) == 1 else None
    assert leaf.only is only, f"{where}: the only lane is not what it takes for it"
    for (demand, standing), lane in leaf.lanes.items():
        assert lane.demand is demand and lane.leaf is leaf and lane.contest.members and lane.standing is standing, (
            f"{where}: the lane for {demand.items} stands in a wrong place"
        )


def _standing(queue: Queue, application: Application) -> Standing:
    gates = () if application.runs else application.gates
    return _held_back(queue, application), gates, tuple(t for t in application.trackers if t.limit.max_resources)


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


def _check_gangs(queue: Queue, leaf: LeafOrder, index: Index) -> None:
    for application in queue.applications.values():
        what, gang = f"application {application.id}", application.gang
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
        found = {where: list(_asks(line)) for where, line in lines.items()}
        assert found == expected, f"{what}: {_waiting(found)} wait for places, expected {_waiting(expected)}"
        ready = {name for name, _ in expected if application.task_groups[name].free}
        assert set(gang.ready) == ready, f"{what}: ready are {set(gang.ready)}, counted anew {ready}"
        serving = gang in leaf.gangs.members
        assert serving == (bool(ready) and gang not in index.blocked), f"{what}: takes part is {serving}"
    gone = [g.application.id for g in leaf.gangs.members if g.application.id not in queue.applications]
    assert not gone, f"queue {queue.path}: {gone} take part and are not there"


def _waiting(lines: Mapping[Place, list[PendingAsk]]) -> dict[Place, list[str]]:
    return {where: [ask.ask.allocation_key for ask in asks] for where, asks in lines.items()}


def _check_serving(order: LeafOrder | ParentOrder) -> None:
    """A queue is among those with gangs to serve exactly while it has any."""
    serves = order.serving is not None
    assert serves == bool(order.gangs.members) or order.above is None, f"queue {order.queue.path}: serves is {serves}"
    if order.serving is not None and order.above is not None:
        assert order.serving in order.above.gangs.members, f"queue {order.queue.path}: has gangs and takes no part"


def _lines(lane: Lane) -> dict[str, list[PendingAsk]]:
    return {line.application.id: list(_asks(line)) for line in lane.contest.members}


def _asks(line: Asks) -> Iterator[PendingAsk]:
    """In the order in which the line gives them out."""
    seen: set[int] = set()
    head = line.head()
    over = sum(1 for _, asks in line.by_turn() for ask in asks if not ask.free)
    assert line.withdrawn == over, f"a line knows of {line.withdrawn} asks that were withdrawn, counted anew {over}"
    for priority, asks in line.by_turn():
        for ask in asks:
            assert not ask.free or ask.line is line, f"{ask.ask.allocation_key} stands in a line it has left"
            if ask.free and ask.line is line and ask.ask.priority == priority and ask.seq not in seen:
                seen.add(ask.seq)
                assert len(seen) > 1 or ask is head, (
                    f"line of {ask.application.id}: {ask.ask.allocation_key} is first, it gives out another"
                )
                yield ask


def _keys(lines: dict[str, list[PendingAsk]]) -> dict[str, list[str]]:
    return {app_id: [ask.ask.allocation_key for ask in asks] for app_id, asks in lines.items()}


# Demands


def _check_demands(partition: Partition, index: Index, lanes: list[Lane]) -> None:
    by_demand: defaultdict[Demand, list[Lane]] = defaultdict(list)
    for lane in lanes:
        by_demand[lane.demand].append(lane)
    known = set(index._demands.values())
    kept: defaultdict[Demand, set[Node]] = defaultdict(set)
    for node in partition.nodes.values():
        if node.reservation is not None:
            kept[index.demand_of(node.reservation)].add(node)
    assert known == by_demand.keys() | kept.keys(), (
        f"demands {[d.items for d in known]}, asked for are {[d.items for d in by_demand]}"
    )
    for demand in known:
        its_lanes = by_demand.get(demand, [])
        what = f"demand {demand.items} {demand.required_node} {sorted(demand.refused) or ''}".rstrip()
        assert demand.lanes == len(its_lanes), f"{what}: {demand.lanes} lanes, counted anew {len(its_lanes)}"
        assert demand.need == index.nodes.vector(demand.resource), f"{what}: its vector is {demand.need}"
        known_names = all(name in index.names for name, _ in demand.items)
        assert demand.possible == known_names, f"{what}: possible is {demand.possible}"
        listed = demand.rank is not None or demand in index._closed_bound.get(demand.required_node, ())
        assert listed == (demand.possible and not demand.open), f"{what}: open is {demand.open}"
        assert demand.live == (demand.open or demand.reserving), f"{what}: live is {demand.live}"
        assert not (demand.open and demand.reserving), f"{what}: open, and reserving"
        aged = sum(lane.aged for lane in its_lanes)
        assert demand.aged == aged, f"{what}: {demand.aged} lanes have waited long enough, counted anew {aged}"
        assert demand.reserved.keys() == kept.get(demand, set()), f"{what}: reserved are others than it knows"
        for node in demand.reserved:
            _check_reservation(node, demand, index)
        assert not demand.reserved or demand.closed_in is not index._closed, f"{what}: a gap would not wake it"
        for lane in its_lanes:
            assert lane.open or not demand.open or lane in index.parked or lane.standing[0], (
                f"{what}: open, but the lane in {lane.leaf.queue.path} is closed"
            )
            _check_closed(lane, index)
        if not demand.open and demand.possible:
            room = [
                node.id
                for node in partition.nodes.values()
                if _has_room(node, demand, index)
                and not (node in index.gaps.nodes and demand.closed_in is index._closed)
            ]
            assert not room, f"{what}: closed, but it fits {room}"
    live_lanes = sum(demand.lanes for demand in known if demand.live)
    assert index._live_lanes == live_lanes, f"{index._live_lanes} live lanes, counted anew {live_lanes}"


def _check_claimants(partition: Partition, index: Index) -> None:
    """Whoever may preempt others has or will have a turn."""
    if index.claimants is None:
        return
    known = index.claimants.known()
    for application in partition.applications.values():
        for key, ask in application.asks.items():
            willing = ask.ask.allow_preempt_other or required_node(ask.ask.tags)
            may = ask.pending and not ask.preempted_at_ms and not awaits_place(ask) and willing and may_claim(ask)
            assert not may or ask.seq in known, f"{application.id}/{key}: will never preempt others"


def _check_reservation(node: Node, demand: Demand, index: Index) -> None:
    """What could be placed is about to be looked at, or a limit or maximum that leaves no room will wake it."""
    ask = node.reservation
    assert ask is not None, f"node {node.id} is not reserved"
    full = [
        queue
        for queue in ask.application.queue.lineage
        if any(demand.resource.get(n, 0) > most - queue.allocated[n] for n, most in queue.settings.max.items())
    ]
    stalled = any(queue.order is not None and node in queue.order.stalled for queue in full)
    stalled |= node in index.stalled and limit_of(ask) is not None
    fits = (
        node.schedulable and node.id not in demand.refused and covers(index.nodes.vector(node.available()), demand.need)
    )
    assert not fits or stalled or node in index.reservations.changed, f"node {node.id}: its reservation is forgotten"
    assert not demand.open or demand in index.reservations.opened or stalled, (
        f"demand {demand.items}: open, and its reservation of {node.id} is forgotten"
    )


def _check_closed(lane: Lane, index: Index) -> None:
    """It knows what it waits for, and that stands in the way."""
    what = f"demand {lane.demand.items}: the lane in {lane.leaf.queue.path}"
    parked, held_back = lane in index.parked, lane.standing[0]
    assert lane.open or parked or held_back or lane in lane.demand.closed_lanes, f"{what} would never open again"
    assert not parked or not lane.open, f"{what} is open and parked"
    plain = lane.demand.possible and not lane.demand.choosy
    waits = plain and not (lane.open or parked or held_back)
    assert lane.waits == waits, f"{what} waits for a gap: {lane.waits}"
    assert not parked or lane.in_the_way() is not None, f"{what} is parked although nothing is in the way"


def _has_room(node: Node, demand: Demand, index: Index) -> bool:
    wanted = demand.required_node in ("", node.id) and node.id not in demand.refused
    return wanted and node.candidate and covers(index.nodes.vector(node.available()), demand.need)


# Who is next


def _check_leaf_ranks(queue: Queue, leaf: LeafOrder) -> None:
    for (demand, _), lane in leaf.lanes.items():
        _check_contest(lane.contest, f"queue {queue.path}, lane for {demand.items}")
        if leaf.only is None and not lane.dirty and (lane.open or lane.waits):
            now = lane.rank_now()
            assert lane.rank == now, (
                f"queue {queue.path}: the lane for {demand.items} ranks {lane.rank}, computed anew {now}"
            )


def _check_members(queue: Queue, order: ParentOrder) -> None:
    known = {child.order for child in queue.children.values()}
    gone = [member.queue.path for member in order.contest.members if member not in known]
    assert not gone, f"queue {queue.path}: {gone} take part and are not there"
    for child in queue.children.values():
        assert child.order is not None, f"queue {child.path}: has no order"
        heavy = weight(child.pending, order.index.scales)
        assert child.order.weight == heavy, f"queue {child.path}: weighs {child.order.weight}, counted anew {heavy}"
    parked = len(order.parked)
    there = sum(1 for _ in queue.below())
    assert parked <= there, f"queue {queue.path}: {parked} gave up below it, where there are {there}"


def _check_contest(contest: Contest, where: str) -> None:  # type: ignore[type-arg]
    ranks = contest.ranks()
    assert ranks.keys() == contest.members.keys(), f"{where}: members without a rank"
    for member, rank in ranks.items():
        assert rank == member.rank(), f"{where}: a rank is {rank}, computed anew {member.rank()}"


def _check_wake_ups(queue: Queue, leaf: LeafOrder, index: Index) -> None:
    """Whoever could be next takes part, all the way up."""
    room = tuple(
        min(
            (q.settings.max[name] - q.allocated.get(name, 0) for q in queue.lineage if name in q.settings.max),
            default=float("inf"),
        )
        for name in index.names
    )
    able = [
        lane
        for lane in leaf.lanes.values()
        if lane.open and lane.demand.open and covers(room, lane.demand.need) and lane.in_the_way() is None
    ]
    if not able:
        return
    assert index.anything_fits(tuple(-amount for amount in room)), (
        f"queue {queue.path}: {able[0].demand.items} fits the headroom, the index takes it for too small"
    )
    order: LeafOrder | ParentOrder = leaf
    while order.above is not None:
        assert order in order.above.contest.members, (
            f"queue {order.queue.path} does not take part, though {able[0].demand.items} in {queue.path} could be next"
        )
        order = order.above
