"""HoldQueue and ResumeQueue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from remuda_proto.bounds import shown

from ... import facts
from ...actions import HoldQueue, ResumeQueue
from ...commands import Administer
from ...facts import Fact
from ...limits import HOLDS
from ...state import Application, Partition, Queue, State
from ..allocation import replacement_cancelled
from ..ask import release_reservations
from ..predicate import withdrawn
from .problem import Problem, problems_of_access


def problems_of_hold(state: State, partition: Partition, command: Administer, action: HoldQueue) -> Iterator[Problem]:
    path = action.queue.lower()
    queue = partition.queues.get(path)
    if queue is None:
        yield Problem(f"queue {shown(path)} does not exist")
        return
    yield from problems_of_access(queue, command)
    if queue.hold is not None:
        yield Problem(f"queue {path} is held by {queue.hold.operator} already")
    elif len(state.holds) >= HOLDS:
        yield Problem(f"the resource manager has {len(state.holds)} held queues, expected fewer than {HOLDS}")


def hold_queue(
    state: State, partition: Partition, command: Administer, action: HoldQueue, now_ms: int
) -> Iterator[Fact]:
    """Releases that the RM was asked for go on; all else that would start something ends."""
    queue = partition.queues[action.queue.lower()]
    applications = [application for below in queue.below() for application in below.applications.values()]
    yield from under_way_ends(partition, sorted(applications, key=attrgetter("seq")), f"queue {queue.path} is held")
    yield facts.QueueHeld(partition.name, queue.path, command.operator, command.reason)


def under_way_ends(partition: Partition, applications: Sequence[Application], reason: str) -> Iterator[Fact]:
    """Withdraw open questions to the RM about these applications, and end their preemptions and reservations: other
    queues get the room."""
    ids = {application.id for application in applications}
    for question in list(partition.questions.values()):
        if question.application.id in ids:
            yield withdrawn(question, reason)
    for _, replacement in sorted(partition.replacements_asked.items()):
        if replacement.fact.application_id in ids:
            yield replacement_cancelled(replacement, reason)
    for application_id, key in list(partition.preemptions):
        if application_id in ids:
            yield facts.PreemptionEnded(partition.name, application_id, key, reason)
    for application in applications:
        for pending in sorted(application.reserving.values(), key=attrgetter("seq")):  # as after a restart
            yield from release_reservations(partition, pending, reason)


def problems_of_resume(
    state: State, partition: Partition, command: Administer, action: ResumeQueue
) -> Iterator[Problem]:
    path = action.queue.lower()
    nearest = nearest_queue(partition, path)
    yield from problems_of_access(nearest, command)
    if (partition.name, path) in state.holds:
        return
    if nearest.path != path:
        yield Problem(f"queue {shown(path)} does not exist")
    else:
        yield Problem(f"queue {path} is not held")


def nearest_queue(partition: Partition, path: str) -> Queue:
    """The queue, or the nearest one above it that exists."""
    while path not in partition.queues:
        path = path.rpartition(".")[0] or "root"
    return partition.queues[path]


def resume_queue(
    state: State, partition: Partition, command: Administer, action: ResumeQueue, now_ms: int
) -> Iterator[Fact]:
    yield facts.QueueResumed(partition.name, action.queue.lower(), command.operator)
