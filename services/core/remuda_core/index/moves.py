"""Change the index when an application moves to another leaf queue (semantics section 19): its asks leave the ask
classes, the gang and the preemptors of the one queue, and enter those of the other. O(asks of the application * log n).
"""

from __future__ import annotations

from ..evolve.administration import Moved
from ..state import Application
from . import gangs
from .build import fill
from .leaf_order import LeafOrder
from .limit_changes import wake_at, wake_reservations
from .partition import PartitionIndex


def move_application(index: PartitionIndex, moved: Moved) -> None:
    """The state has the application in its new queue."""
    application, old = moved.application, index.orders[moved.queue]
    assert isinstance(old, LeafOrder), "applications are in leaf queues"
    slots = index.running_slots.pop(application, ())
    _leave(index, old, application)
    old.weigh()
    old.released()
    wake_at(index, (*slots, *moved.trackers))
    fill(index, (application,))
    index.leaf_of(application).changed()
    nodes = index.partition.nodes
    kept = [nodes[node_id] for ask in application.reserving.values() for node_id in ask.reservations]
    wake_reservations(index, kept)
    index.kept.recount(kept)
    index.kept.used_less((*moved.queue.path_to_root, *moved.trackers))
    index.kept.used_more(application)


def _leave(index: PartitionIndex, leaf: LeafOrder, application: Application) -> None:
    keys = set(application.asks)
    for ask in application.asks.values():
        index.lines.pop(ask, None)
    for line in list(leaf.lines.get(application, {}).values()):
        line.remove_keys(keys)
        leaf.taken(line)
    gang = index.gangs.pop(application, None)
    if gang is not None:
        index.blocked.pop(gang, None)
        gangs.leave(gang)
    if leaf.stateaware_turn is not None:
        leaf.stateaware_turn.leave(application)
        leaf.take_stateaware_turn(leaf.stateaware_turn)
    if index.preemptors is not None:
        index.preemptors.forget_application(leaf.queue, application)
