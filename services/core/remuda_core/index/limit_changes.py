"""Change the index when limits gain room or running slots (semantics sections 5 and 9)."""

from __future__ import annotations

from collections.abc import Iterable

from ..state import Application, Node, Queue, Tracker
from .kept_nodes import limits_of
from .partition import PartitionIndex


def note_slots(index: PartitionIndex, application: Application) -> None:
    """Note the limits in which the application counts as running now."""
    if application.counts_as_running and application.application_limits:
        index.running_slots[application] = application.application_limits
    else:
        index.running_slots.pop(application, None)


def settle_slots(index: PartitionIndex, application: Application) -> None:
    """The application may have begun to count as running, or stopped."""
    slots = index.running_slots.get(application)
    if slots is None:
        if application.counts_as_running and application.application_limits:
            note_slots(index, application)
            _began_running(index, application)
    elif not application.counts_as_running:
        del index.running_slots[application]
        index.leaf_of(application).regroup(application)
        wake_at(index, slots)


def _began_running(index: PartitionIndex, application: Application) -> None:
    """The application has its running slots: its own asks wait for none any more."""
    index.leaf_of(application).regroup(application)
    stalled = [
        node
        for node in index.stalled.limits()
        if node.reservation is not None and node.reservation.application is application
    ]
    wake_reservations(index, stalled)


def wake_at(index: PartitionIndex, limits: Iterable[Queue | Tracker]) -> None:
    """These limits have room or a slot again: wake the ask classes, reservations and preemptors that they block."""
    for limit in limits:
        for ask_class in index.parked.blocked_at(limit):
            if ask_class.in_the_way() is not limit:
                index.parked.unblock(ask_class)
                ask_class.show()
        wake_reservations(index, index.stalled.blocked_at(limit))
        if index.preemptors is not None:
            index.preemptors.wake_at(limit)


def wake_all_stalled(index: PartitionIndex) -> None:
    """Look at all stalled reservations again: their limits may not apply any more."""
    wake_reservations(index, list(index.stalled.limits()))


def wake_reservations(index: PartitionIndex, nodes: list[Node]) -> None:
    """Look at the reservations of these nodes again: other limits and maxima apply to them, or have room."""
    for node in nodes:
        index.stalled.unblock(node)
    index.reservations.wake(nodes)


def place_given_up(index: PartitionIndex, application: Application) -> None:
    """No place is held for an ask of the application any more: limits and maxima have more room."""
    if application.trackers:
        wake_at(index, application.trackers)
    index.leaf_of(application).released()
    if index.kept.waiting:
        index.kept.used_less(limits_of(application))
