"""The part of `evolve` that keeps count for limits: which trackers an application counts in, and whether it runs."""

from __future__ import annotations

from .rules.limits import applying
from .rules.resource import Resource
from .state import Application, Queue, Tracker


def track(application: Application) -> None:
    """It counts from now on wherever a limit applies to it, with all it holds."""
    lineage = application.queue.lineage
    found = []
    for level, kind, name, limit in applying(
        [queue.settings.limits for queue in lineage], application.user, application.groups
    ):
        trackers = lineage[level].trackers
        tracker = trackers.get((kind, name))
        if tracker is None:
            tracker = trackers[kind, name] = Tracker(lineage[level], kind, name, limit)
        tracker.members += 1
        tracker.running += application.runs
        found.append(tracker)
    application.trackers = tuple(found)
    application.gates = (
        *(queue for queue in lineage if queue.settings.max_applications),
        *(tracker for tracker in found if tracker.limit.max_applications),
    )
    book(application, application.allocated, 1)
    book(application, application.allocated_placeholder, 1)


def untrack(application: Application) -> None:
    """The opposite. A tracker that nobody counts in goes."""
    book(application, application.allocated, -1)
    book(application, application.allocated_placeholder, -1)
    for tracker in application.trackers:
        tracker.members -= 1
        tracker.running -= application.runs
        if not tracker.members:
            del tracker.queue.trackers[tracker.kind, tracker.name]
    application.trackers = application.gates = ()


def track_again(queue: Queue) -> None:
    """The limits in this queue are others. A tracker outlives this only where its limit is of another queue."""
    applications = [application for below in queue.below() for application in below.applications.values()]
    for application in applications:
        untrack(application)
    for application in applications:
        track(application)


def book(application: Application, resource: Resource, times: int) -> None:
    for tracker in application.trackers:
        for name, amount in resource.items():
            tracker.used[name] += amount * times


def count_running(application: Application, runs: bool) -> None:
    """It begins, or ends, to count as a running application."""
    by = runs - application.runs
    application.runs = runs
    for queue in application.queue.lineage:
        queue.running += by
    for tracker in application.trackers:
        tracker.running += by
