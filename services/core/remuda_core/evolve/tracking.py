"""The part of `evolve` that keeps count for limits: which trackers an application counts in, and whether it runs."""

from __future__ import annotations

from ..limits import NAMES_KEPT
from ..rules import lifecycle
from ..rules.limits import applying
from ..rules.resource import Resource, forget_zeros
from ..state import Application, Queue, Tracker


def track(application: Application) -> None:
    """It counts from now on wherever a limit applies to it, with all it holds."""
    path_to_root = application.queue.path_to_root
    found = []
    for level, kind, name, limit in applying(
        [queue.settings.limits for queue in path_to_root], application.user, application.groups
    ):
        trackers = path_to_root[level].trackers
        tracker = trackers.get((kind, name))
        if tracker is None:
            tracker = trackers[kind, name] = Tracker(path_to_root[level], kind, name, limit)
        tracker.members += 1
        tracker.running += application.counts_as_running
        found.append(tracker)
    application.trackers = tuple(found)
    application.application_limits = (
        *(queue for queue in path_to_root if queue.settings.max_applications),
        *(tracker for tracker in found if tracker.limit.max_applications),
    )
    book(application, application.allocated, 1)
    book(application, application.allocated_placeholder, 1)
    for tracker in found if application.held else ():
        _add_held(tracker.held, application.held, 1)


def untrack(application: Application) -> None:
    """The opposite. A tracker that nobody counts in goes."""
    book(application, application.allocated, -1)
    book(application, application.allocated_placeholder, -1)
    for tracker in application.trackers:
        _add_held(tracker.held, application.held, -1)
        tracker.members -= 1
        tracker.running -= application.counts_as_running
        if not tracker.members:
            del tracker.queue.trackers[tracker.kind, tracker.name]
    application.trackers = application.application_limits = ()


def track_again(queue: Queue) -> None:
    """The limits in this queue are others. A tracker outlives this only where its limit is of another queue."""
    applications = [application for below in queue.below() for application in below.applications.values()]
    for application in applications:
        untrack(application)
    for application in applications:
        track(application)


def book(application: Application, resource: Resource, times: int) -> None:
    for tracker in application.trackers:
        used = tracker.used
        for name, amount in resource.items():
            used[name] += amount * times
        if len(used) > NAMES_KEPT:
            forget_zeros(used, resource)


def book_held(application: Application, resource: Resource, times: int) -> None:
    """Kept for one of its asks in each queue on its way to the root and wherever a limit applies to it."""
    for held in (application.held, *(queue.held for queue in application.queue.path_to_root)):
        _add_held(held, resource, times)
    for tracker in application.trackers:
        _add_held(tracker.held, resource, times)


def _add_held(held: dict[str, int], resource: Resource, times: int) -> None:
    """Names of which nothing is held are left out: where nothing is held, looking costs nothing."""
    for name, amount in resource.items():
        rest = held.pop(name, 0) + amount * times
        if rest:
            held[name] = rest


def count_running(application: Application, running: bool) -> None:
    """It begins, or ends, to count as a running application."""
    by = running - application.counts_as_running
    application.counts_as_running = running
    for queue in application.queue.path_to_root:
        queue.running += by
    for tracker in application.trackers:
        tracker.running += by


def count_claims(application: Application, by: int) -> None:
    """A node was reserved, or a question asked, or that is over. With its last claim an application that has started
    nothing gives its slots back."""
    application.open_claims += by
    if by > 0 and not application.counts_as_running:
        count_running(application, True)
    elif (
        application.counts_as_running
        and application.state == lifecycle.ACCEPTED
        and not (application.open_claims or application.allocations)
    ):
        count_running(application, False)
