"""Trackers, running applications and claims, compared with those computed from applications and allocations."""

from __future__ import annotations

from collections import defaultdict

from ..rules import lifecycle, limits
from ..rules.resource import total_of
from ..state import Application, Partition
from .asks import check_asks
from .sums import check_sum


def check_limits(partition: Partition) -> None:
    """Compute the trackers of each application, and the usage of each tracker, again."""
    alive = [application for queue in partition.queues.values() for application in queue.applications.values()]
    members: defaultdict[tuple[str, str, str], list[Application]] = defaultdict(list)
    for application in alive:
        path_to_root, what = application.queue.path_to_root, f"application {application.id}"
        levels = [queue.settings.limits for queue in path_to_root]
        found = list(limits.applying(levels, application.user, application.groups))
        trackers = [(t.queue, t.kind, t.name, t.limit) for t in application.trackers]
        expected = [(path_to_root[level], kind, name, limit) for level, kind, name, limit in found]
        assert trackers == expected, f"{what} counts in {trackers}, expected {expected}"
        application_limits = [queue for queue in path_to_root if queue.settings.max_applications]
        gated = [t for t in application.trackers if t.limit.max_applications]
        assert application.application_limits == (*application_limits, *gated), f"{what}: its gates are others"
        check_asks(application)
        completing = application.state == lifecycle.COMPLETING  # it then holds only placeholders that are not needed
        holds = application.open_claims or (application.allocations and not completing)
        assert application.counts_as_running or not holds, f"{what} holds something and does not count as running"
        assert not application.counts_as_running or not completing, f"{what} is Completing and running"
        for tracker in application.trackers:
            assert tracker.queue.trackers.get((tracker.kind, tracker.name)) is tracker, f"{what}: a tracker is lost"
            members[tracker.queue.path, tracker.kind, tracker.name].append(application)
    for queue in partition.queues.values():
        running = sum(a.counts_as_running for a in alive if queue in a.queue.path_to_root)
        assert queue.running == running, f"queue {queue.path}: {queue.running} running, counted anew {running}"
        for (kind, name), tracker in queue.trackers.items():
            counted, what = members.pop((queue.path, kind, name), []), f"queue {queue.path}, {kind} {name}"
            assert counted and tracker.members == len(counted), (
                f"{what}: {tracker.members} members, counted {len(counted)}"
            )
            running = sum(a.counts_as_running for a in counted)
            assert tracker.running == running, f"{what}: {tracker.running} running, counted anew {running}"
            used = [r for a in counted for r in (a.allocated, a.allocated_placeholder)]
            check_sum(tracker.used, total_of(used), f"{what}: used")
    assert not members, f"trackers that are in no queue: {sorted(members)}"
