"""A state as plain values, and its digest. Tests and operators compare states by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from ..rules.resource import items_of
from ..state import (
    NEVER_MS,
    Account,
    Allocation,
    Application,
    Budget,
    Node,
    Partition,
    PendingAsk,
    PredicateClass,
    Preemption,
    Queue,
    Replacement,
    State,
    TaskGroup,
)
from ..state.accounts import shown

V = TypeVar("V")


def dump(state: State) -> dict[str, Any]:
    """Everything that facts determine: without index, stream positions and clock. Sums have no zeros. Later
    additions are left out while they are empty, so that digests of states without them stay as they were."""
    return {
        **_fields(
            state, "rm_id", "registration", "registered", "rm_state", "configuration", "next_seq", "next_allocation",
            "next_question",
        ),
        "holds": _by_key(state.holds),
        "drains": _by_key(state.drains),
        **({"loans": _by_key(state.loans)} if state.loans else {}),
        "actions": list(state.actions.values()),
        **_accounts(state),
        **({"budgets": [_budget(budget) for _, budget in state.budgets.items()]} if state.budgets else {}),
        "left_guests": msgspec.to_builtins(state.left_guests),
        "timers": sorted(state.timers),
        "partitions": _each(_partition, state.partitions),
    }  # fmt: skip


def _fields(of: object, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


def _sums(of: object, *names: str) -> dict[str, Any]:
    return {name: items_of(getattr(of, name)) for name in names}


def _each(dumped: Callable[[V], dict[str, Any]], values: Mapping[str, V]) -> dict[str, Any]:
    return {name: dumped(value) for name, value in values.items()}


def _by_key(values: Mapping[Any, msgspec.Struct]) -> list[Any]:
    return sorted((*key, msgspec.to_builtins(value)) for key, value in values.items())


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
        **_fields(
            partition, "settings", "draining", "preemption_refused_ms", "verdicts", "last_asked", "questions_paused"
        ),
        **_sums(partition, "total"),
        "queues": _each(_queue, partition.queues),
        "nodes": _each(_node, partition.nodes),
        "unreported": _each(_node, partition.unreported),
        "applications": _each(_application, partition.applications),
        "rejected": [_fields(rejected, "fact", "at_ms") for rejected in partition.rejected.values()],
        "allocations": _each(_allocation, partition.allocations),
        "questions": [question.fact for _, question in sorted(partition.questions.items())],
        "preemptions": sorted(
            (app_id, key, p.node.id, p.uuids, p.at_ms, p.question, *_together(p))
            for (app_id, key), p in partition.preemptions.items()
        ),
        "set_aside": sorted(partition.set_aside),
        "predicate_classes": _each(_predicate_class, partition.predicate_classes),
        "idle_classes": tuple(partition.idle_classes),
        "class_questions": {str(number): found.name for number, found in partition.class_questions.items()},
        **(_fields(partition, "work", "measured_ms") if partition.work is not None else {}),
        **({"windows": dict(partition.windows)} if partition.windows else {}),
        **(_fields(partition, "avoided", "avoided_ms") if partition.avoided is not None else {}),
    }


def _allocation(allocation: Allocation) -> dict[str, Any]:
    return _fields(
        allocation, "fact", "at_ms", "asked_seq", "asked_ms", "releasing", "releasing_ms", "overdue", "by_preemption",
        "replaced", "ask_over",
    )  # fmt: skip


def _together(preemption: Preemption) -> tuple[Any, ...]:
    """The fields that only a preemption for a group has."""
    if not preemption.nodes:
        return ()
    members = tuple((ask.ask.allocation_key, count) for ask, count in preemption.members.items())
    return (tuple(node.id for node in preemption.nodes), preemption.domain, members)


def _queue(queue: Queue) -> dict[str, Any]:
    return {
        **_fields(
            queue, "leaf", "managed", "settings", "draining_since_ms", "drain_report_ms", "excess", "priority",
            "running",
        ),
        **_sums(queue, "allocated", "asked", "preempting"),
        "children": sorted(queue.children),
        "applications": sorted(queue.applications),
        "refusals": sorted(queue.refusals.items()),
        "priorities": sorted(queue.priorities.items()),
        "trackers": sorted((t.kind, t.name, items_of(t.used), t.running, t.members) for t in queue.trackers.values()),
    }  # fmt: skip


def _node(node: Node) -> dict[str, Any]:
    return {
        **_fields(node, "attributes", "capacity", "draining", "drained_by_rm", "kept_by_preemption"),
        **_sums(node, "occupied", "allocated"),
        "rejected": [_fields(one, "name", "fact", "reason") for one in node.rejected.values()],
        **({"left": True} if node.left else {}),
        **({"leaves_ms": node.leaves_ms} if node.leaves_ms < NEVER_MS else {}),
        **({"windows": sorted(node.in_windows)} if node.in_windows else {}),
        **({"reserved_ms": node.reserved_ms} if node.reservation is not None else {}),
        **({"promise": node.promise} if node.promise is not None else {}),
        "allocations": sorted(node.allocations),
        "arriving": sorted(node.arriving),
    }


def _application(application: Application) -> dict[str, Any]:
    return {
        **_fields(
            application, "user", "groups", "tags", "seq", "at_ms", "execution_timeout_ms", "placeholder_ask",
            "gang_scheduling_style", "state", "state_at_ms", "log", "states_left_out", "placeholders",
            "placeholders_coming", "placeholders_until_ms", "resumed", "priority", "counts_as_running", "open_claims",
        ),
        **_sums(application, "allocated", "allocated_placeholder"),
        "queue": application.queue.path,
        "asks": _each(_ask, application.asks),
        "allocations": sorted(application.allocations),
        "peak": items_of(application.peak or {}),
        "task_groups": _each(_task_group, application.task_groups),
        "replacements": _each(_replacement, application.replacements),
        "priorities": sorted(application.priorities.items()),
    }  # fmt: skip


def _ask(ask: PendingAsk) -> dict[str, Any]:
    return {
        **_fields(
            ask, "ask", "pending", "seq", "at_ms", "asked", "refusal", "refused_at_ms", "preempted_at_ms", "past"
        ),
        "reservations": tuple(ask.reservations),
        **({"expected_ms": ask.expected_ms} if ask.expected_ms else {}),
        "refused": sorted(ask.refused),
        **({"spared": dict(ask.spared)} if ask.spared else {}),
        "waiting": sorted((ask.waiting or {}).items()),
    }


def _replacement(replacement: Replacement) -> dict[str, Any]:
    return {
        **_fields(replacement, "fact", "question"),
        "placeholder": replacement.placeholder.fact.uuid,
        "ask": _fields(replacement.pending, "ask", "seq", "at_ms"),
    }


def _predicate_class(found: PredicateClass) -> dict[str, Any]:
    fields = _fields(found, "asks", "accepted", "refused", "refusal", "until_ms", "question", "answer_by_ms")
    return {**fields, "asked": tuple(found.asked)}


def _task_group(group: TaskGroup) -> dict[str, Any]:
    fields = _fields(group, "min_resource", "count", "replaced", "timed_out", "coming", "leaving")
    return {**fields, "free": list(group.free.uuids())}
