"""May an application be given more, as far as the limits go that are neither a queue's maximum nor a node's room: how
many applications may run, and what users and groups may use (semantics sections 5 and 9)."""

from __future__ import annotations

from collections.abc import Iterable

from ..rules.resource import Resource
from ..state import PendingAsk, Queue, Tracker


def in_the_way(
    gates: Iterable[Queue | Tracker], trackers: Iterable[Tracker], resource: Resource
) -> Queue | Tracker | None:
    """The first gate without a slot or tracker without room; None if there is none."""
    for gate in gates:
        if not gate.has_slot():
            return gate
    for tracker in trackers:
        if not tracker.has_room(resource):
            return tracker
    return None


def limit_of(pending: PendingAsk) -> Queue | Tracker | None:
    """What stands in the way of one ask."""
    application = pending.application
    return in_the_way(() if application.runs else application.gates, application.trackers, pending.ask.resource)
