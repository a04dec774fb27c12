"""Facts of operators' actions: holds of queues, moves of applications, and the outcomes of the last actions."""

from __future__ import annotations

from typing import NamedTuple

from .. import facts
from ..limits import ACTIONS_KEPT
from ..rules.resource import add
from ..state import Application, Hold, Queue, State, Tracker
from .accounts import enter_accounts, leave_accounts, settle_queue
from .booking import book_held, count_running, prioritise_queue, track, untrack
from .budgets import commit_all, hold_all


def action_handled(state: State, fact: facts.ActionTaken | facts.ActionRefused) -> None:
    """Remember the outcome, unless the action_id was used before."""
    if fact.repeated or not fact.action.action_id:
        return
    if len(state.actions) >= ACTIONS_KEPT:
        oldest = next(iter(state.actions))
        del state.actions[oldest]
        state.action_times.pop(oldest, None)
    state.actions[fact.action.action_id] = fact
    state.action_times[fact.action.action_id] = state.now_ms


def queue_held(state: State, fact: facts.QueueHeld) -> None:
    hold = state.holds[fact.partition, fact.queue] = Hold(fact.operator, fact.reason, state.now_ms)
    state.partitions[fact.partition].queues[fact.queue].hold = hold


def queue_resumed(state: State, fact: facts.QueueResumed) -> Queue | None:
    """Returns the queue; None if it does not exist any more."""
    del state.holds[fact.partition, fact.queue]
    queue = state.partitions[fact.partition].queues.get(fact.queue)
    if queue is not None:
        queue.hold = None
    return queue


class Moved(NamedTuple):
    """An application that has moved; the queue and the trackers in which it was counted."""

    application: Application
    queue: Queue
    trackers: tuple[Tracker, ...]


def application_moved(state: State, fact: facts.ApplicationMoved) -> Moved:
    """Take the application, with all that it has, out of the sums of its queue, and add it to those of the other."""
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    moved = Moved(application, application.queue, application.trackers)
    running, held = application.counts_as_running, dict(application.held)
    priority = application.priority if application.foremost else None
    if running:
        count_running(application, False)
    book_held(application, held, -1)
    hold_all(state, fact.partition, application, -1)
    commit_all(state, fact.partition, application, -1)
    untrack(application)
    leave_accounts(state, application)
    prioritise_queue(application.queue, priority, None)
    _book_in_queues(application, -1)
    del application.queue.applications[application.id]
    application.queue = queue = partition.queues[fact.queue]
    _enter(queue, application)
    settle_queue(state, queue)
    _book_in_queues(application, 1)
    prioritise_queue(queue, None, priority)
    track(application)
    enter_accounts(state, fact.partition, application)
    book_held(application, held, 1)
    hold_all(state, fact.partition, application, 1)
    commit_all(state, fact.partition, application, 1)
    if running:
        count_running(application, True)
    return moved


def _enter(queue: Queue, application: Application) -> None:
    """The applications of a queue stay in the order of submission, which is their order in a snapshot, too."""
    others = queue.applications
    newest = next(reversed(others.values()), None)
    others[application.id] = application
    if newest is not None and newest.seq > application.seq:
        queue.applications = dict(sorted(others.items(), key=lambda entry: entry[1].seq))


def _book_in_queues(application: Application, times: int) -> None:
    """The amounts that the application uses, those of them that are preempted, and those of its asks."""
    for queue in application.queue.path_to_root:
        add(queue.allocated, application.allocated, times)
        add(queue.allocated, application.allocated_placeholder, times)
        for allocation in application.allocations.values():
            if allocation.preempting:
                add(queue.preempting, allocation.fact.resource, times)
    add(application.queue.asked, application.pending, times)
