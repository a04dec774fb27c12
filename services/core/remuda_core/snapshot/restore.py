"""Restores a state from records.

Sums, counts of priorities and trackers are computed with the functions with which `evolve` keeps them. Maps are filled
in the order of the records, which is the order in which the saved state had them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from .. import facts
from ..evolve import BY_FACT
from ..evolve.accounts import enter_accounts
from ..evolve.booking import (
    allocation_comes,
    book_allocated,
    book_arriving,
    book_devices,
    book_pending,
    book_preempting,
    count_running,
    prioritise,
    track,
)
from ..evolve.budgets import commit_until
from ..evolve.devices import set_prices
from ..evolve.gangs import replacement_begins
from ..evolve.guests import node_of
from ..evolve.predicate_classes import class_named
from ..evolve.preemption import under_way
from ..limits import DRAIN_REPORTED_MS
from ..rules.predicate_class import predicate_class
from ..rules.resource import items_of
from ..settings import QueueSettings
from ..state import (
    NEVER_MS,
    NO_NODES,
    NO_RESERVATIONS,
    NO_SPARED,
    AccountKey,
    Allocation,
    Application,
    BudgetKey,
    Hold,
    LeftGuest,
    Loan,
    LoanKey,
    Node,
    Occurrence,
    Partition,
    PastConstraint,
    PendingAsk,
    Preemption,
    Promise,
    Question,
    Queue,
    RejectedApplication,
    Replacement,
    Run,
    State,
    TaskGroup,
    Timer,
)
from ..state.accounts import APPLICATION
from ..state.application import FreePlaceholders
from ..timeouts import of_budget, of_draining, of_reservation, subject_of
from . import records
from .records import Record


def restore(rm_id: str, saved: Iterable[Record]) -> State:
    state = State(rm_id)
    for record in saved:
        restore_one(state, record)
    return state


def restore_one(state: State, record: Record) -> None:
    """Restore the next record. Raises KeyError when it refers to a record that is missing."""
    RESTORERS[type(record)](state, record)


def _rm(state: State, record: records.RmRecord) -> None:
    for name in record.__struct_fields__:
        setattr(state, name, getattr(record, name))
    state.begin_life(record.life)
    if record.configuration is not None:
        state.timing = record.configuration.timing


def _hold(state: State, record: records.HoldRecord) -> None:
    held = record.held
    state.holds[held.partition, held.queue] = Hold(held.operator, held.reason, record.at_ms)


def _drain(state: State, record: records.DrainRecord) -> None:
    fact = record.draining
    from_ms = fact.from_ms if isinstance(fact, facts.NodeLeaving) else 0
    state.drains[fact.partition, fact.node_id] = Hold(fact.operator, fact.reason, record.at_ms, from_ms)


def _loan(state: State, record: records.LoanRecord) -> None:
    lent = record.lent
    key = LoanKey(lent.partition, lent.lender, lent.borrower)
    state.loans[key] = Loan(
        lent.amounts, lent.guaranteed, lent.until_ms, lent.operator, lent.reason, record.at_ms
    )  # its timer is a record


def _action(state: State, record: records.ActionRecord) -> None:
    action_id = record.outcome.action.action_id
    state.actions[action_id] = record.outcome
    if record.at_ms:
        state.action_times[action_id] = record.at_ms


def _left_guest(state: State, record: records.LeftGuestRecord) -> None:
    accepted = record.accepted
    allocations = {one.uuid: one for one in record.allocations}
    releases = {one.uuid: one for one in record.releases}
    left = LeftGuest(accepted, record.queues, allocations, releases)
    state.left_guests.setdefault(accepted.partition, {})[accepted.application_id] = left


def _partition(state: State, record: records.PartitionRecord) -> None:
    BY_FACT[facts.PartitionAdded](state, record.added)
    partition = state.partitions[record.added.partition]
    partition.draining, partition.preemption_refused_ms = record.draining, record.preemption_refused_ms
    partition.yunikorn_1_4, partition.last_asked = state.yunikorn_1_4, record.last_asked
    partition.questions_paused = record.questions_paused
    partition.avoided, partition.avoided_ms = record.avoided, record.avoided_ms
    for one in record.windows:
        partition.windows[one.window] = Occurrence(one.from_ms, one.until_ms, one.open)
    if record.work is not None:
        partition.work, partition.measured_ms = record.work, record.measured_ms
        set_prices(partition)


def _queue(state: State, record: records.QueueRecord) -> None:
    added = record.added
    partition = state.partitions[added.partition]
    queues = partition.queues
    if added.queue == "root":  # PartitionAdded has made it
        queues["root"].settings = added.config
    else:
        BY_FACT[facts.QueueAdded](state, added)
    queue = queues[added.queue]
    queue.draining_since_ms, queue.drain_report_ms = record.draining_since_ms, record.drain_report_ms
    if queue.draining and queue.leaf and not queue.drain_report_ms:  # an earlier version did not report it
        queue.drain_report_ms = queue.draining_since_ms + DRAIN_REPORTED_MS
        state.timers.put(of_draining(added.partition, queue))
    queue.excess = record.excess
    in_order = sorted(record.refusals, key=lambda refusal: refusal.at_ms)  # earlier versions did not keep this order
    for refusal in in_order:
        like = items_of(refusal.resource), refusal.required_node, refusal.priority
        queue.refusals[like] = refusal.at_ms
        if refusal.set_aside:
            partition.set_aside[queue.path, like] = None


def _node(state: State, record: records.NodeRecord) -> None:
    BY_FACT[facts.NodeAdded](state, record.added)
    if record.left:
        BY_FACT[facts.NodeDraining](state, facts.NodeDraining(record.added.partition, record.added.node_id, left=True))
    for window in record.windows:
        draining = facts.NodeDraining(record.added.partition, record.added.node_id, window=window)
        BY_FACT[facts.NodeDraining](state, draining)
    for rejected in record.rejected:
        BY_FACT[facts.ExistingAllocationRejected](state, rejected)


def _predicate_class(state: State, record: records.PredicateClassRecord) -> None:
    partition = state.partitions[record.partition]
    found = class_named(partition, record.name)
    for verdict in record.verdicts:
        kept = found.accepted if verdict.accepted else found.refused
        kept[verdict.node_id] = verdict.until_ms or NEVER_MS
    partition.verdicts += found.verdicts
    found.refusal, found.until_ms = record.refusal, record.until_ms or NEVER_MS
    if record.question:
        found.question, found.asked, found.answer_by_ms = (
            record.question,
            dict.fromkeys(record.asked),
            record.answer_by_ms,
        )
        partition.class_questions[found.question] = found
    if record.idle:
        partition.idle_classes[found.name] = found


def _runtime(state: State, record: records.RuntimeRecord) -> None:
    runs = map(Run, record.ran_ms, record.bound_ms)
    state.partitions[record.partition].runtimes.put(record.user, record.name, runs)


def _application(state: State, record: records.ApplicationRecord) -> None:
    fact = record.accepted
    partition = state.partitions[fact.partition]
    queue = partition.queues.get(fact.queue)
    if queue is None:  # an ended application may outlive its queue, of which only the path is kept
        queue = Queue(fact.queue, None, leaf=True, managed=False, settings=QueueSettings(fact.queue))
    application = Application(
        fact.application_id, queue, fact.user, fact.groups, fact.tags, record.seq, record.at_ms,
        fact.execution_timeout_ms, fact.placeholder_ask, fact.gang_scheduling_style,
    )  # fmt: skip
    for change in record.log:  # logs of earlier versions are not cut
        application.enters(change.state, change.at_ms)
    application.states_left_out += record.states_left_out
    application.peak = dict(record.peak) or None
    application.state_at_ms, application.state = application.log[-1]
    application.resumed, application.placeholders_until_ms = record.resumed, record.placeholders_until_ms
    partition.applications[application.id] = application
    if application.terminal:
        application.forget_what_is_over()
        partition.ended.add_application(application)
    else:
        queue.applications[application.id] = application
        track(application)
        enter_accounts(state, partition.name, application)
        if record.counts_as_running:
            count_running(application, True)


def _ask(state: State, record: records.AskRecord) -> None:
    partition = state.partitions[record.ask.partition]
    application = partition.applications[record.ask.application_id]
    pending = _pending(application, record)
    application.asks[record.ask.allocation_key] = pending
    if partition.batch_predicates:
        found = partition.predicate_classes[predicate_class(record.ask.resource, record.ask.tags)]
        found.asks += 1
        pending.refused = found
    application.open_claims += len(pending.reservations) + pending.asked
    promises = {promise.node_id: promise for promise in record.promises}
    since_ms = record.reserved_ms or (state.now_ms,) * len(record.reservations)
    for node, reserved_ms in zip((partition.nodes[name] for name in pending.reservations), since_ms, strict=True):
        node.reservation, node.kept_by_preemption = pending, node.id in record.kept_by_preemption
        node.reserved_ms = reserved_ms
        if (one := promises.get(node.id)) is not None:
            node.promise = Promise(one.promised_ms, one.first_ms, one.changed_ms, one.cause)
        if not record.reserved_ms:
            state.timers.put(of_reservation(partition.name, node, state.timing))
        application.reserving[record.ask.allocation_key] = pending
    if pending.refused:
        partition.refused[pending] = None
    if pending.pending:
        book_pending(application, record.ask.resource, pending.pending)
        prioritise(application, record.ask.priority, 1)


def _pending(application: Application, record: records.AskRecord) -> PendingAsk:
    free = record.pending - len(record.reservations)
    return PendingAsk(
        record.ask, application, record.pending, free, record.seq, record.at_ms,
        dict.fromkeys(record.reservations) or NO_RESERVATIONS,
        asked=record.asked, refused=frozenset(record.refused) or NO_NODES, refusal=record.refusal,
        refused_at_ms=record.refused_at_ms, preempted_at_ms=record.preempted_at_ms,
        waiting={(w.constraint, w.where, w.resource): w.at_ms for w in record.waiting} or None,
        past=tuple(PastConstraint((p.constraint, p.where, p.resource), p.since_ms, p.ended_ms) for p in record.past),
        timed_out_ms=record.timed_out_ms, timed_out_on=record.timed_out_on,
        expected_ms=record.expected_ms,
        spared=dict(zip(record.spared, record.spared_until_ms, strict=True)) or NO_SPARED,
    )  # fmt: skip


def _allocation(state: State, record: records.AllocationRecord) -> None:
    fact = record.fact
    partition = state.partitions[fact.partition]
    application, node = partition.applications[fact.application_id], node_of(partition, fact.node_id)
    allocation = Allocation(
        fact, node, application, record.at_ms, record.asked_seq, record.asked_ms, record.releasing, record.releasing_ms,
        record.overdue, record.by_preemption, replaced=record.replaced, ask_over=record.ask_over,
        until_ms=record.until_ms,
    )  # fmt: skip
    application.asks_over += record.ask_over
    partition.names.add_names(fact.resource)
    allocation_comes(partition, allocation)
    book_allocated(application, node, fact.resource, 1, state.now_ms, fact.placeholder)
    book_devices(node, fact, 1)
    if fact.placeholder:
        application.placeholders += 1
        group = application.task_groups.setdefault(fact.task_group, TaskGroup(fact.task_group, fact.resource))
        group.placed += 1
    if allocation.preempting:
        book_preempting(allocation, 1)


def _task_group(state: State, record: records.TaskGroupRecord) -> None:
    application = state.partitions[record.partition].applications[record.application_id]
    placed = application.task_groups.pop(record.name, TaskGroup(record.name, {})).placed  # counted already
    application.placeholders_coming += record.coming
    application.task_groups[record.name] = TaskGroup(
        record.name, record.min_resource, record.count, record.replaced, record.timed_out, record.coming,
        record.leaving, placed, FreePlaceholders(application.allocations[uuid] for uuid in record.free),
    )  # fmt: skip


def _question(state: State, record: records.QuestionRecord) -> None:
    fact = record.fact
    partition, application, node = _places(state, fact)
    partition.questions[fact.question] = Question(fact, node, application, record.until_ms)
    commit_until(application, record.until_ms, fact.resource, 1)
    book_allocated(application, node, fact.resource, 1, state.now_ms)
    book_devices(node, fact, 1)
    node.allocations_left -= 1


def _replacement(state: State, record: records.ReplacementRecord) -> None:
    fact = record.fact
    partition, application, node = _places(state, fact)
    was = record.ask
    pending = application.asks[fact.allocation_key] if was is None else _pending(application, was)
    placeholder = partition.allocations[record.placeholder]
    replacement = Replacement(fact, placeholder, pending, node, record.question, record.answer_by_ms)
    replacement_begins(application, replacement)
    if replacement.question:
        partition.replacements_asked[replacement.question] = replacement
    if replacement.elsewhere:
        node.arriving[fact.uuid] = replacement
        book_arriving(replacement, 1)


def _preemption(state: State, record: records.PreemptionRecord) -> None:
    partition, application, node = _places(state, record)
    pending = application.asks[record.allocation_key]
    nodes = tuple(partition.nodes[node_id] for node_id in record.nodes)
    members = {application.asks[key]: count for key, count in zip(record.members, record.counts, strict=True)}
    at_ms, question = record.at_ms, record.question
    under_way(partition, Preemption(pending, node, record.uuids, at_ms, question, nodes, members, record.domain))


def _rejection(state: State, record: records.RejectionRecord) -> None:
    rejected = state.partitions[record.fact.partition].rejected
    rejected[record.fact.application_id] = RejectedApplication(record.fact, record.at_ms)


def _account(state: State, record: records.AccountRecord) -> None:
    key = AccountKey(record.partition, record.queue, record.kind, record.name)
    if record.kind == APPLICATION:
        account = state.partitions[record.partition].applications[record.name].account
    else:
        account = state.accounts.find(key) or state.accounts.add_idle(key)
    assert account is not None, "applications with accounts have them by the settings of their queues"
    account.restore(record.half_life_ms, record.at_ms, _past(record.past))


def _past(used: Iterable[records.Used]) -> dict[str, int]:
    return {one.resource: int(one.sum, 16) for one in used}


def _budget(state: State, record: records.BudgetRecord) -> None:
    key = BudgetKey(record.partition, record.queue)
    budget = state.budgets.find(key)
    if record.gone is None:
        assert budget is not None, "its queue has a budget"
        state.timers.cancel(of_budget(budget))
    else:
        settings = record.gone.config.budget
        assert settings is not None, "it is the budget's own"
        budget = state.budgets.add_idle(key, settings)
    budget.from_ms, budget.until_ms, budget.at_ms = record.from_ms, record.until_ms, record.at_ms
    budget.past, budget.later_ms, budget.later = _past(record.past), record.later_ms, _past(record.later)
    if record.gone is None:
        state.timers.put(of_budget(budget))


def _timer(state: State, record: records.TimerRecord) -> None:
    """Earlier versions kept timers that no longer apply; these are dropped."""
    timer = Timer(record.at_ms, record.kind, record.partition, record.application_id, record.key)
    if subject_of(state, timer) is not None:
        state.timers.put(timer)


def _places(
    state: State, named: facts.PredicateAsked | facts.Allocated | records.PreemptionRecord
) -> tuple[Partition, Application, Node]:
    partition = state.partitions[named.partition]
    return partition, partition.applications[named.application_id], partition.nodes[named.node_id]


RESTORERS: Final[dict[type[Record], Callable[[State, Any], None]]] = {
    records.RmRecord: _rm,
    records.HoldRecord: _hold,
    records.DrainRecord: _drain,
    records.ActionRecord: _action,
    records.LeftGuestRecord: _left_guest,
    records.PartitionRecord: _partition,
    records.QueueRecord: _queue,
    records.NodeRecord: _node,
    records.RuntimeRecord: _runtime,
    records.ApplicationRecord: _application,
    records.AskRecord: _ask,
    records.AllocationRecord: _allocation,
    records.TaskGroupRecord: _task_group,
    records.PredicateClassRecord: _predicate_class,
    records.QuestionRecord: _question,
    records.ReplacementRecord: _replacement,
    records.PreemptionRecord: _preemption,
    records.RejectionRecord: _rejection,
    records.AccountRecord: _account,
    records.BudgetRecord: _budget,
    records.LoanRecord: _loan,
    records.TimerRecord: _timer,
}
