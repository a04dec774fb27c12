"""A state as plain values, and its digest. Tests and operators compare states by them."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from ..rules.resource import Items, Resource, items_of
from ..state import (
    NEVER_MS,
    Account,
    Application,
    Budget,
    Node,
    Partition,
    PendingAsk,
    PredicateClass,
    Preemption,
    Queue,
    State,
    TaskGroup,
)
from ..state.accounts import shown


def dump(state: State) -> dict[str, Any]:
    """Everything that facts determine: without index, stream positions and clock. Sums have no zeros."""
    return {
        "rm_id": state.rm_id,
        "registration": state.registration,
        "registered": state.registered,
        "rm_state": state.rm_state,
        "configuration": state.configuration,
        "next_seq": state.next_seq,
        "next_allocation": state.next_allocation,
        "next_question": state.next_question,
        "holds": sorted((*key, msgspec.to_builtins(hold)) for key, hold in state.holds.items()),
        "drains": sorted((*key, msgspec.to_builtins(drain)) for key, drain in state.drains.items()),
        **(
            {"loans": sorted((*key, msgspec.to_builtins(loan)) for key, loan in state.loans.items())}
            if state.loans
            else {}
        ),
        "actions": list(state.actions.values()),
        **_accounts(state),
        **({"budgets": [_budget(budget) for _, budget in state.budgets.items()]} if state.budgets else {}),
        "left_guests": msgspec.to_builtins(state.left_guests),
        "timers": sorted(state.timers),
        "partitions": {name: _partition(partition) for name, partition in state.partitions.items()},
    }


def digest(state: State) -> str:
    """SHA-256 of the dump, in hexadecimal. Equal states have equal digests, in whatever order maps were filled."""
    return sha256(msgspec.json.encode(dump(state), order="deterministic")).hexdigest()


def _accounts(state: State) -> dict[str, Any]:
    """The past of accounts, and in which order idle ones are forgotten. Nothing if there are no accounts."""
    kept = [(*key, *_account(account)) for key, account in state.accounts.items() if account.decay is not None]
    own = [
        (partition.name, application.id, *_account(application.account))
        for partition in state.partitions.values()
        for application in partition.applications.values()
        if application.account is not None and application.account.key is None
    ]
    return {"accounts": kept, "own_accounts": sorted(own, key=lambda one: one[:2])} if kept or own else {}


def _account(account: Account) -> tuple[int, int, int, dict[str, str]]:
    return account.half_life_ms, account.at_ms, account.members, shown(account.past)


def _budget(budget: Budget) -> tuple[Any, ...]:
    past, later = shown(budget.past), shown(budget.later)
    return (*budget.key, budget.settings, budget.from_ms, budget.until_ms, budget.at_ms, past, budget.later_ms, later)


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "settings": partition.settings,
        "draining": partition.draining,
        "total": _sum(partition.total),
        "queues": {path: _queue(queue) for path, queue in partition.queues.items()},
        "nodes": {node_id: _node(node) for node_id, node in partition.nodes.items()},
        "unreported": {node_id: _node(node) for node_id, node in partition.unreported.items()},
        "applications": {app_id: _application(application) for app_id, application in partition.applications.items()},
        "rejected": [{"fact": r.fact, "at_ms": r.at_ms} for r in partition.rejected.values()],
        "allocations": {
            uuid: {
                "fact": a.fact,
                "at_ms": a.at_ms,
                "asked_seq": a.asked_seq,
                "asked_ms": a.asked_ms,
                "releasing": a.releasing,
                "releasing_ms": a.releasing_ms,
                "overdue": a.overdue,
                "by_preemption": a.by_preemption,
                "replaced": a.replaced,
                "ask_over": a.ask_over,
            }
            for uuid, a in partition.allocations.items()
        },
        "questions": [question.fact for _, question in sorted(partition.questions.items())],
        "preemptions": sorted(
            (app_id, key, p.node.id, p.uuids, p.at_ms, p.question, *_together(p))
            for (app_id, key), p in partition.preemptions.items()
        ),
        "preemption_refused_ms": partition.preemption_refused_ms,
        "set_aside": sorted(partition.set_aside),
        "predicate_classes": {name: _predicate_class(found) for name, found in partition.predicate_classes.items()},
        "idle_classes": tuple(partition.idle_classes),
        "class_questions": {str(number): found.name for number, found in partition.class_questions.items()},
        "verdicts": partition.verdicts,
        "last_asked": partition.last_asked,
        "questions_paused": partition.questions_paused,
        **({"work": partition.work, "measured_ms": partition.measured_ms} if partition.work is not None else {}),
        **({"windows": dict(partition.windows)} if partition.windows else {}),
        **({"avoided": partition.avoided, "avoided_ms": partition.avoided_ms} if partition.avoided is not None else {}),
    }


def _together(preemption: Preemption) -> tuple[Any, ...]:
    """What only a preemption for a group has."""
    if not preemption.nodes:
        return ()
    members = tuple((ask.ask.allocation_key, count) for ask, count in preemption.members.items())
    return (tuple(node.id for node in preemption.nodes), preemption.domain, members)


def _queue(queue: Queue) -> dict[str, Any]:
    return {
        "leaf": queue.leaf,
        "managed": queue.managed,
        "settings": queue.settings,
        "draining_since_ms": queue.draining_since_ms,
        "drain_report_ms": queue.drain_report_ms,
        "excess": queue.excess,
        "children": sorted(queue.children),
        "applications": sorted(queue.applications),
        "allocated": _sum(queue.allocated),
        "asked": _sum(queue.asked),
        "preempting": _sum(queue.preempting),
        "refusals": sorted(queue.refusals.items()),
        "priorities": sorted(queue.priorities.items()),
        "priority": queue.priority,
        "running": queue.running,
        "trackers": sorted((t.kind, t.name, _sum(t.used), t.running, t.members) for t in queue.trackers.values()),
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "attributes": node.attributes,
        "capacity": node.capacity,
        "occupied": _sum(node.occupied),
        "rejected": [{"name": one.name, "fact": one.fact, "reason": one.reason} for one in node.rejected.values()],
        "draining": node.draining,
        "drained_by_rm": node.drained_by_rm,
        **({"left": True} if node.left else {}),
        **({"leaves_ms": node.leaves_ms} if node.leaves_ms < NEVER_MS else {}),
        **({"windows": sorted(node.in_windows)} if node.in_windows else {}),
        "kept_by_preemption": node.kept_by_preemption,
        **({"reserved_ms": node.reserved_ms} if node.reservation is not None else {}),
        **({"promise": node.promise} if node.promise is not None else {}),
        "allocated": _sum(node.allocated),
        "allocations": sorted(node.allocations),
        "arriving": sorted(node.arriving),
    }


def _application(application: Application) -> dict[str, Any]:
    return {
        "queue": application.queue.path,
        "user": application.user,
        "groups": application.groups,
        "tags": application.tags,
        "seq": application.seq,
        "at_ms": application.at_ms,
        "execution_timeout_ms": application.execution_timeout_ms,
        "placeholder_ask": application.placeholder_ask,
        "gang_scheduling_style": application.gang_scheduling_style,
        "state": application.state,
        "state_at_ms": application.state_at_ms,
        "log": application.log,
        "states_left_out": application.states_left_out,
        "asks": {
            key: {
                "ask": a.ask,
                "pending": a.pending,
                "seq": a.seq,
                "at_ms": a.at_ms,
                "reservations": tuple(a.reservations),
                "asked": a.asked,
                **({"expected_ms": a.expected_ms} if a.expected_ms else {}),
                **_refused(a),
                "preempted_at_ms": a.preempted_at_ms,
                **({"spared": dict(a.spared)} if a.spared else {}),
                "waiting": sorted((a.waiting or {}).items()),
                "past": a.past,
            }
            for key, a in application.asks.items()
        },
        "allocations": sorted(application.allocations),
        "allocated": _sum(application.allocated),
        "allocated_placeholder": _sum(application.allocated_placeholder),
        "peak": _sum(application.peak or {}),
        "placeholders": application.placeholders,
        "placeholders_coming": application.placeholders_coming,
        "placeholders_until_ms": application.placeholders_until_ms,
        "task_groups": {name: _task_group(group) for name, group in application.task_groups.items()},
        "replacements": {
            uuid: {
                "fact": r.fact,
                "placeholder": r.placeholder.fact.uuid,
                "ask": _ask(r.pending),
                "question": r.question,
            }
            for uuid, r in application.replacements.items()
        },
        "resumed": application.resumed,
        "priorities": sorted(application.priorities.items()),
        "priority": application.priority,
        "counts_as_running": application.counts_as_running,
        "open_claims": application.open_claims,
    }


def _predicate_class(found: PredicateClass) -> dict[str, Any]:
    return {
        "asks": found.asks,
        "accepted": found.accepted,
        "refused": found.refused,
        "refusal": found.refusal,
        "until_ms": found.until_ms,
        "question": found.question,
        "asked": tuple(found.asked),
        "answer_by_ms": found.answer_by_ms,
    }


def _refused(ask: PendingAsk) -> dict[str, Any]:
    return {"refused": sorted(ask.refused), "refusal": ask.refusal, "refused_at_ms": ask.refused_at_ms}


def _ask(pending: PendingAsk) -> dict[str, Any]:
    return {"ask": pending.ask, "seq": pending.seq, "at_ms": pending.at_ms}


def _task_group(group: TaskGroup) -> dict[str, Any]:
    return {
        "min_resource": group.min_resource,
        "count": group.count,
        "replaced": group.replaced,
        "timed_out": group.timed_out,
        "coming": group.coming,
        "leaving": group.leaving,
        "free": list(group.free.uuids()),
    }


def _sum(resource: Resource) -> Items:
    return items_of(resource)
