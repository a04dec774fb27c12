"""Counts for limits: in which trackers an application is counted, and whether it counts as running."""

from __future__ import annotations

from ..limits import NAMES_KEPT
from ..rules import lifecycle
from ..rules.limits import applying
from ..rules.resource import Resource, forget_zeros
from ..state import Application, Queue, Tracker


def track(application: Application) -> None:
    """Count the application, and all it holds, in a tracker for each limit that applies to it."""
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
    """Undo `track`. A tracker without members is removed."""
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
    """The limits of the queue have changed: track the applications in and below it again. Trackers of other queues
    stay."""
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
    """Hold resources for an ask of the application, in each queue on its path to root and in its trackers."""
    for held in (application.held, *(queue.held for queue in application.queue.path_to_root)):
        _add_held(held, resource, times)
    for tracker in application.trackers:
        _add_held(tracker.held, resource, times)


def _add_held(held: dict[str, int], resource: Resource, times: int) -> None:
    """Names with amount 0 are removed, so that an empty map means that nothing is held."""
    for name, amount in resource.items():
        rest = held.pop(name, 0) + amount * times
        if rest:
            held[name] = rest


def count_running(application: Application, running: bool) -> None:
    """The application starts, or ceases, to count as running."""
    by = running - application.counts_as_running
    application.counts_as_running = running
    for queue in application.queue.path_to_root:
        queue.running += by
    for tracker in application.trackers:
        tracker.running += by


def count_claims(application: Application, by: int) -> None:
    """Count reservations and open questions that were added (by > 0) or ended (by < 0). An application without
    allocations counts as running while it has open claims."""
    application.open_claims += by
    if by > 0 and not application.counts_as_running:
        count_running(application, True)
    elif (
        application.counts_as_running
        and application.state == lifecycle.ACCEPTED
        and not (application.open_claims or application.allocations)
    ):
        count_running(application, False)
