"""Facts of applications and their states."""

from __future__ import annotations

from .. import facts, timeouts
from ..rules import lifecycle
from ..state import Application, Partition, RejectedApplication, State
from .accounts import enter_accounts, leave_accounts
from .booking import count_running, free_no_more, track, untrack


def application_accepted(state: State, fact: facts.ApplicationAccepted) -> None:
    partition = state.partitions[fact.partition]
    queue = partition.queues[fact.queue]
    state.next_seq += 1
    application = Application(
        fact.application_id, queue, fact.user, fact.groups, fact.tags, state.next_seq, state.now_ms,
        fact.execution_timeout_ms, fact.placeholder_ask, fact.gang_scheduling_style,
    )  # fmt: skip
    application.state_at_ms = state.now_ms
    application.enters(lifecycle.NEW, state.now_ms)
    ended = partition.applications.pop(fact.application_id, None)  # the map is in the order of submission
    if ended is not None:
        _forget_timers(state, partition, ended)
        partition.ended.discard_application(ended)
    partition.applications[fact.application_id] = application
    queue.applications[fact.application_id] = application
    track(application)
    enter_accounts(state, fact.partition, application)


def application_rejected(state: State, fact: facts.ApplicationRejected) -> None:
    if fact.recorded:
        rejected = state.partitions[fact.partition].rejected
        rejected.pop(fact.application_id, None)
        rejected[fact.application_id] = RejectedApplication(fact, state.now_ms)


def rejection_forgotten(state: State, fact: facts.RejectionForgotten) -> None:
    del state.partitions[fact.partition].rejected[fact.application_id]


def application_state_changed(state: State, fact: facts.ApplicationStateChanged) -> None:
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    _forget_timers(state, partition, application)
    if application.state == lifecycle.RESUMING and fact.state == lifecycle.FAILING:
        free_no_more(application)
    became = application.state = fact.state
    application.state_at_ms = fact.at_ms
    application.enters(became, fact.at_ms)
    if became in lifecycle.OVER:
        if application.counts_as_running:
            count_running(application, False)
        if became != lifecycle.COMPLETING:
            _leave_queue(state, application)
            if application not in partition.ended:
                application.forget_what_is_over()
                partition.ended.add_application(application)
    elif application.placeholders and not application.counts_as_running:
        count_running(application, True)  # it was Completing and still held placeholders
    if became == lifecycle.RESUMING:
        application.resumed = True
    if became in lifecycle.TIMEOUTS:
        state.timers.put(timeouts.of_state(partition.name, application, state.timing))
    if became == lifecycle.RUNNING:
        state.timers.put(timeouts.of_execution(partition.name, application))


def _forget_timers(state: State, partition: Partition, application: Application) -> None:
    """The application leaves its state: cancel the timers that would end that state."""
    if application.state in lifecycle.TIMEOUTS:
        state.timers.cancel(timeouts.of_state(partition.name, application, state.timing))
    if application.state == lifecycle.RUNNING:
        state.timers.cancel(timeouts.of_execution(partition.name, application))


def application_removed(state: State, fact: facts.ApplicationRemoved) -> Application:
    partition = state.partitions[fact.partition]
    application = partition.applications.pop(fact.application_id)
    _forget_timers(state, partition, application)
    partition.ended.discard_application(application)
    if application.counts_as_running:
        count_running(application, False)
    _leave_queue(state, application)
    return application


def _leave_queue(state: State, application: Application) -> None:
    """Does nothing if it has left: its ID may have been used again since."""
    if application.queue.applications.get(application.id) is application:
        del application.queue.applications[application.id]
        untrack(application)
        leave_accounts(state, application)
