"""Demands: which are open, which wait, and that a change that may help finds each of them."""

from __future__ import annotations

from collections import defaultdict

from ...index.asks import AskClass
from ...index.demands import FREED, RESERVING
from ...index.node_groups import Demand
from ...index.ordered import covers
from ...index.partition import PartitionIndex
from ...index.preemption import can_preempt
from ...rules.required_node import required_node
from ...state import Node, Partition
from .reservations import check_reservation


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
        assert demand.need == index.nodes.vector(demand.resource), f"{what}: its vector is {demand.need}"
        known_names = all(name in index.names for name, _ in demand.items)
        assert demand.possible == known_names, f"{what}: possible is {demand.possible}"
        listed = demand.rank is not None or demand in index.demands.closed_bound.get(demand.required_node, ())
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
        if not demand.open and demand.possible:
            room = [
                node.id
                for node in partition.nodes.values()
                if _has_room(node, demand, index)
                and not (node in index.freed_nodes.nodes and demand.closed_list is index.demands.closed)
            ]
            assert not room, f"{what}: closed, but it fits {room}"
        _check_bits(demand, index, what)
    _check_sets(known, index)
    lost = index.nodes.rankings.lost()
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
    wanted = node.reservation is None and node.takes(demand.required_node) and node.id not in demand.refused
    found = demand.predicate_class
    if found is not None and (found.question or demand in index.demands.unasked) and node.id not in found.accepted:
        return False  # before the RM has answered
    return wanted and not node.full and covers(index.nodes.vector(node.available()), demand.need)
