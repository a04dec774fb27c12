"""Facts of asks."""

from __future__ import annotations

from typing import NamedTuple

from .. import facts
from ..limits import REASONS_KEPT
from ..rules import runtime
from ..state import Application, Partition, PastConstraint, PendingAsk, Question, State
from .booking import book_pending, count_coming, end_without_placeholders, list_by_key, prioritise, task_group_of
from .predicate_classes import join_class, leave_class
from .preemption import preemption_over
from .questions import questions_dropped, refusals_over


class AskGone(NamedTuple):
    """A removed ask, and the open questions to the RM that were withdrawn with it."""

    ask: PendingAsk
    questions: tuple[Question, ...]


def ask_accepted(state: State, fact: facts.AskAccepted) -> PendingAsk:
    ask = fact.ask
    partition = state.partitions[ask.partition]
    application = partition.applications[ask.application_id]
    state.next_seq = seq = state.next_seq + 1
    pending = PendingAsk(ask, application, ask.max_allocations, ask.max_allocations, seq, state.now_ms)
    if partition.settings.backfill:
        pending.expected_ms = expected_ms(partition, application, ask)
    ask_comes(state, partition, application, pending)
    if ask.placeholder:
        application.task_groups[ask.task_group].count += ask.max_allocations
    return pending


def ask_changed(state: State, fact: facts.AskChanged) -> AskGone:
    ask = fact.ask
    partition = state.partitions[ask.partition]
    application = partition.applications[ask.application_id]
    was = application.asks[ask.allocation_key]
    if was.ask.placeholder:
        application.task_groups[was.ask.task_group].count -= was.pending + was.asked
    gone = _ask_goes(state, partition, application, was)
    pending = PendingAsk(ask, application, ask.max_allocations, ask.max_allocations, was.seq, was.at_ms)
    if partition.settings.backfill:
        pending.expected_ms = expected_ms(partition, application, ask)
    ask_comes(state, partition, application, pending)
    if ask.placeholder:
        application.task_groups[ask.task_group].count += ask.max_allocations
    end_without_placeholders(state, partition, application)
    return gone


def expected_ms(partition: Partition, application: Application, ask: facts.Ask) -> int:
    """The expected run time of the ask's allocations as the ask comes, in ms; 0: not known. By its tag, or the last
    runs of its user, of its name if there are enough; at most its bound. Only backfill uses it."""
    bound_ms = max(0, ask.execution_timeout_ms)
    if by_tag := runtime.expected_by_tags(ask.tags, application.tags):
        return min(by_tag, bound_ms) if bound_ms else by_tag
    runtimes, user, name = partition.runtimes, application.user, runtime.name_of(ask.tags, application.tags)
    of_name = (runtimes.ran_ms(user, name),) if name else ()
    return runtime.expected(bound_ms, *of_name, runtimes.ran_ms(user))


def ask_released(state: State, fact: facts.AskReleased) -> AskGone | None:
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    pending = application.asks.get(fact.allocation_key)
    if pending is None:
        list_by_key(application)  # an RM that releases one such ask releases others
        for allocation in application.allocations_of(fact.allocation_key):  # nothing of it is pending
            application.asks_over += not allocation.ask_over
            allocation.ask_over = True
        return None
    if pending.ask.placeholder and fact.termination_type == facts.TIMEOUT:
        application.task_groups[pending.ask.task_group].timed_out += pending.pending + pending.asked
    gone = _ask_goes(state, partition, application, pending)
    end_without_placeholders(state, partition, application)
    return gone


def ask_waiting(state: State, fact: facts.AskWaiting) -> int:
    """Returns the time at which the ask was explained, in ms."""
    pending = state.partitions[fact.partition].applications[fact.application_id].asks[fact.allocation_key]
    since = pending.waiting or {}
    pending.waiting = now = {c.key: since.get(c.key, state.now_ms) for c in fact.constraints}
    over = tuple(PastConstraint(key, at_ms, state.now_ms) for key, at_ms in since.items() if key not in now)
    if over:
        pending.past = (*pending.past, *over)[-REASONS_KEPT:]
    return state.now_ms


def ask_comes(state: State, partition: Partition, application: Application, pending: PendingAsk) -> None:
    ask = pending.ask
    if partition.batch_predicates:
        join_class(partition, pending)
    application.asks[ask.allocation_key] = pending
    partition.holders.add_holder(ask.allocation_key, application.id)
    book_pending(application, ask.resource, pending.pending)
    prioritise(application, ask.priority, 1)
    if ask.placeholder:
        group = task_group_of(state, partition, application, ask.task_group, ask.resource)
        count_coming(application, group, pending.pending)


def _ask_goes(state: State, partition: Partition, application: Application, pending: PendingAsk) -> AskGone:
    """Remove an ask: its pending allocations, and the open questions about it."""
    del application.asks[pending.ask.allocation_key]
    refusals_over(state, partition, pending)
    leave_class(state, partition, pending)
    if pending.ask.placeholder:
        group = application.task_groups[pending.ask.task_group]
        count_coming(application, group, -(pending.pending + pending.asked))
    dropped = questions_dropped(state, partition, application, pending) if pending.asked else ()
    if pending.preemption is not None:
        preemption_over(state, partition, pending)
    count, pending.pending, pending.free = pending.pending, 0, 0
    if count:  # else it was booked nowhere
        book_pending(application, pending.ask.resource, -count)
        prioritise(application, pending.ask.priority, -1)
    return AskGone(pending, dropped)
