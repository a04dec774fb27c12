"""Saves a state as records.

Sums, counts of priorities, trackers and the scheduling index are not saved: they follow from the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import TypeVar

from .. import facts
from ..settings import QueueSettings
from ..state import NEVER_MS, Account, AccountKey, Application, Node, Partition, PendingAsk, Queue, State, with_rejected
from ..state.accounts import APPLICATION, shown
from . import records
from .records import Record

R = TypeVar("R", bound=Record)


def save(state: State) -> Iterator[Record]:
    yield _taken(records.RmRecord, state)
    yield from _save_administration(state)
    for partition in state.partitions.values():
        yield from _save_partition(partition)
    yield from _save_accounts(state)
    yield from _save_budgets(state)
    for timer in sorted(state.timers):
        yield records.TimerRecord(*timer)


def _taken(kind: type[R], of: object, *others: object) -> R:
    """A record with these fields, and behind them those of the object by the same names."""
    return kind(*others, *(getattr(of, name) for name in kind.__struct_fields__[len(others) :]))


def _save_administration(state: State) -> Iterator[Record]:
    for (partition, queue), hold in state.holds.items():
        yield records.HoldRecord(facts.QueueHeld(partition, queue, hold.operator, hold.reason), hold.at_ms)
    for (partition, node_id), drain in state.drains.items():
        fact: facts.NodeDraining | facts.NodeLeaving = facts.NodeDraining(
            partition, node_id, drain.operator, drain.reason
        )
        if drain.from_ms:
            fact = facts.NodeLeaving(partition, node_id, drain.from_ms, drain.operator, drain.reason)
        yield records.DrainRecord(fact, drain.at_ms)
    for key, loan in state.loans.items():
        lent = facts.QuotaLent(*key, loan.amounts, loan.guaranteed, loan.until_ms, loan.operator, loan.reason)
        yield records.LoanRecord(lent, loan.at_ms)
    for action_id, outcome in state.actions.items():
        yield records.ActionRecord(outcome, state.action_times.get(action_id, 0))
    for guests in state.left_guests.values():
        for left in guests.values():
            yield records.LeftGuestRecord(
                left.accepted, left.queues, tuple(left.allocations.values()), tuple(left.releases.values())
            )


def _save_partition(partition: Partition) -> Iterator[Record]:
    yield records.PartitionRecord(
        facts.PartitionAdded(partition.name, partition.settings),
        partition.draining,
        partition.preemption_refused_ms,
        partition.last_asked,
        partition.questions_paused,
        partition.work,
        partition.measured_ms,
        partition.avoided,
        partition.avoided_ms,
        tuple(_taken(records.WindowRecord, one, name) for name, one in partition.windows.items()),
    )
    for queue in partition.queues.values():
        yield _saved_queue(partition, queue)
    for node in partition.nodes.values():
        yield _saved_node(partition.name, node)
    yield from _save_predicate_classes(partition)
    for user, name, runs in partition.runtimes.all():
        ran_ms, bound_ms = zip(*runs, strict=True)
        yield records.RuntimeRecord(partition.name, user, name, ran_ms, bound_ms)
    for application in partition.applications.values():
        yield _saved_application(partition.name, application)
    for application in partition.applications.values():
        for pending in application.asks.values():
            yield _saved_ask(partition, pending)
    for allocation in partition.allocations.values():
        yield _taken(records.AllocationRecord, allocation)
    for application in partition.applications.values():
        for g in application.task_groups.values():
            yield records.TaskGroupRecord(
                partition.name, application.id, g.name, g.min_resource, g.count, g.replaced, g.timed_out, g.coming,
                g.leaving, g.free.uuids(),
            )  # fmt: skip
    yield from _save_what_is_under_way(partition)
    for rejected in partition.rejected.values():
        yield _taken(records.RejectionRecord, rejected)


def _save_what_is_under_way(partition: Partition) -> Iterator[Record]:
    for question in partition.questions.values():
        yield _taken(records.QuestionRecord, question)
    replacements = [r for a in partition.applications.values() for r in a.replacements.values()]
    for r in sorted(replacements, key=lambda r: r.fact.uuid):  # the order in which they were started
        there = r.placeholder.application.asks.get(r.fact.allocation_key) is r.pending
        was = None if there else _saved_ask(partition, r.pending)
        yield records.ReplacementRecord(r.fact, r.placeholder.fact.uuid, r.question, was, r.answer_by_ms)
    for (application_id, key), p in partition.preemptions.items():
        yield records.PreemptionRecord(
            partition.name, application_id, key, p.node.id, p.uuids, p.at_ms, p.question,
            tuple(node.id for node in p.nodes), p.domain, tuple(ask.ask.allocation_key for ask in p.members),
            tuple(p.members.values()),
        )  # fmt: skip


def _save_predicate_classes(partition: Partition) -> Iterator[Record]:
    """The records of predicate classes: classes without asks in the order in which they will be forgotten, then the
    others."""
    others = (c for c in partition.predicate_classes.values() if c.name not in partition.idle_classes)
    for found in (*partition.idle_classes.values(), *others):
        verdicts = [records.PredicateVerdict(n, True, _saved_time(at)) for n, at in found.accepted.items()]
        verdicts += (records.PredicateVerdict(n, False, _saved_time(at)) for n, at in found.refused.items())
        yield records.PredicateClassRecord(
            partition.name, found.name, tuple(verdicts), found.refusal, _saved_time(found.until_ms),
            found.question, tuple(found.asked), found.answer_by_ms, found.name in partition.idle_classes,
        )  # fmt: skip


def _save_accounts(state: State) -> Iterator[Record]:
    """The records of accounts: accounts in use by key, then idle accounts in the order in which they will be forgotten,
    then accounts of applications. An account without a half-life has no past."""
    for key, account in state.accounts.items():
        if account.decay is not None:
            yield _saved_account(key, account)
    for partition in state.partitions.values():
        for application in partition.applications.values():
            own = application.account
            if own is not None and own.key is None:
                yield _saved_account(
                    AccountKey(partition.name, application.queue.path, APPLICATION, application.id), own
                )


def _save_budgets(state: State) -> Iterator[Record]:
    """The records of budgets: budgets of queues by key, then the others in the order in which they will be
    forgotten."""
    for key, budget in state.budgets.items():
        gone = None
        if state.budgets.is_idle(key):
            *_, name = key.queue.split(".")
            gone = facts.QueueAdded(key.partition, key.queue, True, True, QueueSettings(name, budget=budget.settings))
        yield records.BudgetRecord(
            *key, budget.from_ms, budget.until_ms, budget.at_ms, _used(budget.past), budget.later_ms,
            _used(budget.later), gone,
        )  # fmt: skip


def _saved_account(key: AccountKey, account: Account) -> records.AccountRecord:
    return records.AccountRecord(*key, account.half_life_ms, account.at_ms, _used(account.past))


def _used(past: Mapping[str, int]) -> tuple[records.Used, ...]:
    return tuple(starmap(records.Used, shown(past).items()))


def _saved_node(partition: str, node: Node) -> records.NodeRecord:
    occupied = with_rejected(node.occupied, node.rejected.values(), -1) if node.rejected else node.occupied
    added = facts.NodeAdded(partition, node.id, node.attributes, node.capacity, occupied, node.drained_by_rm)
    rejected = (facts.ExistingAllocationRejected(one.fact, one.reason, one.name) for one in node.rejected.values())
    return records.NodeRecord(added, tuple(rejected), node.left, node.in_windows)


def _saved_time(at_ms: int) -> int:
    return at_ms if at_ms < NEVER_MS else 0


def _saved_queue(partition: Partition, queue: Queue) -> records.QueueRecord:
    refusals = (
        records.Refusal(dict(like[0]), *like[1:], at_ms, (queue.path, like) in partition.set_aside)
        for like, at_ms in queue.refusals.items()
    )
    added = facts.QueueAdded(partition.name, queue.path, queue.leaf, queue.managed, queue.settings)
    return records.QueueRecord(added, queue.draining_since_ms, tuple(refusals), queue.drain_report_ms, queue.excess)


def _saved_application(partition: str, a: Application) -> records.ApplicationRecord:
    accepted = facts.ApplicationAccepted(
        partition, a.id, a.queue.path, a.user, a.groups, a.tags, a.execution_timeout_ms, a.placeholder_ask,
        a.gang_scheduling_style,
    )  # fmt: skip
    log = tuple(records.StateChange(at_ms, state) for at_ms, state in a.log)
    return records.ApplicationRecord(
        accepted, a.seq, a.at_ms, log, a.resumed, a.counts_as_running, a.placeholders_until_ms, a.states_left_out,
        a.peak or {},
    )  # fmt: skip


def _saved_ask(partition: Partition, a: PendingAsk) -> records.AskRecord:
    kept = tuple(node_id for node_id in a.reservations if partition.nodes[node_id].kept_by_preemption)
    waiting = tuple(records.WaitingSince(*key, at_ms) for key, at_ms in (a.waiting or {}).items())
    past = tuple(records.PastConstraint(*over.key, over.since_ms, over.ended_ms) for over in a.past)
    return records.AskRecord(
        a.ask, a.seq, a.at_ms, a.pending, a.asked, tuple(a.reservations), kept, tuple(sorted(a.refused)), a.refusal,
        a.refused_at_ms, waiting, a.preempted_at_ms, past,
        tuple(partition.nodes[node_id].reserved_ms for node_id in a.reservations), a.timed_out_ms, a.timed_out_on,
        tuple(
            _taken(records.Promise, p, node_id)
            for node_id in a.reservations
            if (p := partition.nodes[node_id].promise) is not None
        ),
        a.expected_ms,
        tuple(a.spared), tuple(a.spared.values()),
    )  # fmt: skip
