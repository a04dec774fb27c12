"""The event records of a commit: what each fact reads like in the event history (000, Event Plugin). Pure.

One table, RECORDS_BY_FACT, has a function for each kind of fact. FACTS_WITHOUT_RECORD has the reason for each other
fact. A record is made from its fact alone, so the records of a commit are the same whenever they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from remuda_events.event_records import allocations, applications, nodes, queues
from remuda_events.event_records.record import Records
from remuda_proto.remuda.v1 import log_pb2

NS_PER_MS: Final = 1_000_000


def event_records_of(commit: log_pb2.Commit) -> list[bytes]:
    """The serialised EventRecords of a commit, in the order of its facts. Their time is that of the decision."""
    at_ns = commit.now_ms * NS_PER_MS
    return [
        record.SerializeToString()
        for decision in commit.decisions
        for fact in decision.facts
        for record in records_of(fact, at_ns)
    ]


def records_of(fact: log_pb2.Fact, at_ns: int) -> Records:
    """The records of one fact. A kind of fact that a newer core has introduced has none."""
    kind = fact.WhichOneof("fact")
    if kind is None or (make := RECORDS_BY_FACT.get(kind)) is None:
        return ()
    return make(getattr(fact, kind), at_ns)


RECORDS_BY_FACT: Final[dict[str, Callable[[Any, int], Records]]] = {
    "rm_paused": queues.rm_paused,
    "rm_resumed": queues.rm_resumed,
    "rm_stopped": queues.rm_stopped,
    "queue_added": queues.queue_added,
    "queue_changed": queues.queue_changed,
    "queue_draining": queues.queue_draining,
    "queue_drain_overdue": queues.queue_drain_overdue,
    "quota_exceeded": queues.quota_exceeded,
    "quota_preempted": queues.quota_preempted,
    "quota_excess_ended": queues.quota_excess_ended,
    "quota_lent": queues.quota_lent,
    "quota_loan_ended": queues.quota_loan_ended,
    "budget_period_began": queues.budget_period_began,
    "queue_restored": queues.queue_restored,
    "queue_removed": queues.queue_removed,
    "queue_held": queues.queue_held,
    "queue_resumed": queues.queue_resumed,
    "partition_added": queues.partition_added,
    "partition_changed": queues.partition_changed,
    "partition_draining": queues.partition_draining,
    "partition_removed": queues.partition_removed,
    "node_added": nodes.node_added,
    "node_changed": nodes.node_changed,
    "node_draining": nodes.node_draining,
    "node_leaving": nodes.node_leaving,
    "node_schedulable": nodes.node_schedulable,
    "window_opened": queues.window_opened,
    "window_closed": queues.window_closed,
    "node_removed": nodes.node_removed,
    "node_reserved": nodes.node_reserved,
    "node_unreserved": nodes.node_unreserved,
    "promise_changed": nodes.promise_changed,
    "application_accepted": applications.application_accepted,
    "application_rejected": applications.application_rejected,
    "application_state_changed": applications.application_state_changed,
    "application_removed": applications.application_removed,
    "application_moved": applications.application_moved,
    "ask_accepted": applications.ask_accepted,
    "ask_changed": applications.ask_accepted,
    "ask_released": applications.ask_released,
    "ask_waiting": applications.ask_waiting,
    "allocated": allocations.allocated,
    "allocation_released": allocations.allocation_released,
    "allocation_recovered": allocations.allocated,
    "existing_allocation_rejected": nodes.existing_allocation_rejected,
    "rejected_allocation_forgotten": nodes.rejected_allocation_forgotten,
    "release_overdue": allocations.release_overdue,
    "preemption_started": applications.preemption_started,
    "preemption_ended": applications.preemption_ended,
    "domain_avoided": applications.domain_avoided,
    "domain_avoidance_ended": applications.domain_avoidance_ended,
    "placeholder_replaced": allocations.placeholder_replaced,
}

# Why a fact has no record.
FACTS_WITHOUT_RECORD: Final = {
    "window_planned": "nothing starts otherwise before the window opens, which has a record",
    "guest_kept": "the guest has its allocation as before, which has a record",
    "devices_assigned": "the allocation has a record; the story has its devices",
    "work_measured": "nothing is placed otherwise before the next allocation, which has a record",
    "action_taken": "its effects have records",
    "action_refused": "nothing changes; the reply to the operator has the refusal",
    "preemption_refused": "the ask still waits; ask_waiting has the reason, and not four times a minute",
    "rm_registered": "no type of record names a resource manager; the facts after it have the changes",
    "registration_refused": "no type of record names a resource manager; the reply to the RM has the reason",
    "configuration_applied": "the facts about partitions and queues before it have records",
    "configuration_refused": "no type of record names a configuration, and nothing changed",
    "node_rejected": "no change of a node: the NodeResponse to the RM has the reason",
    "ask_outstanding": "ask_waiting of an equal ask has a record",
    "time_passed": "the facts before it have its effects",
    "rejection_forgotten": "the rejection has a record, and nothing else changes",
    "ask_rejected": "there is no such ask: the AllocationResponse to the RM has the reason",
    "allocation_rejected": "there is no such allocation: the AllocationResponse to the RM has the reason",
    "release_requested": "nothing is released yet; the release has a record",
    "release_ignored": "there was nothing to release",
    "predicate_asked": "nothing is placed yet; the allocation has a record",
    "predicate_refused": "there may be one for each node; when no node is left, ask_waiting has the reason",
    "predicate_withdrawn": "the ask is as it was before the question",
    "predicates_asked": "nothing is placed yet; allocations have records",
    "predicates_answered": "when no node is left for an ask, ask_waiting has the reason",
    "verdicts_expired": "the asks are as they were",
    "refusals_forgotten": "the ask is as it was",
    "replacement_asked": "nothing is replaced yet; the replacement has records",
    "preemption_asked": "nothing is preempted yet; the preemption has a record",
    "preemption_answered": "the preemption has a record",
    "replacement_started": "nothing is allocated yet; the replacement has records",
    "replacement_cancelled": "nothing was allocated; the ask is as it was",
}
