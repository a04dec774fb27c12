"""Ranks of queues, applications and ask classes, compared with those computed from the state."""

from __future__ import annotations

from ...index.fit_list import covers
from ...index.lazy_ranking import LazyRanking
from ...index.leaf_order import LeafOrder
from ...index.partition import PartitionIndex
from ...index.queue_order import ParentOrder
from ...rules.share import weight
from ...state import Queue


def check_leaf_ranks(queue: Queue, leaf: LeafOrder) -> None:
    for (demand, _), ask_class in leaf.ask_classes.items():
        check_ranking(ask_class.ranking, f"queue {queue.path}, ask class for {demand.items}")
        if leaf.only is None and not ask_class.dirty and (ask_class.open or ask_class.waits):
            now = ask_class.rank_now()
            assert ask_class.rank == now, (
                f"queue {queue.path}: the ask class for {demand.items} ranks {ask_class.rank}, computed anew {now}"
            )


def check_members(queue: Queue, order: ParentOrder) -> None:
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


def check_ranking(ranking: LazyRanking, where: str) -> None:  # type: ignore[type-arg]
    ranks = ranking.ranks()
    assert ranks.keys() == ranking.members.keys(), f"{where}: members without a rank"
    for member, rank in ranks.items():
        assert rank == member.rank(), f"{where}: a rank is {rank}, computed anew {member.rank()}"


def check_wake_ups(queue: Queue, leaf: LeafOrder, index: PartitionIndex) -> None:
    """A queue with an ask class that could be scheduled is in all rankings up to root."""
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
