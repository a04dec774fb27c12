"""Ranks of queues, applications and ask classes, compared with those computed from the state."""

from __future__ import annotations

from ...index.leaves import LeafOrder
from ...index.ordered import LazyRanking, covers
from ...index.partition import PartitionIndex
from ...index.queues import ParentOrder
from ...rules.share import weight
from ...state import Queue


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


def check_ranking(ranking: LazyRanking, where: str) -> None:  # type: ignore[type-arg]
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
