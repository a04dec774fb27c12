"""KillApplication and MoveApplication."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from remuda_proto.bounds import MESSAGE_BYTES, shortened, shown

from ... import facts
from ...actions import KillApplication, MoveApplication
from ...commands import Administer
from ...cycle.reserve import unreserved
from ...facts import Fact
from ...index.limits import held_queue
from ...rules import lifecycle
from ...rules.acl import may_submit
from ...rules.limits import applying
from ...rules.properties import FAIR, sort_policy
from ...rules.resource import Resource, total_of
from ...state import Application, Partition, Queue, State
from ..gang import fail
from ..quota import booked_above_quotas
from .problem import Problem, problems_of_access, running_application, why
from .queues import under_way_ends


def problems_of_kill(
    state: State, partition: Partition, command: Administer, action: KillApplication
) -> Iterator[Problem]:
    application = yield from running_application(partition, command, action.application_id)
    if application is None:
        return
    if application.state == lifecycle.FAILING:
        yield Problem(f"applicationID {shown(application.id)} is {application.state} already")


def kill_application(
    state: State, partition: Partition, command: Administer, action: KillApplication, now_ms: int
) -> Iterator[Fact]:
    """The asks are withdrawn, and the RM is asked to release the allocations. With the last release the application is
    Failed (section 7)."""
    application = partition.applications[action.application_id]
    yield from fail(partition, application, shortened(why(command, "killed"), MESSAGE_BYTES), now_ms)


def problems_of_move(
    state: State, partition: Partition, command: Administer, action: MoveApplication
) -> Iterator[Problem]:
    application = yield from running_application(partition, command, action.application_id)
    if application is None:
        return
    path = action.queue.lower()
    queue = partition.queues.get(path)
    if queue is None or not queue.leaf:
        yield Problem(
            f"queue {shown(path)} {'does not exist' if queue is None else 'is a parent'}, expected a leaf queue"
        )
        return
    yield from problems_of_access(queue, command)
    leaf = next((above for above in queue.path_to_root[1:] if above.leaf), None)
    if leaf is not None:
        yield Problem(f"queue {path} is below the leaf queue {leaf.path}, expected one below parents only")
    if queue is application.queue:
        yield Problem(f"applicationID {shown(application.id)} is in queue {path} already")
        return
    yield from _problems_of_target(application, queue)
    yield from _problems_of_quotas(application, queue)


def _problems_of_target(application: Application, queue: Queue) -> Iterator[Problem]:
    """Whether the queue takes the application at all."""
    draining = next((above for above in queue.path_to_root if above.draining), None)
    if draining is not None:
        yield Problem(f"queue {draining.path} is draining, expected one that takes applications")
    if not may_submit([above.settings for above in queue.path_to_root], application.user, application.groups):
        yield Problem(f"user {shown(application.user)} may not submit to queue {queue.path}")
    gang = any(application.placeholder_ask.values()) or application.task_groups
    if gang and sort_policy(queue.settings.properties) == FAIR:
        yield Problem(f"queue {queue.path} orders its applications by fair share, which gangs do not go with")
    held = held_queue(queue)
    if held is not None:
        yield Problem(f"queue {held.path} is held, the application would not go on", soft=True)


def _problems_of_quotas(application: Application, queue: Queue) -> Iterator[Problem]:
    """The maxima and limits that the application would exceed in the queue and above. Those that it counts under
    already stay as they are."""
    used = total_of((application.allocated, application.allocated_placeholder, application.held))
    new = [above for above in queue.path_to_root if above not in application.queue.path_to_root]
    for above in new:
        most = above.settings.max
        yield from _over(f"queue {above.path}", used, most, total_of((above.allocated, above.held)))
        if _waits_for_placeholders(application):
            yield from _too_small(above, application.placeholder_ask)
        if application.counts_as_running and not above.has_running_slot():
            yield _no_slot(f"queue {above.path}", above.running, above.most_running)
    levels = [above.settings.limits for above in queue.path_to_root]
    for level, kind, name, limit in applying(levels, application.user, application.groups):
        tracker = queue.path_to_root[level].trackers.get((kind, name))
        if tracker is not None and tracker in application.trackers:
            continue
        what = f"{kind} {name} in queue {queue.path_to_root[level].path}"
        there = total_of((tracker.used, tracker.held)) if tracker is not None else {}
        running = tracker.running if tracker is not None else 0
        yield from _over(what, used, limit.max_resources, there)
        if application.counts_as_running and limit.max_applications and running >= limit.max_applications:
            yield _no_slot(what, running, limit.max_applications)


def _waits_for_placeholders(application: Application) -> bool:
    return application.state in (lifecycle.NEW, lifecycle.ACCEPTED)


def _over(what: str, used: Resource, most: Resource, there: Resource) -> Iterator[Problem]:
    for name, maximum in sorted(most.items()):
        amount, have = used.get(name, 0), there.get(name, 0)
        if amount and amount + have > maximum:
            yield Problem(
                f"{what} has {name}={have} of {maximum}, the application brings {amount}, expected at most "
                f"{max(0, maximum - have)}",
                soft=True,
            )


def _too_small(queue: Queue, placeholder_ask: Resource) -> Iterator[Problem]:
    for name, most in sorted(queue.settings.max.items()):
        if placeholder_ask.get(name, 0) > most:
            text = f"placeholderAsk: {name}={placeholder_ask[name]}, the maximum of queue {queue.path} is {most}"
            yield Problem(text, soft=True)


def _no_slot(what: str, running: int, most: int) -> Problem:
    return Problem(f"{what} has {running} running applications, expected fewer than {most}", soft=True)


def move_application(
    state: State, partition: Partition, command: Administer, action: MoveApplication, now_ms: int
) -> Iterator[Fact]:
    """Allocations, asks and preemptions stay, and count in the other queue. Other reservations end: whether they are
    justified depends on the queue. In a held queue nothing is under way."""
    application, queue = partition.applications[action.application_id], partition.queues[action.queue.lower()]
    if (held := held_queue(queue)) is not None:
        yield from under_way_ends(partition, [application], f"queue {held.path} is held")
    for pending in sorted(application.reserving.values(), key=attrgetter("seq")):
        for node in [partition.nodes[node_id] for node_id in pending.reservations]:
            if not node.preempting:
                yield unreserved(partition, pending, node, "the application was moved")
    moved = facts.ApplicationMoved(partition.name, application.id, queue.path, application.queue.path)
    yield from booked_above_quotas(partition, queue.path_to_root, moved, now_ms)
